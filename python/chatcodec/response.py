r"""A response template from what a codec writes, for transformers, TRL and vLLM.

The markers of reasoning, calls and texts are found in answers that the codec writes. A response
template is given if it reads random answers of all parts that the codec itself reads.

>>> from chatcodec import Codec
>>> from chatcodec.response import export_response
>>> spec = export_response(Codec("chatml", vocab="embedded"))
>>> spec["start_anchor"], spec["fields"]["content"]["close"]
('<|im_start|>assistant\n', ['<|im_end|>'])
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from chatcodec._core import Codec, ResponseTemplate, Template
from chatcodec.errors import ChatCodecError, FormatError, MessageError, TemplateError
from chatcodec.proof import prove, prove_reader

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from chatcodec.proof import Proof

__all__ = ["export_response"]

_QUESTION, _TEXT, _THOUGHT = "Qwzk", "Awzk", "Twzk"
_NAMES, _KEY, _VALUE = ("fwzk", "gwzk"), "kwzk", "vwzk"
"""Words that no template has, and that no template changes."""

_WHOLE = {"whole conversations of texts", "a result of a call"}
"""What no reader of completions reads."""


def export_response(codec: Codec, proof: Proof | None = None) -> dict[str, Any]:
    """Write the reader of a codec as a response template, version 1.

    It is the value of `response_template` in a model's `tokenizer_config.json`. `proof` is what
    `prove` found of the codec, if that is known: parts that the codec does not read back need not
    be read by the response template either.

    Raises `FormatError` with the part that no response template can say: calls whose arguments are
    no JSON, or that no marker opens; and what `prove` raises.
    """
    if codec.response_template is not None:
        known: dict[str, Any] = json.loads(codec.response_template.source)
        return known
    proof = prove(codec) if proof is None else proof
    read = {part.part for part in proof.parts if part.written and part.is_fine}
    parts = tuple(part.part for part in proof.parts if part.part in read - _WHOLE)
    if not parts:
        raise _cannot("has nothing to say, where the codec reads no answers back", "")
    try:
        spec = _Answers(codec).spec(read)
        template = ResponseTemplate(spec)
        reader = Codec(codec.template or _writer(codec), codec.vocab, reader=template)
    except (MessageError, TemplateError) as error:
        raise _cannot(f"cannot be made: {error}", "") from error
    count = max(proof.count * len(parts) // len(proof.parts), len(parts))
    tried = prove_reader(codec, reader, parts, count=count, seed=proof.seed)
    for part in tried.parts:
        if part.misread is not None:
            raise _cannot(f"would not read {part.part}: {part.misread.first}", part.part)
    return spec


def _cannot(why: str, part: str) -> FormatError:
    return FormatError(
        f"response template: {why}; expected markers around texts, reasoning and calls of JSON",
        "response_template",
        part,
    )


def _writer(codec: Codec) -> Template:
    """Make a template for the vocabulary of a built-in format: a reader has to have one."""
    stop = json.dumps(codec.vocab.decode(codec.stop_ids[:1]), ensure_ascii=False)
    return Template(f"{{% for m in messages %}}{{{{ m.content + {stop} }}}}{{% endfor %}}")


class _Called(NamedTuple):
    """A call in a text."""

    start: int
    """Where its name begins, or its JSON."""
    end: int
    after_name: str
    """What stands between its name and its JSON; empty where the JSON has the name."""
    transform: dict[str, Any]
    """How the JSON becomes a function's name and arguments."""
    is_list: bool
    """Whether the JSON is a list of calls."""


