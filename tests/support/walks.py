"""Random walks over the token masks of llguidance: completions that a constraint admits.

A walk takes one admitted token after another. Its chooser is seeded, and prefers tokens that end
a text or a value, so that walks end; a walk that has not ended after so many tokens is no
completion.
"""

from __future__ import annotations

import functools
import json
import random
import re
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

if TYPE_CHECKING:
    from chatcodec import Codec

MAX_TOKENS = 2400
DRAWS = 8
"""Ids that are drawn before all that are admitted are looked for."""
CLOSERS = {b'"', b"}", b"]", b")", b">", b"\n", b",", b":", b"'", b"<"}

Bits = np.ndarray[tuple[int], np.dtype[np.uint8]]
Ids = np.ndarray[tuple[int], np.dtype[np.int64]]


def bits(matcher: LLMatcher) -> Bits:
    """Which ids may come next: uint8[vocabulary / 8], the first id in the lowest bit."""
    return np.frombuffer(matcher.compute_bitmask(), np.uint8)


def is_admitted(mask: Bits, id_: int) -> bool:
    """Whether an id may come next."""
    return bool(mask[id_ >> 3] >> (id_ & 7) & 1)


def admitted(mask: Bits, ids: Ids) -> Ids:
    """Those of some ids that may come next."""
    can_come = (mask[ids >> 3] >> (ids & 7).astype(np.uint8)) & 1 == 1
    found: Ids = ids[can_come]
    return found


@functools.cache
def _validator(schema: str) -> jsonschema.Draft202012Validator:
    parsed = json.loads(schema)
    jsonschema.Draft202012Validator.check_schema(parsed)
    return jsonschema.Draft202012Validator(parsed)


def validate(value: object, schema: dict[str, Any]) -> None:
    """`jsonschema.validate`, which looks at each schema once."""
    _validator(json.dumps(schema)).validate(value)


class _Tokenizer:
    """The vocabulary of a codec, as llguidance asks for it."""

    def __init__(self, codec: Codec) -> None:
        self.vocab = codec.vocab
        self.bos_token_id = None
        self.eos_token_id = codec.stop_ids[0]
        self.special_token_ids = sorted({*self.vocab.control.values(), *codec.stop_ids})
        self.tokens = [self.vocab.token_bytes(id_) for id_ in range(self.vocab.size)]
        # Of two tokens with one byte, the first is that byte and the last is a piece of text.
        self.bytes = {token: id_ for id_, token in enumerate(self.tokens) if len(token) == 1}

    def __call__(self, text: bytes | str) -> list[int]:
        if isinstance(text, bytes):
            text = text.decode()
        ids = list(self.vocab.encode(text))
        if self.spelled(ids) != text.encode():
            # The vocabulary puts a space before text by itself, but not after a newline.
            first = list(self.vocab.encode("\n"))
            ids = list(self.vocab.encode("\n" + text))[len(first) :]
        return ids if self.spelled(ids) == text.encode() else self.by_byte(text.encode())

    def spelled(self, ids: list[int]) -> bytes:
        return b"".join(self.tokens[id_] for id_ in ids)

    def by_byte(self, text: bytes) -> list[int]:
        return [self.bytes[text[at : at + 1]] for at in range(len(text))]


class Walker:
    """Walks over the masks of one codec's vocabulary."""

    def __init__(self, codec: Codec) -> None:
        tokenizer = _Tokenizer(codec)
        self.codec = codec
        self.stops = set(codec.stop_ids)
        self.size = codec.vocab.size
        self.tokenizer = LLTokenizer(TokenizerWrapper(tokenizer), n_vocab=self.size)
        self.encode = tokenizer
        self.special = np.zeros(self.size, bool)
        self.special[tokenizer.special_token_ids] = True
        self.text = ~self.special
        closers = []
        for id_, token in enumerate(tokenizer.tokens):
            # No text is encoded to a byte's own token where another token has the byte.
            self.text[id_] &= len(token) != 1 or tokenizer.bytes[token] == id_
            if len(token) < 6 and token[:1] in CLOSERS and not self.special[id_]:
                closers.append(id_)
        self.specials, self.closers = np.flatnonzero(self.special), np.array(closers, np.int64)
        self.is_usual = (self.text | self.special).astype(np.uint8)
        self.usual = np.flatnonzero(self.is_usual)

    def matcher(self, lark: str) -> LLMatcher:
        """A matcher of a grammar, which must be one."""
        matcher = LLMatcher(self.tokenizer, lark, log_level=0)
        assert not matcher.is_error(), matcher.get_error()
        return matcher

    def walk(self, grammar: LLMatcher, seed: int, closers: list[str]) -> list[int] | None:
        """The ids of a random completion; none, if the walk does not end.

        `closers` are texts that are tried now and then: no chooser finds a tag by chance.
        """
        matcher = grammar.deep_copy()
        chooser = random.Random(seed)
        eager = chooser.choice([0.1, 0.3, 0.6])
        ids: list[int] = []
        while len(ids) < MAX_TOKENS:
            if closers and chooser.random() < eager / 4:
                for closer in chooser.sample(closers, len(closers)):
                    text = self.encode(closer)
                    tried = matcher.deep_copy()
                    if tried.try_consume_tokens(text) == len(text):
                        matcher = tried
                        ids += text
                        break
            mask = bits(matcher)
            pick = chooser.random()
            options = admitted(mask, self.specials)
            if pick > eager or not len(options):
                options = admitted(mask, self.closers)
            if pick > 2 * eager or not len(options):
                options = self.some(mask, chooser)
            assert len(options), (self.codec.vocab.decode(ids), matcher.get_error())
            ids.append(int(chooser.choice(options)))
            assert matcher.consume_token(ids[-1]), matcher.get_error()
            if ids[-1] in self.stops and matcher.is_accepting():
                return ids
        return None

    @staticmethod
    def tags(lark: str) -> list[str]:
        """The texts of a grammar that hold a closing tag, or open a call without a token."""
        text = "\n".join(line for line in lark.splitlines() if "/(?s:" not in line)
        one = r'"(?:[^"\\\n]|\\.)*"'
        # A marker that is text has literals beside it.
        runs = re.findall(rf"{one}(?: {one})+", text)
        texts = {json.loads(literal) for literal in re.findall(one, text)}
        texts |= {"".join(map(json.loads, re.findall(one, run))) for run in runs}
        is_tag = re.compile(r"</|\(|<TOOL|<｜|<[^<>]*\Z").search
        return sorted(text for text in texts if is_tag(text))

    def some(self, mask: Bits, chooser: random.Random) -> Ids:
        """One of the ids that may come next, or all of them: most masks have many or few."""
        for _ in range(DRAWS):
            at = chooser.randrange(len(self.usual))
            if is_admitted(mask, int(self.usual[at])):
                return self.usual[at : at + 1]
        is_usual = np.unpackbits(mask, bitorder="little")[: self.size] & self.is_usual
        return np.flatnonzero(is_usual.view(bool))

    def refused_at(self, grammar: LLMatcher, ids: list[int]) -> int:
        """The position of the first id that is not admitted; the length, if all are."""
        matcher = grammar.deep_copy()
        for at, id_ in enumerate(ids):
            is_over = at > 0 and ids[at - 1] in self.stops and matcher.is_stopped()
            if is_over or not is_admitted(bits(matcher), id_) or not matcher.consume_token(id_):
                return at
        return len(ids)
