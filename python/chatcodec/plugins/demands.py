"""What a request demands of its answer: calls, strict arguments, JSON.

An engine's own grammar for JSON begins with the first id of the answer, where a model that reasons
begins to reason. A constraint of the codec has the reasoning, its end and then the JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatcodec.errors import MessageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec import Codec

__all__ = ["json_of", "may_reason", "structural_tag"]


def structural_tag(  # noqa: PLR0913
    codec: Codec,
    prompt: Sequence[int] | None,
    *,
    tools: Sequence[dict[str, Any]] = (),
    tool_choice: Any = None,  # noqa: ANN401
    parallel: bool = True,
    response_format: dict[str, Any] | None = None,
) -> str | None:
    """Return the structural tag of an answer after a prompt; None where the engine needs none.

    `tools` and `tool_choice` are as JSON has them. `response_format` is OpenAI's, for JSON. JSON
    without tools and without reasoning is left to the engine. Raises `MessageError`.
    """
    choice = tool_choice or "auto"
    is_strict = any(tool.get("function", tool).get("strict") for tool in tools)
    demands = bool(tools) and (choice not in ("auto", "none") or is_strict)
    if not demands and (response_format is None or not (tools or may_reason(codec, prompt))):
        return None
    constraint = codec.constrain(
        tools=list(tools) or None,
        tool_choice=choice if tools else None,
        parallel=parallel,
        response_format=response_format,
        prompt=prompt,
    )
    return constraint.structural_tag()


def may_reason(codec: Codec, prompt: Sequence[int] | None) -> bool:
    """Whether an answer after a prompt may begin with reasoning."""
    try:
        codec.constrain(reasoning=True, prompt=prompt)
    except MessageError as error:
        if error.path != "reasoning":
            raise
        return False
    return True


def json_of(schema: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return OpenAI's `response_format` for a JSON schema, or for any object by None."""
    if schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
