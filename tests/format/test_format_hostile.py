"""Files that are made to take long: each loads or is refused in about a second."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import pytest
from chatcodec import Codec, Format, FormatError, Vocab, VocabError
from clock import within

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST = 1 << 20
"""The longest file that is read, in bytes."""

SECONDS = 4
"""The most that a file may take to load, and as much again to bind: four times what the slowest
takes on an idle machine, since the tests share theirs."""

HEAD = """\
name = "hostile"
guarantee = "ids"
source = "a test"
generation = { prompt = "{START}assistant\\n" }
"""

CONTROL = """\
[control]
START = "<|im_start|>"
STOP = "<|im_end|>"
"""

TURN = """\
[turn]
system = "{START}system\\n{content}{STOP}\\n"
user = "{START}user\\n{content}{STOP}\\n"
assistant = "{START}assistant\\n{content}{?calls:{calls}?}{STOP}\\n"
"""

FILE = HEAD + CONTROL + TURN
TEXT = 'name = "hostile"\nguarantee = "text"\nsource = "a test"\ngeneration = { prompt = "A" }\n'


def rows(patterns: list[str], rest: str = "") -> str:
    """A file with these rows of the user's."""
    listed = ", ".join(f'"{pattern}"' for pattern in patterns)
    turn = TURN.replace('"{START}user\\n{content}{STOP}\\n"', f"[{listed}]")
    return HEAD + CONTROL + turn + rest


def filled(line: str, size: int = MOST - 2000) -> str:
    """A line for every number, up to a size."""
    lines, total = [], 0
    for number in itertools.count():
        lines.append(line.replace("#", str(number)) + "\n")
        total += len(lines[-1])
        if total > size:
            return "".join(lines[:-1])
    raise AssertionError


