"""Fields that name ids of the vocabulary: which ids exist, and which a client may not choose."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatcodec import Codec

__all__ = ["Ids"]

_ID = re.compile(r"0|[1-9]\d{0,9}")
_BIAS = 100


class Ids:
    """The ids of a codec's vocabulary."""

    def __init__(self, codec: Codec) -> None:
        """Remember which ids are control."""
        self.size = codec.vocab.size
        self.stops = frozenset(codec.stop_ids)
        self.control = frozenset(codec.vocab.control.values()) | self.stops

    def check(self, fields: Mapping[str, Any]) -> None:
        """Check the fields that name ids. Raises `ApiError` with the field as its `param`."""
        for key in ("stop_token_ids", "logprob_token_ids"):
            self._check_list(key, fields.get(key, []))
        allowed = fields.get("allowed_token_ids")
        if allowed == []:
            _refuse("allowed_token_ids", "is empty, expected one id or more")
        self._check_list("allowed_token_ids", allowed or [])
        for at, id_ in enumerate(allowed or []):
            self._check_text(f"allowed_token_ids[{at}]", id_, self.control - self.stops)
        for at, word in enumerate(fields.get("bad_words") or []):
            if not isinstance(word, str) or not word:
                _refuse(f"bad_words[{at}]", f"is {word!r:.80}, expected a text")
        self._check_bias(fields.get("logit_bias") or {})

    def _check_bias(self, bias: Mapping[str, Any]) -> None:
        for key, value in bias.items():
            path = f"logit_bias.{key:.80}"
            if not _ID.fullmatch(key):
                _refuse(path, "is no id, expected a whole number as the key")
            self._check_known(path, int(key))
            self._check_text(path, int(key), self.control)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                _refuse(path, f"is {value!r:.80}, expected a number")
            if not -_BIAS <= value <= _BIAS:
                _refuse(path, f"is {value!s:.80}, expected -{_BIAS} to {_BIAS}")

    def _check_list(self, key: str, ids: list[Any]) -> None:
        for at, id_ in enumerate(ids):
            if type(id_) is not int:
                _refuse(f"{key}[{at}]", f"is {id_!r:.80}, expected an id")
            self._check_known(f"{key}[{at}]", id_)

    def _check_known(self, path: str, id_: int) -> None:
        if not 0 <= id_ < self.size:
            _refuse(path, f"is the id {id_!s:.40}, expected one below {self.size}")

    def _check_text(self, path: str, id_: int, refused: frozenset[int]) -> None:
        if id_ in refused:
            _refuse(path, "is the id of a control token, expected ids of text")


def _refuse(path: str, problem: str) -> NoReturn:
    # Clients know the field; the place in it is in the message.
    raise ApiError(400, f"`{path}` {problem}", re.split(r"[.\[]", path)[0])
