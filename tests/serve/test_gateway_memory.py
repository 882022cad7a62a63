"""A gateway with a memory, as its clients and its operator see it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from chatcodec.serve.apis import APIS
from chatcodec.serve.demo.engine import engine
from chatcodec.serve.settings import KEYS as KEYS_VARIABLE
from chatcodec.serve.sizes import read_size
from gateway import gateway, serving
from gateway_here import CODEC, HI, Here, here
from test_gateway_history import ASKED, PATHS, TOOLS, history
from test_gateway_history import body as body_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENCODE, STOP = CODEC.vocab.encode, CODEC.stop_ids[0]
AND: Any = {"role": "user", "content": "And?"}
SPLIT = [*ENCODE("He"), *ENCODE("llo")]
"""Ids that no text is encoded to."""
MEMORY = "x-chatcodec-memory"


class Script:
    """What the engine says next; by default, the same again."""

    def __init__(self) -> None:
        self.ids = [*SPLIT, STOP]

    def __call__(self, _: list[int]) -> list[int]:
        return self.ids


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def of(script: Script) -> Iterator[Here]:
    with here(script, memory=1 << 20, log_text=True) as made:
        yield made


def prompts(of: Here) -> list[list[int]]:
    return [body["prompt"] for body in of.asked]


def told(header: str | None) -> dict[str, int]:
    parts = (part.split("=") for part in (header or "").split(", ") if part)
    return {name: int(count) for name, count in parts}


def whole_of(answer: Any, api: str) -> Any:  # noqa: ANN401
    """The answer as one object, of a stream too."""
    if answer.headers["content-type"] == "application/json":
        return answer.json()
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    events = [json.loads(line) for line in lines]
    return next(each for each in APIS if each.name == api).collect(events)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", PATHS)
def test_each_api_goes_on_with_what_was_sampled(
    of: Here,
    script: Script,
    api: str,
    stream: bool,  # noqa: FBT001
) -> None:
    messages = [ASKED]
    for turn in range(3):
        answer = of.post(PATHS[api], {**body_of(api, messages, 50), "stream": stream})
        assert answer.status_code == 200, answer.text
        counts = told(answer.headers.get(MEMORY))
        if turn:
            seen = [*prompts(of)[-2], *script.ids]
            assert prompts(of)[-1][: len(seen)] == seen
            assert (counts["known"], counts["unknown"]) == (turn, 0)
            assert counts["ids"] == len(seen)
            assert counts["note-ids"] == 1
        else:
            assert counts == {}
        said = history(api, whole_of(answer, api))[1:]
        messages = [*messages, *said, AND]


@pytest.mark.parametrize("api", PATHS)
def test_results_of_calls_go_on_in_each_api(of: Here, script: Script, api: str) -> None:
    control = CODEC.vocab.control
    act, plugin, done = (
        control[name] for name in ("<|action_start|>", "<|plugin|>", "<|action_end|>")
    )
    call = ENCODE('\n{"name": "weather",  "parameters": {"city": "Oslo"}}')
    script.ids = [*ENCODE("Let me"), act, plugin, *call, done, STOP]
    first = of.post(PATHS[api], body_of(api, [ASKED], 50))
    messages = history(api, first.json())
    assert len(messages) > 2
    again = of.post(PATHS[api], body_of(api, messages, 50))
    seen = [*prompts(of)[0], *script.ids]
    assert prompts(of)[1][: len(seen)] == seen
    assert "rain" in of.prompt
    assert told(again.headers[MEMORY])["known"] == 1


def test_each_choice_is_remembered(of: Here, script: Script) -> None:
    first = of.chat(n=3)
    for choice in first.json()["choices"]:
        again = of.chat(messages=[*HI, choice["message"], AND])
        assert told(again.headers[MEMORY])["unknown"] == 0
        seen = [*prompts(of)[0], *script.ids]
        assert prompts(of)[-1][: len(seen)] == seen


def test_what_a_client_changed_is_encoded_and_told(of: Here) -> None:
    message = of.chat().json()["choices"][0]["message"]
    lied = {**message, "content": "Hullo"}
    again = of.chat(messages=[*HI, lied, AND])
    assert told(again.headers[MEMORY]) == {"known": 0, "unknown": 1, "ids": 0}
    assert prompts(of)[1] == CODEC.encode([*HI, lied, AND]).ids.tolist()
    assert of.metric('chatcodec_memory_answers_total{found="unknown"}') == 1
    assert of.metric("chatcodec_memory_ids_total") == 0


def test_tools_that_change_are_encoded_and_told(of: Here) -> None:
    message = of.chat().json()["choices"][0]["message"]
    again = of.chat(messages=[*HI, message, AND], tools=TOOLS["chat"])
    assert told(again.headers[MEMORY])["unknown"] == 1
    assert of.metric("chatcodec_memory_bytes") > 0


def test_a_stop_string_leaves_the_ids(of: Here, script: Script) -> None:
    """The client has the text before it; the model goes on with what it sampled."""
    script.ids = [*SPLIT, *ENCODE(" END more"), STOP]
    message = of.chat(stop=" END").json()["choices"][0]["message"]
    assert message["content"] == "Hello"
    again = of.chat(messages=[*HI, message, AND])
    assert told(again.headers[MEMORY])["known"] == 1
    assert CODEC.vocab.decode(prompts(of)[1]).count(" END") == 1


def test_clients_share_nothing(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS_VARIABLE, "sk-a, sk-b")
    with here(script, memory=1 << 20) as of:
        a, b = ({"authorization": f"Bearer sk-{name}"} for name in "ab")
        body = {"messages": HI}
        message = of.post("/v1/chat/completions", body, headers=a).json()["choices"][0]["message"]
        more = {"messages": [*HI, message, AND]}
        counts = [
            told(of.post("/v1/chat/completions", more, headers=headers).headers[MEMORY])
            for headers in (a, b)
        ]
        assert [each["known"] for each in counts] == [1, 0]
        assert prompts(of)[2] == CODEC.encode(more["messages"]).ids.tolist()


def test_without_the_setting_nothing_is_kept(script: Script) -> None:
    with here(script) as of:
        message = of.chat().json()["choices"][0]["message"]
        answer = of.chat(messages=[*HI, message, AND])
        assert MEMORY not in answer.headers
        assert prompts(of)[1] == CODEC.encode([*HI, message, AND]).ids.tolist()


def test_a_large_history_is_read_elsewhere(script: Script) -> None:
    """By a process that asks the store of the gateway's own."""
    long: Any = {"role": "user", "content": "long " * 20_000}
    with here(script, memory=1 << 24, readers=1) as of:
        message = of.chat(messages=[long]).json()["choices"][0]["message"]
        again = of.chat(messages=[long, message, AND])
        assert told(again.headers[MEMORY])["known"] == 1
        seen = [*prompts(of)[0], *script.ids]
        assert prompts(of)[1][: len(seen)] == seen