def hostile() -> Iterator[tuple[str, str]]:
    """Files by name."""
    yield "variants", FILE + filled("[variant.v#]\nname = 'x'")
    yield (
        "few variants of a long file",
        (f"vocabulary = '{'x' * 800_000}'\n" + FILE + filled("[variant.v#]\nname = 'x'", 1_000)),
    )
    many = rows(
        [f"{{START}}{'u' * 60}{n}{{?name: ({{name}})?}}\\n{{content}}{{STOP}}" for n in range(50)]
    )
    yield "variants of many rows", many + filled("[variant.v#]\nname = 'x'", 1_500)
    yield "long heads", rows([f"{{START}}{'u' * 4000}{n}{{content}}{{STOP}}" for n in range(60)])
    words = "{?name: ({name})?}{/}x{/}"
    yield (
        "long heads with words and guards",
        rows(
            [f"{{START}}{'u' * 1200}{words}{'v' * 1200}{n}{{content}}{{STOP}}" for n in range(60)]
        ),
    )
    yield (
        "words and white space everywhere",
        rows([f"{{START}}{'{~}x' * 25}{'x' * n}{{name}} {{content}}{{STOP}}" for n in range(60)]),
    )
    choice = "|".join(f"T{n}" for n in range(16))
    tokens = "".join(f'T{n} = "<{n}>"\n' for n in range(16))
    yield (
        "choices of tokens",
        rows([f"{{START}}{f'{{{choice}}}' * 60}{n}{{content}}{{STOP}}" for n in range(60)])
        .replace("[control]\n", "[control]\n" + tokens)
        .replace("{STOP}\\n", "{STOP" + "".join(f"|T{n}" for n in range(15)) + "}\\n"),
    )
    yield (
        "a choice of many tokens",
        rows([f"{{START}}{{{'|'.join(f'T{n}' for n in range(60))}}}{{content}}{{STOP}}"]),
    )
    called = FILE.replace("{STOP}\\n", "{END}\\n").replace('STOP = "', 'END = "</s>"\nSTOP = "')
    items = ["{STOP}" + "x" * 2000 + f"{n} {{name}} {{arguments}}{{END}}" for n in range(16)]
    yield "ways to write calls", called + f'[call.f]\nitem = {items}\npair = "python"\n'
    yield "ways to write calls as JSON", called + f"[call.f]\nitem = {items}\n"
    opens = ["{STOP}" + "x" * 4000 + str(n) + "[" for n in range(16)]
    yield (
        "lists of calls",
        (
            called + f'[calls]\nopen = {opens}\nbetween = ","\nclose = "]"\n'
            f"[call.f]\nitem = {['{call}'] * 16}\n"
            'object = { name = "name", arguments = "arguments" }\n'
        ),
    )
    yield "many calls", FILE + filled('[call.f#]\nitem = "{START}{source}{STOP}"')
    numbers = filled('"<#>",', 900_000)
    yield "spellings", FILE.replace("[control]\n", f"[control]\nX = [{numbers}]\n")
    spelled = (f"X{n} = {[f'<{n}.{m}>' for m in range(64)]}\n" for n in range(250))
    yield (
        "many tokens with many spellings",
        FILE.replace("[control]\n", "[control]\n" + "".join(spelled)),
    )
    yield (
        "long spellings in long text",
        rows(["{START}user{content}" + "<" * 1000 + "{STOP}" for _ in range(60)]).replace(
            "[control]\n", "[control]\n" + f"X = '{'<' * 1023}x'\n"
        ),
    )
    alike = "".join(f'"{"x" * 900}{n}", ' for n in range(1020))
    yield "appended tokens", f"append = [{alike}]\n" + FILE
    yield "too many appended tokens", f"append = [{numbers}]\n" + FILE
    yield "roles", FILE + "[roles]\n" + filled('r# = "user"')
    yield "names", FILE + filled("[named.n#]")
    yield "named rows", FILE + filled('[named.n#]\nsystem = "{START}n#{content}{STOP}"')
    yield "deep keys", FILE + "[roles" + ".a" * 400_000 + "]\n"
    yield "deep dots", "a" + ".a" * 400_000 + " = 1\n" + FILE
    yield "deep lists", FILE + "[roles]\na = " + "[" * 400_000 + "]" * 400_000 + "\n"
    yield "deep tables", FILE + "[roles]\na = " + "{a=" * 200_000 + "1" + "}" * 200_000 + "\n"
    yield "many deep keys", FILE + filled("[variant.v.a#" + ".b" * 70 + "]")
    yield "a long key", "a" * 1_000_000 + " = 1\n" + FILE
    yield "a long string", FILE.replace("user\\n", "u" * 1_000_000)
    yield (
        "a long text of tools",
        (
            FILE.replace("[control]", 'place = { tools = "first" }\n[control]')
            + 'tools = "{START}system\\n'
            + "x" * 1_000_000
            + '{tools}{STOP}\\n"\n'
        ),
    )
    yield "braces", FILE.replace("user\\n", "{" * 1_000_000)
    yield "guards that do not end", FILE.replace("user\\n", "{?name:" * 140_000)
    yield "many fields", FILE.replace("user\\n", "{name}" * 160_000)
    yield "a default system", f"default_system = '{'x' * 1_000_000}'\n" + FILE
    yield "keys", FILE + "[variant.x]\n" + filled("k# = 1")
    yield "arrays of tables", FILE + filled("[[variant.x]]")
    yield "effort", FILE + "[options]\neffort = [" + filled('"e#",', 900_000) + "]\n"
    marked = ["USER: " * 160 + str(n) for n in range(256)]
    yield (
        "markers",
        TEXT
        + f"markers = {marked}\n"
        + '[control]\nE = "</s>"\n[turn]\n'
        + ('user = "U: {content}\\n\\n"\nassistant = "A: {content}{E}"\n'),
    )
    heads = ", ".join(f'"{"User " * 700}{n}: {{content}}\\n\\n"' for n in range(50))
    yield (
        "rows of text",
        TEXT
        + '[control]\nE = "</s>"\n[turn]\n'
        + (f'user = [{heads}]\nassistant = "A: {{content}}{{E}}"\n'),
    )


FILES = dict(hostile())


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_or_refused_soon(tmp_path: Path, name: str) -> None:
    text = FILES[name]
    assert len(text) <= MOST
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")

    def load() -> Format | None:
        try:
            return Format.load(path)
        except FormatError as error:
            assert error.key or "expected at most" in str(error)  # noqa: PT017
            return None

    format_ = within(SECONDS, load)
    if format_ is None:
        return

    def bind() -> None:
        with contextlib.suppress(VocabError):
            Codec(format_, Vocab.embedded())

    within(SECONDS, bind)


def test_the_file_that_others_are_made_of_loads(tmp_path: Path) -> None:
    """So that what is refused above is refused for what it is."""
    path = tmp_path / "mine.toml"
    path.write_text(FILE.replace("{?calls:{calls}?}", ""), encoding="utf-8")
    assert Codec(Format.load(path), Vocab.embedded()).encode([]).text == "<|im_start|>assistant\n"
