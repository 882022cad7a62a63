"""How each library is called: the calls that its documentation recommends for speed.

`load` gives a `Loaded`: the same few functions for every library. What a library does not have, is
`None`, and its rows are left out. Runs in the library's environment, so a library is imported only
where it is there.
"""

from __future__ import annotations

import importlib
import json
import os
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Messages = list[dict[str, str]]


class UnsupportedError(Exception):
    """The library has no such call."""


@dataclass(frozen=True)
class Loaded:
    """An instance of a library with a vocabulary."""

    listed: Callable[[str], Sequence[int]] | None = None
    """Text to a list of ints."""
    flat: Callable[[str], object] | None = None
    """Text to the most compact form of ids."""
    many: Callable[[list[str], int], object] | None = None
    """Texts to ids, on so many threads."""
    threaded: Callable[[str, int], object] | None = None
    """One text to ids, on so many threads."""
    conversation: Callable[[Messages], object] | None = None
    """Messages to ids."""
    conversation_list: Callable[[Messages], Sequence[int]] | None = None
    """Messages to a list of ints."""
    streamed: Callable[[Sequence[int]], str] | None = None
    """Ids to text, one at a time, as a server gets them."""
    itself: Any = None
    """What is measured of one library alone."""


def import_library(name: str) -> None:
    """Imports what is measured, and what its calls import late."""
    for module in LIBRARIES[name][0]:
        importlib.import_module(module)


def load(name: str, vocabulary: dict[str, Any]) -> Loaded:
    """A new instance, which has seen no text."""
    return LIBRARIES[name][1](vocabulary)


def _chatcodec(vocabulary: dict[str, Any]) -> Loaded:
    chatcodec = importlib.import_module("chatcodec")
    path, form = vocabulary["path"], vocabulary.get("format")
    vocab = (
        chatcodec.Vocab.load(path, special_tokens=vocabulary.get("special_tokens"))
        if path
        else chatcodec.Vocab.embedded()
    )
    codec: Any = chatcodec.Codec(form, vocab=vocab) if form else None
    batch = getattr(vocab, "encode_batch", None)
    parallel = "threads" in (vocab.encode.__text_signature__ or "")

    def many(texts: list[str], threads: int) -> object:
        if batch is None and threads > 1:
            raise UnsupportedError
        if batch is None:
            return [vocab.encode(text) for text in texts]
        return batch(texts, threads=threads)

    def streamed(ids: Sequence[int]) -> str:
        push = codec.stream().push
        said = []
        for id_ in ids:
            said += push(id_)
        return "".join(event.text for event in said)

    return Loaded(
        listed=lambda text: vocab.encode(text).tolist(),
        flat=vocab.encode,
        many=many,
        threaded=(lambda text, threads: vocab.encode(text, threads=threads)) if parallel else None,
        conversation=lambda messages: codec.encode(messages).ids,
        conversation_list=lambda messages: codec.encode(messages).ids.tolist(),
        streamed=streamed if codec else None,
        itself=codec or vocab,
    )


def _fastokens(vocabulary: dict[str, Any]) -> Loaded:
    tokenizer = importlib.import_module("fastokens").Tokenizer.from_file(vocabulary["path"])
    return Loaded(
        listed=lambda text: tokenizer.encode(text).ids,
        flat=lambda text: tokenizer.encode_batch_flat([text]),
        many=lambda texts, _: tokenizer.encode_batch_flat(texts),
    )


def _gigatoken(vocabulary: dict[str, Any]) -> Loaded:
    tokenizer = importlib.import_module("gigatoken").Tokenizer(vocabulary["path"])
    return Loaded(
        # Faster for one text than `encode_batch_list`, which starts a pool.
        listed=lambda text: tokenizer.encode(text).tolist(),
        flat=tokenizer.encode,
        many=lambda texts, threads: tokenizer.encode_batch(texts, parallel=threads > 1),
    )


def _tokenizers_rc(vocabulary: dict[str, Any]) -> Loaded:
    tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(vocabulary["path"])
    return Loaded(
        listed=lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        flat=lambda text: tokenizer.encode(text, add_special_tokens=False).ids_array,
        many=lambda texts, _: [
            encoding.ids_array
            for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)
        ],
    )