def test_rendering_shows_what_would_be_sent(of: Here) -> None:
    message = of.chat().json()["choices"][0]["message"]
    more = {"messages": [*HI, message, AND]}
    shown = of.post("/v1/chat/completions/render", more).json()
    of.chat(**more)
    assert shown["token_ids"] == prompts(of)[-1]


@pytest.mark.parametrize(
    ("text", "size"), [("64MiB", 1 << 26), ("2 GB", 2 * 10**9), ("7", 7), ("0", 0), ("1KiB", 1024)]
)
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1.5MiB", "1 mib", "1e9", "9" * 99])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        read_size(text)


def test_the_command_line_and_the_log(script: Script, tmp_path: Path) -> None:
    with (
        serving(engine(script)) as backend,
        gateway(backend, tmp_path, "--memory", "1MiB", "--format", "internlm2") as of,
    ):
        chat: Any = of.openai.chat.completions
        message = chat.create(model="demo", messages=HI).choices[0].message
        raw = chat.with_raw_response.create(model="demo", messages=[*HI, message, AND])
        assert told(raw.headers[MEMORY])["known"] == 1
    lines = [json.loads(line) for line in of.log.read_text("utf-8").splitlines()]
    logged = [line["memory"] for line in lines if "memory" in line]
    assert [each["known"] for each in logged] == [1]


@pytest.mark.parametrize("api", ["chat", "messages"])
def test_an_answer_that_a_client_began(of: Here, script: Script, api: str) -> None:
    """The next prompt has what the client began, and what was sampled after it."""
    began: Any = {"role": "assistant", "content": "Well, "}
    more = {} if api == "messages" else {"continue_final_message": True}
    body = {"messages": [ASKED, began], "max_tokens": 50, **more}
    answer = whole_of(of.post(PATHS[api], body), api)
    said = history(api, answer)[1]
    text = said["content"] if isinstance(said["content"], str) else said["content"][0]["text"]
    assert text == "Hello"
    whole = {"role": "assistant", "content": f"Well, {text}"}
    body = {"messages": [ASKED, whole, AND], "max_tokens": 50}
    again = of.post(PATHS[api], body)
    seen = [*prompts(of)[0], *script.ids]
    assert prompts(of)[1][: len(seen)] == seen
    assert told(again.headers[MEMORY])["known"] == 1
    body = {"messages": [ASKED, whole, AND, {"role": "assistant", "content": "Hello"}, AND]}
    again = of.post(PATHS[api], {**body, "max_tokens": 50})
    seen = [*prompts(of)[1], *script.ids]
    assert prompts(of)[2][: len(seen)] == seen
