"""A gateway whose prompts are written by a model's chat template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from gateway_here import Here, here
from test_template_codec import CHATML, made

if TYPE_CHECKING:
    from collections.abc import Iterator

STRICT = (
    "{% if messages[0].role != 'user' %}{{ raise_exception('no question') }}{% endif %}" + CHATML
)
HI: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    _, codec = made(STRICT, tmp_path_factory.mktemp("template"))
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
