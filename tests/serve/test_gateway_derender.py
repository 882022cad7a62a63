"""`/v1/completions/derender`: an engine's ids as text, whole and streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from chatcodec.serve.completions import TextStream
from gateway import MODEL
from gateway_here import CODEC, Here, here
from openai.types import Completion

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = "/v1/completions/derender"
TEXT = "one <|im_end|> 😀 two three"
IDS = list(CODEC.vocab.encode(TEXT))
STOP = CODEC.stop_ids[0]
REQUEST: Any = {"model": MODEL, "prompt": "Go on: "}
PROMPT = len(CODEC.vocab.encode("Go on: "))


@pytest.fixture(scope="module")
def of() -> Iterator[Here]:
    with here() as made:
        yield made


def post(of: Here, body: dict[str, Any], status: int = 200) -> Any:  # noqa: ANN401
    answer = of.post(PATH, body)
    assert answer.status_code == status, answer.text
    return answer.json()


def generated(ids: list[int], reason: str | None = "stop", **fields: object) -> dict[str, Any]:
    choice = {"index": 0, "token_ids": ids, "finish_reason": reason, **fields}
    return {"request_id": "cmpl-7", "choices": [choice]}


def text_of(ids: list[int], *, with_control: bool = False) -> str:
    stream = TextStream(CODEC, with_control=with_control)
    return "".join(getattr(event, "text", "") for event in [*stream.push(ids), *stream.finish()])


def test_responses_become_one_completion(of: Here) -> None:
    """As many prompts as were rendered, with several choices each."""
    asked = {**REQUEST, "prompt": ["a b", "c"], "n": 2}
    several = generated([*IDS, STOP])
    several["choices"].append({"index": 1, "token_ids": IDS[:2], "finish_reason": "length"})
    body = {"generate_responses": [several, generated(IDS[1:])], "completion_request": asked}
    found = post(of, body)
    answer = Completion.model_validate(found, strict=True)
    assert answer.id == "cmpl-7"
    told = [(each.index, each.text, each.finish_reason) for each in answer.choices]
    assert told == [
        (0, TEXT, "stop"),
        (1, text_of(IDS[:2]), "length"),
        (2, text_of(IDS[1:]), "stop"),
    ]
    prompt = sum(len(CODEC.vocab.encode(each)) for each in asked["prompt"])
    count = len(IDS) + 1 + 2 + len(IDS) - 1
    assert found["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": count,
        "total_tokens": prompt + count,
    }
    assert post(of, {**body, "prompt_tokens": [3, 4]})["usage"]["prompt_tokens"] == 7
    ids = post(of, {**body, "prompt_token_ids": [[1, 2], None]})
    assert ids["usage"]["prompt_tokens"] == 2


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("fields", [{}, {"stop": "two"}, {"stop": "two", "logprobs": 1}])
def test_a_streamed_text_is_the_whole_one(of: Here, fields: dict[str, Any], size: int) -> None:
    asked = {"completion_request": {**REQUEST, **fields}}
    content = [{"token_id": each, "logprob": -0.5, "top_logprobs": []} for each in IDS]
    whole = post(
        of,
        {"generate_responses": [generated(IDS, logprobs={"content": content})], **asked},
    )
    text, reasons, tokens = "", [], []
    state: Any = None
    for start in range(0, len(IDS), size):
        reason = "stop" if start + size >= len(IDS) else None
        told = {"content": content[start : start + size]}
        chunk = generated(IDS[start : start + size], reason, logprobs=told)
        body = {"stream": True, "generate_chunk": chunk, "stream_state": state, **asked}
        found = post(of, body)
        state, chunk = found["stream_state"], found["chunk"]
        (choice,) = chunk["choices"]
        assert (chunk["id"], chunk["object"]) == ("cmpl-7", "text_completion")
        text += choice["text"]
        reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
        tokens += (choice["logprobs"] or {}).get("tokens", [])
    (choice,) = whole["choices"]
    assert text == choice["text"] == (TEXT.partition("two")[0] if fields else TEXT)
    assert set(reasons) == {"stop"}
    if "logprobs" in fields:
        assert choice["logprobs"]["tokens"] == tokens
        assert state["output_logprobs"] == content
    last = {"request_id": "x", "choices": [], "usage": {"prompt_tokens": 1}}
    end = post(of, {"stream": True, "generate_chunk": last, "stream_state": state, **asked})
    assert end["chunk"]["usage"]["prompt_tokens"] == PROMPT
    assert end["chunk"]["usage"]["completion_tokens"] == len(IDS)


def test_control_is_told_where_the_request_asks_for_it(of: Here) -> None:
    ids = [*IDS[:2], CODEC.vocab.control["<|im_start|>"], *IDS[2:]]
    responses = {"generate_responses": [generated(ids)]}
    assert post(of, responses)["choices"][0]["text"] == TEXT
    asked = {"completion_request": {**REQUEST, "skip_special_tokens": False}}
    told = post(of, {**responses, **asked})["choices"][0]["text"]
    assert told == text_of(ids, with_control=True) != TEXT


def test_an_id_that_ends_the_text_is_not_told(of: Here) -> None:
    end = IDS[-1]
    asked = {"completion_request": {**REQUEST, "stop_token_ids": [end]}}
    found = post(of, {"generate_responses": [generated(IDS)], **asked})
    assert found["choices"][0]["text"] == text_of(IDS[:-1])


def test_what_is_rendered_is_derendered(of: Here) -> None:
    asked = {"prompt": ["one", "two"], "max_tokens": 5}
    requests = of.post("/v1/completions/render", asked).json()
    responses = [generated(request["token_ids"]) for request in requests]
    found = post(of, {"generate_responses": responses, "completion_request": asked})
    assert [each["text"] for each in found["choices"]] == asked["prompt"]


WRONG: Any = [
    {},
    {"generate_responses": 5},
    {"generate_responses": []},
    {"generate_responses": [5]},
    {"generate_responses": [{"choices": []}]},
    {"generate_responses": [{"choices": [{"token_ids": ["a"]}]}]},
    {"generate_responses": [generated([1])], "prompt_token_ids": "x"},
    {"generate_responses": [generated([1])], "prompt_token_ids": [["a"]]},
    {"generate_responses": [generated([1])], "completion_request": 5},
    {"generate_responses": [generated([1])], "completion_request": {"prompt": 5}},
    {"generate_responses": [generated([1])], "completion_request": {"messages": []}},
    {"stream": True},
    {"stream": True, "generate_chunk": {"choices": [{}, {}]}},
    {"stream": True, "generate_chunk": generated([1]), "prompt_token_ids": [[1]]},
    {"stream": True, "generate_chunk": generated([1]), "stream_state": {"output_logprobs": [1]}},
]


@pytest.mark.parametrize("body", WRONG)
def test_a_wrong_body_gets_a_typed_error(of: Here, body: dict[str, Any]) -> None:
    assert post(of, body, 400)["error"]["message"]


def test_log_probabilities_of_a_streamed_chat_are_the_whole_ones(of: Here) -> None:
    """Ids that were held back are told with their own numbers, not those of later ones."""
    ids = CODEC.vocab.encode("one two three four five").tolist()
    told = [{"token_id": id_, "logprob": -at, "top_logprobs": []} for at, id_ in enumerate(ids)]
    hi = [{"role": "user", "content": "Hi"}]
    asked = {"chat_request": {"messages": hi, "logprobs": True, "stop": " three six"}}
    path, state = "/v1/chat/completions/derender", None
    entries: list[Any] = []
    for at, id_ in enumerate(ids):
        reason = "stop" if at + 1 == len(ids) else None
        chunk = generated([id_], reason, logprobs={"content": told[at : at + 1]})
        body = {"stream": True, "generate_chunk": chunk, "stream_state": state, **asked}
        found = of.post(path, body).json()
        state = found["stream_state"]
        entries += (found["chunk"]["choices"][0]["logprobs"] or {}).get("content") or []
    response = generated(ids, logprobs={"content": told})
    whole = of.post(path, {"generate_response": response, **asked}).json()["choices"][0]
    assert entries == whole["logprobs"]["content"]
    assert [each["logprob"] for each in entries] == [each["logprob"] for each in told]
