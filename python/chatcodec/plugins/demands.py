"""What a request demands of its answer: calls, strict arguments, JSON.

An engine's own grammar for JSON begins with the first id of the answer, where a model that reasons
begins to reason. A constraint of the codec has the reasoning, its end and then the JSON. xgrammar,
with the tokens that engines give it, takes the id that ends reasoning for its text too, and would
admit text before the JSON: there such a request is refused. llguidance tells ids from text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatcodec.errors import MessageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec import Codec, Constraint

__all__ = ["constraint_of", "json_of", "may_reason"]


def constraint_of(  # noqa: PLR0913
    codec: Codec,
    prompt: Sequence[int] | None,
    *,
    tools: Sequence[dict[str, Any]] = (),
    tool_choice: Any = None,  # noqa: ANN401
    parallel: bool = True,
    response_format: dict[str, Any] | None = None,
    by_ids: bool = False,
) -> Constraint | None:
    """Return the constraint on an answer after a prompt; None where the engine needs none.

    `tools` and `tool_choice` are as JSON has them. `response_format` is OpenAI's, for JSON. JSON
    without tools and without reasoning is left to the engine. `by_ids` says that the engine's
    grammars tell control ids from text that spells them. Raises `MessageError`.
    """
    choice = tool_choice or "auto"
    is_strict = any(tool.get("function", tool).get("strict") for tool in tools)
    demands = bool(tools) and (choice not in ("auto", "none") or is_strict)
    if response_format is not None:
        reasons = may_reason(codec, prompt)
        if reasons and not by_ids:
            raise MessageError(
                "`response_format` asks for JSON where the model may reason, which the server's "
                "grammars cannot enforce after reasoning; turn reasoning off for the request "
                "(`chat_template_kwargs`). The server's operator: a backend of grammars by ids, "
                "or the gateway",
                "response_format",
            )
        demands = demands or bool(tools) or reasons
    if not demands:
        return None
    return codec.constrain(
        tools=list(tools) or None,
        tool_choice=choice if tools else None,
        parallel=parallel,
        response_format=response_format,
        prompt=prompt,
    )


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
