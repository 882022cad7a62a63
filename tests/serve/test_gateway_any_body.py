"""Any body of a request is read, or refused with an error that has a message: never a failure."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import data
import pytest
from chatcodec.serve.apis import APIS
from chatcodec.serve.errors import ApiError
from chatcodec.serve.fields import FIELDS
from chatcodec.serve.reading import Reader
from chatcodec.serve.settings import Settings
from gateway_here import CODEC
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([2**63, -1, 1.5, float("inf"), 10**30])
    | st.sampled_from(
        ["", "a", "\ud800", "{", "auto", "text", "user", "tool", "<|im_end|>", "json"]
    )
)
KEYS = [
    "arguments", "content", "custom", "edits", "format", "function", "id", "image_url", "input",
    "input_schema", "json_schema", "name", "output", "parameters", "role", "schema", "summary",
    "system", "text", "thinking", "tokens", "tool_call_id", "tool_calls", "type", "include_usage",
]  # fmt: skip
TYPES = [
    "any", "assistant", "auto", "custom", "custom_tool_call", "custom_tool_call_output", "file",
    "function", "function_call", "function_call_output", "image", "json_object", "json_schema",
    "message", "none", "reasoning", "required", "structural_tag", "text", "thinking", "tool_result",
    "tool_use", "user", "web_search",
]  # fmt: skip


def values() -> SearchStrategy[Any]:
    def more(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
        typed = st.fixed_dictionaries(
            {}, optional={"type": st.sampled_from(TYPES), "role": st.sampled_from(TYPES)}
        )
        named = st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
        return st.lists(inner, max_size=3) | st.builds(lambda a, b: {**a, **b}, named, typed)

    return st.recursive(LEAVES, more, max_leaves=12)


def plausible(api: str) -> dict[str, Any]:
    """The fields of a request that is right."""
    asked = [{"role": "user", "content": "Hi"}]
    key = {"responses": "input", "completions": "prompt"}.get(api, "messages")
    return {key: "Hi" if api == "completions" else asked, "max_tokens": 9} | (
        {"max_output_tokens": 9} if api == "responses" else {}
    )


def made(policy: Mapping[str, Any]) -> Reader:
    return Reader(CODEC, Settings(backend="http://x", **policy))


READERS = [
    made({}),
    made({"on_unsupported": "drop", "unknown_fields": "drop", "engine": "sglang"}),
    made(
        {
            "on_unsupported": "drop=tool,name,role,image,custom",
            "unknown_fields": "pass",
            "media_tokens": ("image=3",),
            "constrain": "off",
            "engine": "llamacpp",
        }
    ),
]


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@settings(max_examples=50 * (10 if data.LONG else 1), suppress_health_check=[HealthCheck.too_slow])
@given(draw=st.data())
def test_any_body_is_read_or_refused(api: Any, draw: st.DataObject) -> None:  # noqa: ANN401
    names = st.sampled_from([*FIELDS[api.name], "extra_body", "x"])
    body = draw.draw(st.dictionaries(names, values(), max_size=5))
    if draw.draw(st.booleans()):
        body = plausible(api.name) | body
    reader = draw.draw(st.sampled_from(READERS))
    body["model"] = None
    try:
        read = reader.read(api, body)
    except ApiError as error:
        assert error.status == 400, error  # noqa: PT017
        assert error.message  # noqa: PT017
        assert len(error.message) < 2000  # noqa: PT017
    else:
        assert len(read.prompt)
        pickle.dumps((read.asked, read.told))
        for header in read.told.headers().values():
            assert header.isascii()
            assert header.isprintable()