class _Answers:
    """Answers that a codec writes, and the markers in them."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        spellings = sorted((one for one in codec.vocab.control if one), key=len, reverse=True)
        self.control = re.compile("|".join(map(re.escape, spellings)) or "(?!)")
        self.thought: dict[str, str] = {}

    def _after_question(self, *answers: dict[str, Any], prompts: bool = False) -> str:
        """Write a conversation; give what follows the question."""
        messages = [{"role": "user", "content": _QUESTION}, *answers]
        encoding = self.codec.encode(
            messages,
            tools=_TOOLS if any("tool_calls" in one for one in answers) else None,
            add_generation_prompt=prompts,
            on_unsupported="drop",
        )
        return encoding.text.rpartition(_QUESTION)[2]

    def spec(self, parts: Collection[str]) -> dict[str, Any]:
        """Write the response template of some parts."""
        said = _parted(self._after_question(_answer()), _TEXT)
        thought = calling = None
        heads = [self._after_question(prompts=True), said[0]]
        if thinking := {"reasoning", "reasoning before a call"} & set(parts):
            answer = _answer() if "reasoning" in thinking else _calling(1)
            thought = self._after_question({**answer, "reasoning_content": _THOUGHT})
            heads.append(_parted(thought, _THOUGHT)[0])
        if "a call" in parts:
            calling = self._after_question(_calling(1))
            heads.append(calling[: _called(calling, 0).start])
        start = self._start(heads, is_thinking=thought is not None)
        fields: dict[str, Any] = {}
        if thought is not None:
            fields["reasoning_content"] = self.thought = self._reasoning(thought, len(start))
        ends = [*self._closing(said[1]), *map(self._spelled, self.codec.stop_ids)]
        if calling is not None:
            fields["tool_calls"], end = self._calls(calling, start)
            ends += end
        opens = [self._bare(said[0][len(start) :])]
        if opens[0] and "text beside a call" in parts:
            beside = _parted(self._after_question({**_calling(1), "content": _TEXT}), _TEXT)
            opens.append(self._bare(beside[0][len(start) :]))
            ends += self._closing(beside[1])
        ends = list(filter(None, dict.fromkeys(ends)))
        fields["content"] = {"close": ends} if ends else {}
        if opens[0]:
            fields["content"]["open"] = list(filter(None, dict.fromkeys(opens)))
        return {
            "version": 1,
            "defaults": {"role": "assistant"},
            **self._anchor(start, heads),
            "fields": fields,
        }

    def _anchor(self, start: str, heads: Sequence[str]) -> dict[str, str]:
        """What an answer begins with, without what ends the question."""
        closing = self._after_question()
        anchor = start.removeprefix(closing)
        anchor = anchor if anchor.strip() else start
        close = self.thought.get("close", "")
        if close and any(head[len(start) :].lstrip().startswith(close) for head in heads):
            # Prompts without reasoning end the reasoning that they do not open.
            return {"start_anchor_pattern": f"{_escaped(anchor)}(?:{re.escape(close)})?"}
        return {"start_anchor": anchor}

    def _spelled(self, control: int) -> str:
        return self.codec.vocab.decode([control])

    def _units(self, text: str) -> list[str]:
        """Part a text into control tokens and characters."""
        units, at = list[str](), 0
        for found in self.control.finditer(text):
            units += [*text[at : found.start()], found[0]]
            at = found.end()
        return [*units, *text[at:]]

    def _common(self, texts: Sequence[str]) -> str:
        """The common beginning of some texts, in whole control tokens."""
        found = list[str]()
        for units in zip(*map(self._units, texts), strict=False):
            if len(set(units)) > 1:
                break
            found.append(units[0])
        return "".join(found)

    def _start(self, heads: Sequence[str], *, is_thinking: bool) -> str:
        """What all answers begin with, without a marker of reasoning."""
        start = self._common(heads)
        if is_thinking and not heads[2][len(start) :].strip():
            # All answers begin with the marker of reasoning.
            tokens = [one for one in self.control.finditer(start) if not start[one.end() :].strip()]
            opening = tokens[-1].start() if tokens else start.rstrip().rfind("\n") + 1
            start = start[:opening] if start[:opening].strip() else start
        if not start.strip():
            raise _cannot("cannot say where an answer begins", "start_anchor")
        return start

    def _closing(self, text: str) -> list[str]:
        """The marker that a text begins with: up to a control token, or that token."""
        token = self.control.search(text)
        before = (text[: token.start()] if token else text).strip()
        return [before] if before else [token[0]] if token else []

    def _bare(self, text: str) -> str:
        """A text without reasoning before it."""
        text = text.strip()
        if self.thought and text.startswith((self.thought["open"], self.thought["close"])):
            text = text.partition(self.thought["close"])[2]
        return text.strip()

    def _reasoning(self, text: str, start: int) -> dict[str, str]:
        before, rest = _parted(text, _THOUGHT)
        opened, closed = before[start:].strip(), self._closing(rest.partition(_TEXT)[0])
        if not opened or not closed:
            raise _cannot("cannot say reasoning, which has no markers", "reasoning")
        return {"open": opened, "close": closed[0]}

    def _calls(self, text: str, start: str) -> tuple[dict[str, Any], list[str]]:
        """The field of calls, and the tokens that end all calls of an answer."""
        call = _called(text, 0)
        before, after = self._bare(text[len(start) : call.start]), text[call.end :]
        closed = self._closing(after)
        around = ""
        if not call.is_list and (between := self._between_calls()):
            closed = [self._common([after, between]).strip()] if between.strip() else []
            opened = self._common([before[::-1], between.strip()[::-1]])[::-1]
            opened = self._whole_tokens(opened, before)
            around, before = before.removesuffix(opened).strip(), opened.strip()
        if not before or not any(closed):
            raise _cannot("cannot say a call, which has no marker at both ends", "a call")
        after = after.partition(closed[0])[2]
        pattern = f"\\s*(?:{_escaped(around)}\\s*)?" if around else "\\s*"
        pattern += _escaped(before)
        if call.after_name:
            after_name = re.sub(r"\d+", lambda _: r"\d+", _escaped(call.after_name.rstrip()))
            pattern += f"\\s*(?P<name>[\\w.\\-]+){after_name}"
        field = {
            "open_pattern": pattern,
            **_closed(closed[0], after),
            "content": "json",
            "transform": {"type": "function", "function": call.transform},
        }
        return field | (
            {"transform_each": True} if call.is_list else {"repeats": True}
        ), self._closing(after)

    def _whole_tokens(self, text: str, end_of: str) -> str:
        """The end of a text without a part of a control token."""
        cut = len(end_of) - len(text)
        for found in self.control.finditer(end_of):
            if found.start() < cut < found.end():
                return end_of[found.end() :]
        return text

    def _between_calls(self) -> str:
        """What stands between two calls; empty where two calls are not written."""
        try:
            text = self._after_question(_calling(2))
            first = _called(text, 0)
            return text[first.end : _called(text, 1, first.end).start]
        except ChatCodecError:
            return ""


_PARAMETERS = {"type": "object", "properties": {_KEY: {"type": "string"}}}
_TOOLS = [
    {"type": "function", "function": {"name": name, "description": "", "parameters": _PARAMETERS}}
    for name in _NAMES
]


def _answer() -> dict[str, Any]:
    return {"role": "assistant", "content": _TEXT}


def _calling(count: int) -> dict[str, Any]:
    calls = [
        {
            "id": f"call0000{nth}",
            "type": "function",
            "function": {"name": name, "arguments": {_KEY: _VALUE}},
        }
        for nth, name in enumerate(_NAMES[:count], 1)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _escaped(text: str) -> str:
    """Write a text as a pattern, with any white space where it has some."""
    return r"\s*".join(re.escape(part) for part in re.split(r"\s+", text))


def _closed(close: str, after: str) -> dict[str, str]:
    """What ends a call, with the white space after it: it is no text beside the call."""
    return {"close_pattern": f"{re.escape(close)}\\s*"} if after[:1].isspace() else {"close": close}


def _parted(text: str, word: str) -> tuple[str, str]:
    before, found, after = text.partition(word)
    if not found:
        raise _cannot("cannot say texts that the codec does not write as they are", "")
    return before, after


def _called(text: str, nth: int, after: int = 0) -> _Called:
    """Find a call in a text from a place on. Raises `FormatError`."""
    start, end, value = _json_with(text, _VALUE, after)
    items = value if isinstance(value, list) else [value]
    name = _path_to(items[0], _NAMES[nth])
    arguments = _path_to(items[0], {_KEY: _VALUE})
    if name and arguments:
        root = [] if isinstance(value, list) else ["content"]
        transform = {
            "name": f"{{{'.'.join([*root, *name])}}}",
            "arguments": f"{{{'.'.join([*root, *arguments])}}}",
        }
        return _Called(start, end, "", transform, isinstance(value, list))
    place = text.rfind(_NAMES[nth], after, start)
    if place < 0 or value != {_KEY: _VALUE}:
        raise _cannot("cannot say a call, whose name is not beside its JSON", "a call")
    between = text[place + len(_NAMES[nth]) : start]
    transform = {"name": "{name}", "arguments": "{content}"}
    return _Called(place, end, between or " ", transform, is_list=False)


def _json_with(text: str, word: str, after: int) -> tuple[int, int, Any]:
    """Find the outermost JSON value with a word in it: its start, its end, and the value."""
    decoder = json.JSONDecoder()
    place = text.find(word, after)
    for found in re.finditer(r"[\[{]", text[after : max(place, after)]):
        with contextlib.suppress(ValueError):
            value, end = decoder.raw_decode(text, after + found.start())
            if end > place:
                return after + found.start(), end, value
    raise _cannot("cannot say a call, whose arguments are no JSON", "a call")


def _path_to(value: Any, wanted: object) -> tuple[str, ...]:  # noqa: ANN401
    """The keys that lead to a member of an object; none if it has no such member."""
    for key, item in value.items() if isinstance(value, dict) else ():
        if item == wanted:
            return (key,)
        if path := _path_to(item, wanted):
            return (key, *path)
    return ()