def _tokenizers(vocabulary: dict[str, Any]) -> Loaded:
    library = importlib.import_module("tokenizers")
    tokenizer = library.Tokenizer.from_file(vocabulary["path"])

    def encode(text: str) -> Sequence[int]:
        ids: Sequence[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def many(texts: list[str], _: int) -> object:
        encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    return Loaded(
        listed=encode, flat=encode, many=many, streamed=_decode_stream(library, tokenizer)
    )


def _decode_stream(library: Any, tokenizer: Any) -> Callable[[Sequence[int]], str]:  # noqa: ANN401 - of no known type
    def streamed(ids: Sequence[int]) -> str:
        step = library.decoders.DecodeStream(skip_special_tokens=False).step
        return "".join([step(tokenizer, id_) or "" for id_ in ids])

    return streamed


def _splintr(vocabulary: dict[str, Any]) -> Loaded:
    tokenizer = importlib.import_module("splintr").from_json(vocabulary["path"])

    def streamed(ids: Sequence[int]) -> str:
        decoder = tokenizer.streaming_decoder()
        said = [decoder.add_token(id_) or "" for id_ in ids]
        return "".join([*said, decoder.flush()])

    return Loaded(
        listed=tokenizer.encode_raw,
        flat=tokenizer.encode_flat,
        many=lambda texts, _: tokenizer.encode_batch_flat(texts),
        streamed=streamed,
    )


def _tiktoken(vocabulary: dict[str, Any]) -> Loaded:
    tiktoken = importlib.import_module("tiktoken")
    ranks = importlib.import_module("tiktoken.load").load_tiktoken_bpe(vocabulary["path"])
    encoding = tiktoken.Encoding(
        "measured", pat_str=vocabulary["pattern"], mergeable_ranks=ranks, special_tokens={}
    )
    return Loaded(
        listed=encoding.encode_ordinary,
        flat=lambda text: encoding.encode_to_numpy(text, disallowed_special=()),
        many=lambda texts, threads: encoding.encode_ordinary_batch(texts, num_threads=threads),
    )


def _sentencepiece(vocabulary: dict[str, Any]) -> Loaded:
    library = importlib.import_module("sentencepiece")
    processor = library.SentencePieceProcessor(model_file=vocabulary["path"])
    return Loaded(
        listed=processor.encode,
        flat=processor.encode,
        many=lambda texts, threads: processor.encode(texts, num_threads=threads),
    )


def _transformers(vocabulary: dict[str, Any]) -> Loaded:
    library = importlib.import_module("transformers")
    tokenizer = library.PreTrainedTokenizerFast(
        tokenizer_file=vocabulary["path"], bos_token=vocabulary.get("bos")
    )
    tokenizer.chat_template = vocabulary["template"]

    def encode(messages: Messages) -> Sequence[int]:
        ids: Sequence[int] = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        return ids

    return Loaded(conversation=encode, conversation_list=encode)


def _harmony(vocabulary: dict[str, Any]) -> Loaded:
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = vocabulary["path"]
    library = importlib.import_module("openai_harmony")
    encoding = library.load_harmony_encoding("HarmonyGptOss")

    def encode(text: str) -> Sequence[int]:
        ids: Sequence[int] = encoding.encode(text, disallowed_special=())
        return ids

    head = encoding.encode("<|channel|>final<|message|>", allowed_special="all")

    def streamed(ids: Sequence[int]) -> str:
        parser = library.StreamableParser(encoding, role=library.Role.ASSISTANT)
        for id_ in head:
            parser.process(id_)
        said = []
        for id_ in ids:
            parser.process(id_)
            said.append(parser.last_content_delta or "")
        return "".join(said)

    return Loaded(listed=encode, flat=encode, streamed=streamed)


def _mistral(vocabulary: dict[str, Any]) -> Loaded:
    tokenizers = importlib.import_module("mistral_common.tokens.tokenizers.mistral")
    request = importlib.import_module("mistral_common.protocol.instruct.request")
    tokenizer = tokenizers.MistralTokenizer.from_file(vocabulary["path"])

    def encode(messages: Messages) -> Sequence[int]:
        asked = request.ChatCompletionRequest(messages=messages)
        ids: Sequence[int] = tokenizer.encode_chat_completion(asked).tokens
        return ids

    return Loaded(conversation=encode, conversation_list=encode)


LIBRARIES: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Any]], Loaded]]] = {
    "chatcodec": (("chatcodec",), _chatcodec),
    "fastokens": (("fastokens",), _fastokens),
    "gigatoken": (("gigatoken",), _gigatoken),
    "tokenizers rc": (("tokenizers", "numpy"), _tokenizers_rc),
    "tokenizers": (("tokenizers",), _tokenizers),
    "splintr": (("splintr",), _splintr),
    "tiktoken": (("tiktoken", "tiktoken.load", "numpy"), _tiktoken),
    "sentencepiece": (("sentencepiece",), _sentencepiece),
    "transformers": (("transformers", "jinja2"), _transformers),
    "openai-harmony": (("openai_harmony",), _harmony),
    "mistral-common": (
        (
            "mistral_common.tokens.tokenizers.mistral",
            "mistral_common.protocol.instruct.request",
        ),
        _mistral,
    ),
}
"""What is imported before anything is measured, and what loads a vocabulary."""


def read_text(path: str) -> str:
    """A text of the harness, its newlines as they are."""
    return Path(path).read_bytes().decode()


def read_items(path: str) -> list[Any]:
    """Texts or conversations of the harness."""
    items: list[Any] = json.loads(Path(path).read_bytes())
    return items


def joined(results: Iterable[object]) -> bytes:
    """The ids of several results, one after another."""
    return b"".join(map(id_bytes, results))


def id_bytes(result: Any) -> bytes:  # noqa: ANN401 - every library has its own
    """Ids in whatever form as 32-bit integers; batches as their rows one after another."""
    if isinstance(result, bytes):
        return result
    if isinstance(result, tuple):  # a flat buffer and where its rows begin
        return id_bytes(result[0])
    if isinstance(result, list):
        if result and not isinstance(result[0], int):
            return joined(result)
        made: bytes = array("i", result).tobytes()
        return made
    if type(result).__module__.startswith("awkward"):
        result = importlib.import_module("awkward").flatten(result).to_numpy()
    view = memoryview(getattr(result, "ids", result))
    return view.tobytes() if view.itemsize == array("i").itemsize else id_bytes(view.tolist())
