"""A session that a client names is a memory of its own; without one, nothing is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from chatcodec.serve.sessions import HEADER, without_session
from chatcodec.serve.settings import KEYS
from chatcodec.trajectory import read_table
from gateway_here import CODEC, HI, Here, here
from test_gateway_memory import AND, MEMORY, SPLIT, STOP, prompts, told

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE = [*CODEC.vocab.encode("Hello"), STOP]
CHAT = "/v1/chat/completions"


@pytest.fixture
def of() -> Iterator[Here]:
    """A gateway whose engine says the same text with one list of ids, then with another."""
    said: list[list[int]] = []

    def script(_: list[int]) -> list[int]:
        said.append([*SPLIT, STOP] if len(said) % 2 == 0 else WHOLE)
        return said[-1]

    with here(script, memory=1 << 20, trajectories=True) as made:
        yield made


def at(name: str) -> dict[str, Any]:
    return {"headers": {HEADER: name}}


def next_of(of: Here, path: str, message: Any, **more: Any) -> dict[str, int]:  # noqa: ANN401
    answer = of.post(path, {"messages": [*HI, message, AND], "model": "demo"}, **more)
    assert answer.status_code == 200, answer.text
    return told(answer.headers.get(MEMORY))


@pytest.mark.parametrize("way", ["header", "path"])
def test_samples_of_one_text_stay_apart_by_their_sessions(of: Here, way: str) -> None:
    """Without a session the latest sample counts; each session has its own."""

    def ask(session: str, messages: Any) -> Any:  # noqa: ANN401
        body = {"messages": messages, "model": "demo"}
        if way == "path":
            return of.post(f"/sessions/{session}{CHAT}", body)
        return of.post(CHAT, body, **at(session))

    answers = [ask(name, HI) for name in "ab"]
    (one, other) = (answer.json()["choices"][0]["message"] for answer in answers)
    assert one["content"] == other["content"]
    for session, message, sampled in (("a", one, [*SPLIT, STOP]), ("b", other, WHOLE)):
        again = ask(session, [*HI, message, AND])
        assert told(again.headers[MEMORY])["known"] == 1
        seen = [*prompts(of)[0], *sampled]
        assert prompts(of)[-1][: len(seen)] == seen
    assert told(ask("c", [*HI, one, AND]).headers[MEMORY])["unknown"] == 1


def test_a_session_in_the_path_is_that_of_the_header(of: Here) -> None:
    message = of.post(CHAT, {"messages": HI}, **at("a")).json()["choices"][0]["message"]
    assert next_of(of, f"/sessions/a{CHAT}", message)["known"] == 1
    assert next_of(of, f"/sessions/b{CHAT}", message, **at("a"))["known"] == 0
    assert next_of(of, CHAT, message)["known"] == 0
    assert of.metric('chatcodec_requests_total{api="chat"') == 4


def test_trajectories_of_a_session(of: Here) -> None:
    for name in ("a", "b"):
        of.post(CHAT, {"messages": HI}, **at(name))

    def rows(path: str, **more: Any) -> list[str]:  # noqa: ANN401
        raw = of.client.get(of.url + path, **more).content
        return [each.session for each in read_table(pa.ipc.open_stream(raw).read_all())]

    assert rows("/v1/trajectories", **at("a")) == ["a"]
    assert rows("/sessions/b/v1/trajectories") == ["b"]
    assert sorted(rows("/v1/trajectories")) == ["a", "b"]


def test_keys_part_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS, "sk-a, sk-b")
    with here(lambda _: [*SPLIT, STOP], memory=1 << 20) as of:
        a, b = ({"authorization": f"Bearer sk-{name}", HEADER: "one"} for name in "ab")
        first = of.post(CHAT, {"messages": HI}, headers=a)
        message = first.json()["choices"][0]["message"]
        assert next_of(of, CHAT, message, headers=a)["known"] == 1
        assert next_of(of, CHAT, message, headers=b)["known"] == 0
        assert of.post(f"/sessions/one{CHAT}", {"messages": HI}).status_code == 401


def test_a_name_that_is_too_long(of: Here) -> None:
    answer = of.post(CHAT, {"messages": HI}, **at("x" * 257))
    assert answer.status_code == 400
    assert "257 characters" in answer.text
    assert of.post(CHAT, {"messages": HI}, **at("x" * 256)).status_code == 200


@pytest.mark.parametrize(
    ("path", "bare"),
    [
        ("/sessions/a/v1/models", "/v1/models"),
        ("/v1/models", "/v1/models"),
        ("/sessions/a", "/sessions/a"),
        ("/sessions", "/sessions"),
    ],
)
def test_paths(path: str, bare: str) -> None:
    assert without_session(path) == bare
