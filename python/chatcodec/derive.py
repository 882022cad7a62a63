"""A format file from a model's chat template, for a model that has no built-in format.

>>> from chatcodec import Codec, Template, Vocab
>>> from chatcodec.derive import derive
>>> source = '''{% for m in messages %}<|im_start|>{{ m.role }}
... {{ m.content }}<|im_end|>
... {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
... {% endif %}'''
>>> print(derive(Codec(Template(source), Vocab.embedded()), "my-model").splitlines()[0])
# Derived from the chat template of my-model by `chatcodec derive`.
"""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcodec._core import Codec, Format, formats
from chatcodec.errors import ChatCodecError, FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["derive"]

_TEXTS = ("Hi", "Two\nlines", " spaced ", "naïve 中文 🦜", "1 + 1 = 2.")


def derive(codec: Codec, model: str) -> str:
    """Give a format file that writes what the template of `codec` does, in messages of text.

    The first lines say what the file was compared on, and what of the template it leaves out.

    Raises `FormatError` for a codec of a built-in format, which needs no file; for a template whose
    turns could not be derived; and for a file that writes something else than the template.
    """
    turns = codec.derived_turns
    if codec.template is None or (turns is None and codec.format.name in formats()):
        raise FormatError(
            f"format of `{model}`: is the built-in format `{codec.format.name}`; "
            "expected a model without one",
            model,
        )
    if turns is None:
        raise FormatError(
            f"format of `{model}`: the turns of its chat template could not be derived; "
            "expected a template with a row a role",
            model,
        )
    text, same = next(_exact(codec, turns), ("", 0))
    if not same:
        raise FormatError(
            f"format of `{model}`: no format file writes what its chat template does, also where "
            "messages are texts; expected a template with a row a role",
            model,
        )
    name = re.sub(r"[^a-z0-9.-]+", "-", Path(model).name.lower()).strip("-.") or "model"
    source = json.dumps(f"chat template of {model}", ensure_ascii=False)
    text = re.sub(r'^name = ".*"$', lambda _: f'name = "{name}"', text, flags=re.MULTILINE)
    text = re.sub(r'^source = ".*"$', lambda _: f"source = {source}", text, flags=re.MULTILINE)
    text = _named(text)
    left_out = _left_out(codec, Codec(_load(text), codec.vocab))
    head = [
        f"Derived from the chat template of {model} by `chatcodec derive`.",
        f"Compared with the template on {same} conversations of texts: the same ids.",
        (f"Refused or written differently by this file: {', '.join(left_out) or 'nothing found'}."),
        "`chatcodec formats check` compares it with the template, as it is changed by hand.",
    ]
    return "".join(f"# {' '.join(line.split())}\n" for line in head) + "\n" + text


def _named(text: str) -> str:
    """Name control tokens by their spellings: `{IM_START}` in place of `{C0}`."""
    tokens = re.findall(r'^(C\d+) = (".*")$', text, flags=re.MULTILINE)
    names: dict[str, str] = {}
    for old, spelling in tokens:
        given = json.loads(spelling)
        words = re.sub(r"[^A-Z0-9]+", "_", given.upper()).strip("_")
        name = f"{words}_END" if given.startswith(("</", "[/")) else words
        names[old] = name if name[:1].isalpha() and name not in names.values() else old
    pattern = r"^C\d+(?= = )|(?<=[{|])C\d+(?=[|}])"
    return re.sub(pattern, lambda found: names.get(found[0], found[0]), text, flags=re.MULTILINE)


def _exact(codec: Codec, turns: str) -> Iterator[tuple[str, int]]:
    """Give the variants of the derived file that write what the template does.

    With each, the number of conversations that both write.
    """
    expected = [(messages, _ids(codec, messages)) for messages in _conversations()]
    rows = ("system", "user", "assistant")
    trims = [kept for count in range(4) for kept in itertools.combinations(rows, count)]
    for prompted in _prompts(codec, turns):
        for with_default in _defaults(codec, prompted):
            for trimmed in trims:
                text = with_default
                for role in trimmed:
                    row = rf'^({role} = ".*){{content}}'
                    text = re.sub(row, r"\1{content:trim}", text, flags=re.MULTILINE)
                try:
                    written = Codec(_load(text), codec.vocab)
                except ChatCodecError:
                    continue
                found = [(ids, _ids(written, messages)) for messages, ids in expected]
                # What the file refuses, it does not write otherwise.
                same = sum(own is not None and own == ids for ids, own in found)
                if found[0][1] is not None and all(own is None or own == ids for ids, own in found):
                    yield text, same


