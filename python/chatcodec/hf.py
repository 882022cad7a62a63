"""A tokenizer of transformers whose chat template is safe.

`wrap` gives a tokenizer with the same methods. `apply_chat_template` gives the ids that the model's
own template gives, and text of a caller's is never a control token; everything else is passed on.

    from transformers import AutoTokenizer
    from chatcodec import hf

    tokenizer = hf.wrap(AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"))
    inputs = tokenizer.apply_chat_template(messages, return_tensors="pt")

transformers is not imported here: a caller who has a tokenizer has it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcodec._core import Codec, Template, Vocab
from chatcodec.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec import Encoding, Stream
    from chatcodec.events import Event

__all__ = ["SafeTokenizer", "Streamer", "wrap"]

_MAX_CODECS = 8
"""Templates of one tokenizer whose codecs are kept."""

_FIRST_WITH_DICTS = 5
"""The version of transformers that returns dicts by default."""

_SPECIAL = (
    "bos_token",
    "eos_token",
    "pad_token",
    "unk_token",
    "sep_token",
    "cls_token",
    "mask_token",
)


_SPLITTING = ("normalizer", "pre_tokenizer")
"""The parts of `tokenizer.json` that decide how text is split."""


def wrap(tokenizer: Any, *, reader: str | None = None) -> SafeTokenizer:  # noqa: ANN401
    """Wrap a tokenizer of transformers that has a chat template.

    `reader` names the format that reads completions; by default it is found. Raises `TypeError` for
    a tokenizer without a fast backend; `FormatError`, `TemplateError` and `VocabError` for a
    vocabulary or a template that cannot be used.

    Text is split as the published `tokenizer.json` splits it. Some classes of transformers replace
    that: for Phi-3's `LlamaTokenizer`, "Hi" after a token is 18567, and by the file 6324. Then a
    `UserWarning` says so, and the ids are those of `Codec.from_pretrained`.
    """
    return SafeTokenizer(tokenizer, reader=reader)


class SafeTokenizer:
    """A tokenizer of transformers, with an `apply_chat_template` in which text is never control."""

    def __init__(self, tokenizer: Any, *, reader: str | None = None) -> None:  # noqa: ANN401
        """Wrap a fast tokenizer; see `wrap`."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            kind = type(tokenizer).__name__
            raise TypeError(f"tokenizer: is `{kind}`, expected a fast tokenizer of transformers")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "tokenizer.json")
            path.write_text(_as_published(tokenizer, backend), encoding="utf-8")
            self._vocab = Vocab.load(path)
        self._tokenizer = tokenizer
        self._reader = reader
        self._codecs: dict[str, Codec] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Pass everything else on."""
        if name == "_tokenizer":
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Tokenize text as the tokenizer does."""
        return self._tokenizer(*args, **kwargs)

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self._tokenizer)

    def __repr__(self) -> str:
        """Name the tokenizer within."""
        return f"SafeTokenizer({self._tokenizer!r})"

    @property
    def codec(self) -> Codec:
        """The codec of the tokenizer's chat template."""
        return self._codec_of(self._source(None, None))

    def _source(self, chat_template: str | None, tools: object) -> str:
        """The template's source: an argument, the name of one, or the tokenizer's own."""
        get = getattr(self._tokenizer, "get_chat_template", None)
        if get is not None:
            return str(get(chat_template, tools))
        source = chat_template or self._tokenizer.chat_template
        if not isinstance(source, str):
            raise TemplateError("tokenizer: has no chat template, expected `chat_template=`", 0, 0)
        return source

    def _codec_of(self, source: str) -> Codec:
        codec = self._codecs.get(source)
        if codec is None:
            named = {name: getattr(self._tokenizer, name, None) for name in _SPECIAL}
            special = {name: str(token) for name, token in named.items() if token is not None}
            template = Template(source, **special)
            codec = Codec(template, self._vocab, reader=self._reader)
            if len(self._codecs) >= _MAX_CODECS:
                self._codecs.clear()
            self._codecs[source] = codec
        return codec

    def apply_chat_template(  # noqa: PLR0913, PLR0917
        self,
        conversation: Any,  # noqa: ANN401
        tools: Sequence[Any] | None = None,
        documents: Sequence[Mapping[str, str]] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,  # noqa: FBT001, FBT002
        continue_final_message: bool = False,  # noqa: FBT001, FBT002
        tokenize: bool = True,  # noqa: FBT001, FBT002
        padding: bool | str = False,  # noqa: FBT001, FBT002
        truncation: bool = False,  # noqa: FBT001, FBT002
        max_length: int | None = None,
        return_tensors: str | None = None,
        return_dict: bool | None = None,  # noqa: FBT001
        return_assistant_tokens_mask: bool = False,  # noqa: FBT001, FBT002
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Encode a conversation, or a list of them, by the chat template.

        Arguments and results are those of transformers: a string with `tokenize=False`; else ids,
        or with `return_dict` a `BatchEncoding`, which is the default of transformers 5. The mask of
        `return_assistant_tokens_mask` needs no `{% generation %}` in the template.
        `sanitize_control_tokens` is accepted: text is never control.
        """
        kwargs.pop("sanitize_control_tokens", None)
        variables: dict[str, Any] = dict(kwargs)
        if documents is not None:
            variables["documents"] = documents
        if return_dict is None:
            return_dict = _is_dict_by_default()
        if return_assistant_tokens_mask and not (return_dict and tokenize):
            problem = "return_assistant_tokens_mask: needs `return_dict=True` and `tokenize=True`"
            raise ValueError(problem)
        if continue_final_message and add_generation_prompt:
            problem = (
                "continue_final_message and add_generation_prompt: expected one of them at most"
            )
            raise ValueError(problem)
        listed = getattr(conversation, "messages", conversation)
        is_batch = bool(listed) and not hasattr(listed[0], "keys")
        conversations = listed if is_batch else [listed]
        given = [_dict_of(tool) for tool in tools] if tools is not None else None
        codec = self._codec_of(self._source(chat_template, given))
        known = codec.template.names if codec.template is not None else set()
        # Variables that the template does not use are ignored, as transformers does.
        options = {name: value for name, value in variables.items() if name in known}
        encodings = [
            codec.encode(
                _with_reasoning(getattr(messages, "messages", messages)),
                tools=given,
                add_generation_prompt=add_generation_prompt,
                continue_final=continue_final_message,
                on_unsupported="drop",
                **options,
            )
            for messages in conversations
        ]
        if not tokenize:
            texts = [encoding.text for encoding in encodings]
            return texts if is_batch else texts[0]
        extra = dict(tokenizer_kwargs or {})
        out = self._padded(
            encodings,
            is_batch=is_batch,
            padding=padding,
            truncation=truncation,
            max_length=max_length,
            return_tensors=return_tensors,
            masks=return_assistant_tokens_mask,
            extra=extra,
        )
        return out if return_dict else out["input_ids"]

    def _padded(  # noqa: PLR0913
        self,
        encodings: list[Encoding],
        *,
        is_batch: bool,
        padding: bool | str,
        truncation: bool,
        max_length: int | None,
        return_tensors: str | None,
        masks: bool,
        extra: dict[str, Any],
    ) -> Any:  # noqa: ANN401
        """Cut and pad as the tokenizer does, by its own `pad`."""
        side = extra.get("truncation_side", getattr(self._tokenizer, "truncation_side", "right"))

        def cut(values: list[int]) -> list[int]:
            if not truncation or max_length is None or len(values) <= max_length:
                return values
            return values[-max_length:] if side == "left" else values[:max_length]

        rows = [cut(encoding.ids.tolist()) for encoding in encodings]
        columns: dict[str, list[list[int]]] = {"input_ids": rows}
        columns["attention_mask"] = [[1] * len(row) for row in rows]
        if masks:
            columns["assistant_masks"] = [
                cut(encoding.assistant_mask.tolist()) for encoding in encodings
            ]
        if padding:
            width = max(map(len, rows))
            if padding == "max_length" and max_length is not None:
                width = max(width, max_length)
            left = getattr(self._tokenizer, "padding_side", "right") == "left"
            fillers = {"input_ids": int(self._tokenizer.pad_token_id or 0)}
            for name, values in columns.items():
                filler = [fillers.get(name, 0)]
                columns[name] = [
                    filler * (width - len(row)) + row if left else row + filler * (width - len(row))
                    for row in values
                ]
        data: dict[str, Any] = dict(columns)
        if not is_batch and return_tensors is None:
            data = {name: values[0] for name, values in columns.items()}
        return _batch_encoding(data, return_tensors)

    def streamer(
        self,
        prompt: Encoding | Sequence[int] | None = None,
        *,
        timeout: float | None = None,
    ) -> Streamer:
        """Return a `Streamer` for `model.generate(..., streamer=…)`."""
        return Streamer(self.codec, prompt, timeout=timeout)


def _dict_of(tool: Any) -> Any:  # noqa: ANN401
    """A tool as a dict: transformers makes it of a function, by its docstring."""
    if not callable(tool):
        return tool
    from transformers import utils  # noqa: PLC0415

    return utils.get_json_schema(tool)  # type: ignore[attr-defined,unused-ignore]


_REASONING = ("reasoning_content", "thinking", "reasoning")


def _with_reasoning(messages: Any) -> Any:  # noqa: ANN401
    """Messages with their reasoning under the keys that templates read, as transformers 5 does."""
    if not _is_dict_by_default():
        return messages
    given = []
    for message in messages:
        is_dict = isinstance(message, Mapping)
        kept = message if is_dict else {}
        found = [kept[key] for key in _REASONING if kept.get(key) is not None]
        more = {"reasoning_content": found[0]} if found else {}
        given.append({"thinking": found[0], **message, **more} if found else message)
    return given


def _is_dict_by_default() -> bool:
    """Whether the caller's transformers returns a dict by default: from version 5."""
    import sys  # noqa: PLC0415

    version = getattr(sys.modules.get("transformers"), "__version__", "5")
    return int(version.split(".", 1)[0]) >= _FIRST_WITH_DICTS


def _batch_encoding(data: dict[str, Any], return_tensors: str | None) -> Any:  # noqa: ANN401
    """Return a `BatchEncoding` of transformers if the caller has it, else a dict."""
    import sys  # noqa: PLC0415

    if "transformers" in sys.modules:
        from transformers import BatchEncoding  # noqa: PLC0415

        return BatchEncoding(data, tensor_type=return_tensors)
    if return_tensors == "np":
        import numpy as np  # noqa: PLC0415

        return {name: np.asarray(values) for name, values in data.items()}
    if return_tensors is not None:
        raise ImportError("return_tensors: needs transformers", name="transformers")
    return data


class Streamer:
    """A streamer for `generate` of transformers: ids in, events of a completion out.

    `generate` puts the prompt first, which is not part of the completion. Iterate over the streamer
    in another thread, or read `events` when `generate` has returned.

        streamer = tokenizer.streamer()
        model.generate(**inputs, streamer=streamer)
        for event in streamer.events: ...
    """

    def __init__(
        self,
        codec: Codec,
        prompt: Encoding | Sequence[int] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Read the completions of a codec. `prompt` is the ids before the completion.

        Waiting longer than `timeout` seconds for an event raises `queue.Empty`, as in transformers'
        `TextIteratorStreamer`; None waits for ever, even if `generate` has failed in its thread.
        """
        import queue  # noqa: PLC0415

        self._codec = codec
        self._stream: Stream | None = None
        self._prompt = prompt
        self._has_prompt = False
        self._timeout = timeout
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self.events: list[Event] = []
        """The events so far."""

    def put(self, value: Any) -> None:  # noqa: ANN401
        """Take ids from `generate`: the prompt first, then what the model generates."""
        ids = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(ids, list) and ids and isinstance(ids[0], list):
            if len(ids) != 1:
                raise ValueError(f"value: has {len(ids)} sequences, expected one")
            ids = ids[0]
        ids = ids if isinstance(ids, list) else [ids]
        if not self._has_prompt:
            self._has_prompt = True
            self._stream = self._codec.stream(
                self._prompt if self._prompt is not None else ids, keep=True
            )
            return
        if self._stream is not None:
            self._add(self._stream.push(ids))

    def end(self) -> None:
        """Take the end of the completion."""
        if self._stream is not None:
            self._add(self._stream.finish())
        self._queue.put(None)

    def _add(self, events: Sequence[Event]) -> None:
        for event in events:
            self.events.append(event)
            self._queue.put(event)

    def __iter__(self) -> Streamer:
        """Iterate over events as they come."""
        return self

    def __next__(self) -> Event:
        """Wait for the next event."""
        event = self._queue.get(timeout=self._timeout)
        if event is None:
            # For whoever asks once more.
            self._queue.put(None)
            raise StopIteration
        return event

    @property
    def message(self) -> Mapping[str, Any] | None:
        """The message, once it has ended."""
        return self._stream.message() if self._stream is not None else None


def _as_published(tokenizer: Any, backend: Any) -> str:  # noqa: ANN401
    """The backend as JSON, with the splitting of text of the file that the tokenizer is from."""
    text = str(backend.to_str())
    path = _published(str(getattr(tokenizer, "name_or_path", "") or ""))
    # An option that the caller or the model gave is kept.
    is_asked = getattr(tokenizer, "init_kwargs", {}).get("add_prefix_space") is not None
    if path is None or is_asked:
        return text
    try:
        published = json.loads(type(backend).from_file(str(path)).to_str())
    except Exception:  # noqa: BLE001 - whatever the library raises: the backend is what there is
        return text
    state = json.loads(text)
    others = [part for part in _SPLITTING if state.get(part) != published.get(part)]
    if not others:
        return text
    kind = type(tokenizer).__name__
    warnings.warn(
        f"tokenizer: `{kind}` has another {' and '.join(others)} than the published "
        f"`tokenizer.json`; ids are those of the file",
        UserWarning,
        stacklevel=4,
    )
    return json.dumps({**state, **{part: published.get(part) for part in _SPLITTING}})


def _published(name: str) -> Path | None:
    """The `tokenizer.json` of a folder, or of a model whose files are in the cache of the hub."""
    if not name:
        return None
    if Path(name).is_dir():
        path = Path(name, "tokenizer.json")
        return path if path.is_file() else None
    hub = sys.modules.get("huggingface_hub")
    try:
        found = hub.try_to_load_from_cache(name, "tokenizer.json") if hub and name else None
    except Exception:  # noqa: BLE001 - a name that is none
        return None
    return Path(found) if isinstance(found, str) else None
