"""`/tokenize`, `/detokenize` and their like: ids of a conversation or a text, the text of ids."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from chatcodec.errors import ChatCodecError
from chatcodec.serve.apis import APIS
from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from chatcodec.serve.apis import Api
    from chatcodec.serve.reading import Reader

__all__ = ["COUNTED", "detokenized", "tokenized", "with_window"]


def tokenized(body: dict[str, Any], reader: Reader) -> dict[str, Any]:
    """Give the ids of a prompt, or of a text, in which nothing is control. Raises `ApiError`."""
    vocab = reader.codec.vocab
    if "prompt" in body:
        text = body["prompt"]
        if not isinstance(text, str):
            raise ApiError(400, f"`prompt` is {type(text).__name__}, expected text", "prompt")
        ids = list(vocab.encode(text))
    else:
        fields = {key: body[key] for key in body if key not in {"return_token_strs", "prompt"}}
        ids = reader.prompt(APIS[0], fields).ids.tolist()
    answer: dict[str, Any] = {"count": len(ids), "tokens": ids}
    if body.get("return_token_strs"):
        answer["token_strs"] = [vocab.token_bytes(id_).decode("utf-8", "replace") for id_ in ids]
    return answer


def with_window(raw: bytes, window: int | None) -> bytes:
    """Add the window of the model to the answer of `/tokenize`, which is JSON already."""
    return b'{"max_model_len":%b,%b' % (json.dumps(window).encode(), raw[1:])


def counted(api: Api, body: dict[str, Any], reader: Reader) -> dict[str, Any]:
    """Give the number of ids of a prompt, as an API does. Raises `ApiError`."""
    tokens = {"input_tokens": len(reader.prompt(api, body))}
    return {"object": "response.input_tokens", **tokens} if api.name == "responses" else tokens


COUNTED = {
    f"{api.path}/{name}": partial(counted, api)
    for api in APIS
    for name in {"messages": ["count_tokens"], "responses": ["input_tokens"]}.get(api.name, ())
}
"""The paths that count the ids of a prompt."""


def detokenized(body: dict[str, Any], reader: Reader) -> dict[str, Any]:
    """Give the text of ids. Raises `ApiError`."""
    ids = body.get("tokens")
    if not isinstance(ids, list) or not all(type(id_) is int for id_ in ids):
        raise ApiError(400, "`tokens` is no list of ids", "tokens")
    try:
        return {"prompt": reader.codec.vocab.decode(ids)}
    except (ChatCodecError, OverflowError) as error:
        raise ApiError(400, f"`tokens`: {error}", "tokens") from error
