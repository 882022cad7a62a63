"""Grammars in EBNF, read in the plainest way: what a constraint prints for xgrammar and llama.cpp.

An input is a list of characters and ids of control tokens. A state is a set of stacks; a stack is
what has to follow, innermost first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

LAST = 0x10FFFF
MAX_STACKS = 20_000

TOKENS = re.compile(
    r"""(?P<space>\s+)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<cls>\[(?:[^\]\\]|\\.)*\])
    |(?P<token>Token\([0-9, ]*\)|<\[\d+\]>)|(?P<count>\{\d+,\d*\})|(?P<sign>[()|*+?])
    |(?P<name>[A-Za-z][A-Za-z0-9]*)""",
    re.VERBOSE,
)
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
WIDTHS = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True)
class Chars:
    """One character in ranges."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Token:
    """One of some control tokens."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class Rule:
    """A rule by its name."""

    name: str


@dataclass(frozen=True)
class Choice:
    """One of some sequences."""

    sequences: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True)
class Repeat:
    """So many times; `None` for any number."""

    node: Node
    least: int
    most: int | None


Node = Chars | Token | Rule | Choice | Repeat
Stack = tuple[Node, ...]


def unescaped(text: str) -> list[str]:
    """The characters of a string or of the inside of a class."""
    found = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            found.append(text[at])
            at += 1
        elif text[at + 1] in ESCAPES:
            found.append(ESCAPES[text[at + 1]])
            at += 2
        else:
            width = WIDTHS[text[at + 1]]
            found.append(chr(int(text[at + 2 : at + 2 + width], 16)))
            at += 2 + width
    return found


def ranges_of(text: str) -> Chars:
    """A class. Its `-` stands only between the ends of a range, as these grammars write it."""
    parts = re.findall(r"(\\x..|\\u.{4}|\\U.{8}|[^\\-])(?:-(\\x..|\\u.{4}|\\U.{8}|[^\\-]))?", text)
    ends = [(unescaped(first)[0], unescaped(last or first)[0]) for first, last in parts]
    return Chars(tuple((ord(first), ord(last)) for first, last in ends))


class Grammar:
    """The rules of a grammar."""

    def __init__(self, text: str) -> None:
        self.rules: dict[str, Choice] = {}
        for line in text.splitlines():
            name, definition = line.split(" ::= ", 1)
            assert name not in self.rules, name
            self.items = self.lex(definition)
            self.rules[name] = self.choice()
            assert not self.items, self.items
        names = {*self.names()}
        assert names <= self.rules.keys(), names - self.rules.keys()

    @staticmethod
    def lex(text: str) -> list[tuple[str, str]]:
        items, at = [], 0
        while at < len(text):
            found = TOKENS.match(text, at)
            assert found, text[at : at + 40]
            if found.lastgroup != "space":
                items.append((str(found.lastgroup), found[0]))
            at = found.end()
        items.reverse()
        return items

    def choice(self) -> Choice:
        sequences = [self.sequence()]
        while self.items and self.items[-1][1] == "|":
            self.items.pop()
            sequences.append(self.sequence())
        return Choice(tuple(sequences))

    def sequence(self) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while self.items and self.items[-1][1] not in {"|", ")"}:
            kind, text = self.items.pop()
            made: list[Node]
            if kind == "string":
                made = [Chars(((ord(c), ord(c)),)) for c in unescaped(text[1:-1])]
            elif kind == "cls":
                made = [ranges_of(text[1:-1])]
            elif kind == "token":
                made = [Token(tuple(map(int, re.findall(r"\d+", text))))]
            elif kind == "name":
                made = [Rule(text)]
            else:
                assert text == "(", text
                made = [self.choice()]
                assert self.items.pop()[1] == ")"
            nodes += self.repeated(made)
        return tuple(nodes)

    def repeated(self, made: list[Node]) -> list[Node]:
        kind, text = self.items[-1] if self.items else ("", "")
        if text not in {"*", "+", "?"} and kind != "count":
            return made
        self.items.pop()
        (node,) = made
        if kind == "count":
            least, most = text[1:-1].split(",")
            return [Repeat(node, int(least), int(most) if most else None)]
        return [Repeat(node, int(text == "+"), 1 if text == "?" else None)]

    def names(self) -> Iterable[str]:
        todo: list[Node] = list(self.rules.values())
        while todo:
            node = todo.pop()
            if isinstance(node, Rule):
                yield node.name
            elif isinstance(node, Repeat):
                todo.append(node.node)
            elif isinstance(node, Choice):
                todo += [inner for sequence in node.sequences for inner in sequence]

    def start(self) -> set[Stack]:
        return self.expanded([(Rule("root"),)])

    def expanded(self, stacks: Iterable[Stack]) -> set[Stack]:
        """Stacks whose first node is a character or a token, and empty ones."""
        done: set[Stack] = set()
        seen: set[Stack] = set()
        todo = list(stacks)
        while todo:
            stack = todo.pop()
            if stack in seen:
                continue
            seen.add(stack)
            if not stack or isinstance(stack[0], (Chars, Token)):
                done.add(stack)
                continue
            node, rest = stack[0], stack[1:]
            if isinstance(node, Rule):
                todo.append((self.rules[node.name], *rest))
            elif isinstance(node, Choice):
                todo += [(*sequence, *rest) for sequence in node.sequences]
            else:
                if node.least == 0:
                    todo.append(rest)
                if node.most is None or node.most > 0:
                    most = None if node.most is None else node.most - 1
                    again = Repeat(node.node, max(0, node.least - 1), most)
                    more = () if most == 0 else (again,)
                    todo.append((node.node, *more, *rest))
        assert len(done) < MAX_STACKS
        return done

    def after(self, stacks: set[Stack], item: str | int) -> set[Stack]:
        """The stacks after a character or a control token."""

        def fits(node: Node) -> bool:
            if isinstance(item, int):
                return isinstance(node, Token) and item in node.ids
            return isinstance(node, Chars) and any(a <= ord(item) <= b for a, b in node.ranges)

        return self.expanded([stack[1:] for stack in stacks if stack and fits(stack[0])])

    def refused_at(self, items: Sequence[str | int]) -> int:
        """The position of the first item that is not admitted; the length, if all are."""
        stacks = self.start()
        for at, item in enumerate(items):
            stacks = self.after(stacks, item)
            if not stacks:
                return at
        return len(items)

    def admits(self, items: Sequence[str | int]) -> bool:
        """Whether the items are a whole sentence of the grammar."""
        stacks = self.start()
        for item in items:
            stacks = self.after(stacks, item)
        return () in stacks

    def walk(
        self, chooser: random.Random, most: int, texts: Sequence[str] = ()
    ) -> list[str | int] | None:
        """A random sentence; none, if it does not end after `most` items.

        `texts` are tried now and then: no chooser finds a marker by chance.
        """
        items: list[str | int] = []
        stacks = self.start()
        eager = chooser.choice([0.1, 0.3, 0.6])
        while len(items) < most:
            if () in stacks and (len(stacks) == 1 or chooser.random() < eager):
                return items
            if texts and chooser.random() < eager / 4:
                text = chooser.choice(texts)
                tried = stacks
                for char in text:
                    tried = self.after(tried, char)
                if tried:
                    items += text
                    stacks = tried
                    continue
            nodes = sorted({stack[0] for stack in stacks if stack}, key=repr)
            closing = [node for node in nodes if is_closing(node)]
            node = chooser.choice(closing if closing and chooser.random() < eager else nodes)
            if isinstance(node, Token):
                items.append(chooser.choice(node.ids))
            else:
                assert isinstance(node, Chars)
                first, last = chooser.choice(node.ranges)
                plain = [c for c in 'abc <>{}|_/"\n' if first <= ord(c) <= last]
                items.append(chooser.choice(plain) if plain else character(chooser, first, last))
            stacks = self.after(stacks, items[-1])
        return None


def is_closing(node: Node) -> bool:
    return isinstance(node, Token) or (
        isinstance(node, Chars) and len(node.ranges) == 1 and node.ranges[0][0] == node.ranges[0][1]
    )


def character(chooser: random.Random, first: int, last: int) -> str:
    number = chooser.randint(first, min(last, first + 200))
    return chr(number) if not 0xD800 <= number <= 0xDFFF else "x"
