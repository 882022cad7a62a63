"""A renderer for Prime Intellect's `renderers`: `CustomRendererConfig`.

    CustomRendererConfig(import_path="chatcodec.plugins.renderers.Renderer")

Prompts, masks, completions and the next turn's prompt are the codec's. It was written for
renderers 0.1.12. The variable `CHATCODEC_FORMAT` names a format; by default the model's folder
decides.
"""

from __future__ import annotations

import functools
import importlib
import json
from typing import TYPE_CHECKING, Any

from chatcodec.errors import MessageError
from chatcodec.options import IGNORE_INDEX
from chatcodec.plugins import reading
from chatcodec.plugins.reading import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec import Codec, Encoding

__all__ = ["Reader"]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Make `Renderer`, which needs the package for its configuration."""
    if name != "Renderer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _renderer()


@functools.cache
def _renderer() -> Any:  # noqa: ANN401
    base: Any = importlib.import_module("renderers.configs").BaseRendererConfig

    class Config(base):  # type: ignore[misc]
        thinking: bool | None = None
        _internal_fields = frozenset({"thinking"})

    class Renderer(Reader):
        config_class = Config

        def __init__(self, tokenizer: Any, config: Any = None) -> None:  # noqa: ANN401
            thinking = getattr(config, "thinking", None)
            super().__init__(reading.codec_of(str(tokenizer.name_or_path)), thinking=thinking)

    return Renderer


class Reader:
    """`Renderer` of renderers, without its configuration."""

    is_prefix_stable = False
    """Earlier reasoning is left out by some formats, so stability is not promised."""

    def __init__(self, codec: Codec, *, thinking: bool | None = None) -> None:
        """Take the codec, and whether prompts ask for reasoning; None for the format's default."""
        self.codec = codec
        self._options: dict[str, Any] = {} if thinking is None else {"thinking": thinking}

    def _encode(
        self,
        messages: Sequence[Any],
        tools: Any,  # noqa: ANN401
        *,
        prompts: bool,
    ) -> Encoding:
        return self.codec.encode(
            plain(messages),
            tools=functions(tools),
            add_generation_prompt=prompts,
            on_arguments="string",
            **self._options,
        )

    def render(
        self,
        messages: Sequence[Any],
        *,
        tools: Any = None,  # noqa: ANN401
        add_generation_prompt: bool = False,
    ) -> Any:  # noqa: ANN401
        """Render messages with the message, the masks and the role of each id.

        Raises `MessageError` for what the format cannot write.
        """
        return rendered(self._encode(messages, tools, prompts=add_generation_prompt), messages)

    def render_ids(
        self,
        messages: Sequence[Any],
        *,
        tools: Any = None,  # noqa: ANN401
        add_generation_prompt: bool = False,
    ) -> list[int]:
        """Render messages to ids."""
        ids: list[int] = self._encode(messages, tools, prompts=add_generation_prompt).ids.tolist()
        return ids

    def parse_response(
        self,
        token_ids: list[int],
        *,
        tools: Any = None,  # noqa: ANN401
        prompt_ids: list[int] | None = None,
    ) -> Any:  # noqa: ANN401
        """Read a completion's ids: content, reasoning and calls."""
        base = importlib.import_module("renderers.base")
        read = self.codec.parse(token_ids, prompt_ids or None, tools=functions(tools)).message
        calls = []
        for call in read.get("tool_calls") or ():
            if "function" not in call:
                continue
            raw = call["function"]["arguments"]
            status, arguments = base.ToolCallParseStatus.OK, raw
            try:
                arguments = json.loads(raw)
            except ValueError:
                status = base.ToolCallParseStatus.INVALID_JSON
            name = call["function"]["name"]
            calls.append(
                base.ParsedToolCall(
                    raw=raw, name=name, arguments=arguments, status=status, id=call.get("id")
                )
            )
        return base.ParsedResponse(
            content=read.get("content") or "",
            reasoning_content=read.get("reasoning"),
            tool_calls=calls,
            reasoning_complete=None,
        )

    def get_stop_token_ids(self) -> list[int]:
        """Return the ids that end an answer."""
        return self.codec.stop_ids

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: Sequence[Any],
        *,
        tools: Any = None,  # noqa: ANN401, ARG002 (they are in the prompt)
    ) -> Any:  # noqa: ANN401
        """Write the next turn's prompt after the sampled ids; None where the format cannot."""
        if any(plain(message)["role"] == "assistant" for message in new_messages):
            return None
        before = len(previous_prompt_ids) + len(previous_completion_ids)
        try:
            encoding = self.codec.extend(
                previous_prompt_ids,
                previous_completion_ids,
                plain(new_messages),
                add_generation_prompt=True,
                reasoning="template",
                **self._options,
            )
        except MessageError:
            return None
        return rendered(encoding, new_messages, before=before)


def functions(tools: Any) -> list[dict[str, Any]] | None:  # noqa: ANN401
    """Give tools as `encode` takes them."""
    return plain(tools) or None


def rendered(encoding: Encoding, messages: Sequence[Any], before: int = 0) -> Any:  # noqa: ANN401
    """Make `RenderedTokens`; of the ids `before`, nothing is known."""
    base = importlib.import_module("renderers.base")
    told = [plain(message) for message in messages]
    roles = [message["role"] for message in told]
    labels = encoding.labels().tolist()
    indices = encoding.message_indices.tolist()
    content = encoding.is_content.tolist()
    if before:
        first = max(indices) + 1 - len(told)
        indices = [-1] * before + [max(index - first, -1) for index in indices[before:]]
        content[:before] = [False] * before
        labels = [IGNORE_INDEX] * len(labels)
    sampled = [label != IGNORE_INDEX for label in labels]
    return base.RenderedTokens(
        token_ids=encoding.ids.tolist(),
        message_indices=indices,
        sampled_mask=sampled,
        # The id that ends an answer is sampled too.
        is_content=[bool(each) or drawn for each, drawn in zip(content, sampled, strict=True)],
        message_roles=roles,
        message_tool_names=[message.get("name") for message in told],
    )