def _prompts(codec: Codec, text: str) -> Iterator[str]:
    """Give the file, and the file with all that the template writes as the prompt."""
    yield text
    user = [{"role": "user", "content": "Hi"}]
    whole = codec.encode(user, add_generation_prompt=True).text
    open_ = codec.encode(user, add_generation_prompt=False).text
    if whole.startswith(open_) and whole != open_:
        prompt, control = _pattern(codec, text, whole[len(open_) :])
        text = re.sub(r"^generation = .*$", lambda _: f"generation = {{ prompt = {prompt} }}", text,
                      flags=re.MULTILINE)  # fmt: skip
        yield text.replace("[turn]\n", control + "[turn]\n")


def _defaults(codec: Codec, text: str) -> Iterator[str]:
    """Give the file, and the file with the system message that the template writes by itself."""
    yield text
    mark, user = "\uf8ff", {"role": "user", "content": "Hi"}
    try:
        given = codec.encode([{"role": "system", "content": mark}, user]).text
        alone = codec.encode([user]).text
    except ChatCodecError:
        return
    before, _, after = given.partition(mark)
    if alone.startswith(before) and alone.endswith(after) and len(alone) >= len(before + after):
        default = json.dumps(alone[len(before) : len(alone) - len(after)], ensure_ascii=False)
        yield text.replace("[control]\n", f"default_system = {default}\n[control]\n")


def _pattern(codec: Codec, text: str, written: str) -> tuple[str, str]:
    """Write text with control tokens as a pattern; give it, and the lines of new control tokens."""
    names = {json.loads(spelling): name for name, spelling in re.findall(
        r'^(C\d+) = (".*")$', text, flags=re.MULTILINE)}  # fmt: skip
    lines = ""
    spellings = sorted(codec.vocab.control, key=len, reverse=True)
    found = re.compile("|".join(map(re.escape, spellings))) if spellings else None
    pattern, at = "", 0
    for match in found.finditer(written) if found else ():
        name = names.get(match[0])
        if name is None:
            name = names[match[0]] = f"C{len(names)}"
            lines += f"{name} = {json.dumps(match[0], ensure_ascii=False)}\n"
        pattern += _literal(written[at : match.start()]) + "{" + name + "}"
        at = match.end()
    return json.dumps(pattern + _literal(written[at:]), ensure_ascii=False), lines


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _load(text: str) -> Format:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "derived.toml"
        path.write_text(text, encoding="utf-8")
        return Format.load(path)


def _conversations() -> list[list[dict[str, str]]]:
    found: list[list[dict[str, str]]] = []
    for at, text in enumerate(_TEXTS):
        other = _TEXTS[at - 1]
        user, answer = {"role": "user", "content": text}, {"role": "assistant", "content": other}
        system = {"role": "system", "content": other}
        found += [[user], [system, user], [user, answer], [user, answer, user]]
        found.append([system, user, answer, user, answer])
    return found


def _ids(codec: Codec, messages: Any, **options: Any) -> list[int] | None:  # noqa: ANN401
    """Encode; nothing for what is refused."""
    try:
        return codec.encode(messages, **options).ids.tolist()
    except ChatCodecError:
        return None


def _left_out(codec: Codec, written: Codec) -> list[str]:
    """Name the parts that the template writes, and the file refuses or writes differently."""
    user = {"role": "user", "content": "Hi"}
    answer = {"role": "assistant", "content": "A."}
    function: dict[str, Any] = {"name": "look", "parameters": {"type": "object", "properties": {}}}
    tools = [{"type": "function", "function": function}]
    call = {"id": "call00001", "type": "function", "function": {"name": "look", "arguments": {}}}
    calling: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "content": "R.", "name": "look", "tool_call_id": "call00001"}

    def differs(changed: Any, plain: Any, **options: Any) -> bool:  # noqa: ANN401
        found = _ids(codec, changed, **options)
        if found is None or found == _ids(codec, plain):
            return False
        return found != _ids(written, changed, **options)

    empty = {"role": "assistant", "content": ""}
    thinking = {**answer, "reasoning_content": "Hm."}
    parts = {
        "tools": differs([user], [user], tools=tools),
        "calls": differs([user, calling], [user, empty]),
        "results": differs([user, calling, result], [user, calling]),
        "reasoning": differs([user, thinking], [user, answer]),
    }
    system = [{"role": "system", "content": "S."}, user]
    parts["system messages"] = differs(system, [user]) and _ids(written, system) is None
    return [part for part, is_left in parts.items() if is_left]
