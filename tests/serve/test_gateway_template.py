"""A gateway whose prompts are written by a model's chat template."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from gateway import free_port, gateway
from gateway_here import Here, here
from test_recognise import UNREAD, folder
from test_template_codec import CHATML, made

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STRICT = (
    "{% if messages[0].role != 'user' %}{{ raise_exception('no question') }}{% endif %}" + CHATML
)
HI: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def of() -> Iterator[Here]:
    _, codec = made(STRICT)
    with here(lambda _: [codec.stop_ids[0]], codec) as gateway:
        yield gateway


REFUSED: Any = [
    ("/v1/chat/completions", {"messages": [{"role": "assistant", "content": "x"}]}, "no question"),
    ("/v1/chat/completions", {"messages": [*HI, {"role": "user", "content": {}}]}, "not supported"),
    ("/v1/responses", {"input": [*HI, {"type": "reasoning", "summary": []}]}, "`role`"),
    ("/v1/chat/completions/render", {"messages": [{"role": "system", "content": "x"}]}, "question"),
    ("/tokenize", {"messages": [{"role": "assistant", "content": "x"}]}, "no question"),
    ("/v1/messages/count_tokens", {"messages": HI, "system": "x", "max_tokens": 5}, "no question"),
]


@pytest.mark.parametrize(("path", "body", "problem"), REFUSED)
def test_what_a_template_cannot_write_is_a_clients_fault(
    of: Here, path: str, body: dict[str, Any], problem: str
) -> None:
    answer = of.post(path, body)
    assert answer.status_code == 400, answer.text
    assert "template" in answer.json()["error"]["message"]
    assert problem in answer.json()["error"]["message"]
    assert of.chat(messages=HI).status_code == 200


TOOL: Any = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
NO_PLACE: Any = [
    ({"messages": HI, "tools": [TOOL]}, "tools"),
    ({"messages": [{**HI[0], "name": "ada"}]}, "messages[0].name"),
    (
        {"messages": [*HI, {"role": "assistant", "content": "x", "reasoning": "y"}, *HI]},
        "reasoning",
    ),
]


@pytest.mark.parametrize(("body", "place"), NO_PLACE)
def test_what_a_template_has_no_place_for_is_refused(
    of: Here, body: dict[str, Any], place: str
) -> None:
    answer = of.post("/v1/chat/completions", {**body})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert place in error["param"]
    assert "has no place for" in error["message"]


@pytest.mark.parametrize(("policy", "status"), [("drop", 200), ("drop=name", 400)])
def test_an_operator_leaves_it_out(policy: str, status: int) -> None:
    _, codec = made(STRICT)
    with here(lambda _: [codec.stop_ids[0]], codec, on_unsupported=policy) as gateway:
        answer = gateway.post("/v1/chat/completions", {"messages": HI, "tools": [TOOL]})
        assert answer.status_code == status, answer.text
        named = gateway.post("/v1/chat/completions", {"messages": [{**HI[0], "name": "ada"}]})
        assert named.status_code == 200, named.text
        assert named.headers["x-chatcodec-dropped"] == "name=1"


def test_calls_that_nobody_reads_are_told_at_start(tmp_path: Path) -> None:
    """Before the first call of a model is lost: a line of the log, as every other."""
    path = folder(tmp_path / "model", UNREAD)
    backend = f"http://127.0.0.1:{free_port()}"
    with gateway(backend, tmp_path, "--model", str(path)) as of:
        lines = [json.loads(line) for line in of.log.read_text("utf-8").splitlines()]
    (told,) = [line for line in lines if "which nobody reads" in line["event"]]
    assert told["level"] == "warning"
