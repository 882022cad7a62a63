"""What Python source declares: names, parameters and annotations, read without importing it."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Declared", "Source", "Sources"]

_MOST_IMPORTS = 8
"""How many modules are followed from one that imports a name to the one that defines it."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared under a name."""

    parameters: dict[str, bool] | None = None
    """Parameters, each with whether it has to be given; None for what is no function."""
    takes_any: bool = False
    """Whether it takes parameters of any name."""
    returns: str | None = None
    """The annotation of what it returns, as the source writes it."""

    @classmethod
    def of(cls, signature: inspect.Signature, *, is_method: bool) -> Declared:
        """Return what a signature says; `self` and `cls` are left out."""
        given = list(signature.parameters.values())
        if is_method and given and given[0].name in {"self", "cls"}:
            given = given[1:]
        named = [each for each in given if each.kind not in {each.VAR_KEYWORD, each.VAR_POSITIONAL}]
        returned = signature.return_annotation
        return cls(
            {each.name: each.default is each.empty for each in named},
            any(each.kind is each.VAR_KEYWORD for each in given),
            # One that was evaluated has lost the names of its source.
            returned if isinstance(returned, str) else None,
        )


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a module."""

    text: str
    is_package: bool


class Sources:
    """Modules by their sources, each read and parsed once."""

    def __init__(self, read: Callable[[str], Source | None]) -> None:
        """Take the function that reads a module's source, or returns None for no module."""
        self._read = functools.cache(read)
        self._parse = functools.cache(ast.parse)

    def find(self, module: str, name: str) -> Declared | None:
        """Return what a module declares under a name, whose parts are separated by dots."""
        first, *members = name.split(".")
        found = self._name(module, first)
        for member in members:
            found = found and self._member(*found, member)
        return None if found is None else self._declared(*found)

    def _tree(self, module: str) -> ast.Module | None:
        source = self._read(module)
        return None if source is None else self._parse(source.text)

    def _name(self, module: str, name: str, depth: int = 0) -> tuple[str, ast.stmt] | None:
        """Return the module that defines a name, which another may import from it."""
        tree = self._tree(module)
        node = None if tree is None else _statement(tree.body, name)
        if not isinstance(node, ast.ImportFrom):
            return None if node is None else (module, node)
        if depth == _MOST_IMPORTS:
            return None
        (theirs,) = [each.name for each in node.names if (each.asname or each.name) == name]
        origin = self._imported(module, node)
        inner = self._name(origin, theirs, depth + 1)
        # A module of another package is not followed: the name is there.
        return inner or (None if self._tree(origin) else (module, node))

    def _imported(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        source = self._read(module)
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + (source is not None and source.is_package)]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def _member(self, module: str, node: ast.stmt, name: str) -> tuple[str, ast.stmt] | None:
        """Return a member of a class or of its bases."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return None
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            made = node.value.func if isinstance(node.value, ast.Call) else None
            of = self._name(module, made.id) if isinstance(made, ast.Name) else None
            # The instance of a class has its members. What other values hold is not declared.
            return self._member(*of, name) if of else (module, node)
        if not isinstance(node, ast.ClassDef):
            return module, node
        found = _statement(node.body, name)
        if found is not None:
            return module, found
        for base in self._bases(module, node):
            inherited = self._member(*base, name)
            if inherited is not None and isinstance(base[1], ast.ClassDef):
                return inherited
        return None

    def _bases(self, module: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.stmt]]:
        for base in node.bases:
            name = base.value if isinstance(base, ast.Subscript) else base
            found = self._name(module, name.id) if isinstance(name, ast.Name) else None
            if found is not None:
                yield found

    def _declared(self, module: str, node: ast.stmt) -> Declared:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return _function(node)
        if not isinstance(node, ast.ClassDef):
            return Declared()
        made = self._member(module, node, "__init__")
        if made is not None and isinstance(made[1], (ast.FunctionDef, ast.AsyncFunctionDef)):
            return _function(made[1])
        return Declared(self._fields(module, node))

    def _fields(self, module: str, node: ast.ClassDef) -> dict[str, bool]:
        """Return the fields of a class that is made of them, each with whether it is required."""
        fields: dict[str, bool] = {}
        for origin, base in self._bases(module, node):
            if isinstance(base, ast.ClassDef):
                fields |= self._fields(origin, base)
        for each in node.body:
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                fields[each.target.id] = each.value is None
        return fields


def _statement(body: Sequence[ast.stmt], name: str) -> ast.stmt | None:
    """Return the statement of a body, or of its branches, that declares a name."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [each.id for each in node.targets if isinstance(each, ast.Name)]
        elif isinstance(node, ast.AnnAssign):
            names = [node.target.id] if isinstance(node.target, ast.Name) else []
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [each.asname or each.name for each in node.names]
        else:
            inner = _statement([*getattr(node, "body", []), *getattr(node, "orelse", [])], name)
            if inner is not None:
                return inner
            continue
        if name in names:
            return node
    return None


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Declared:
    given = node.args
    placed = [each.arg for each in (*given.posonlyargs, *given.args)]
    first_default = len(placed) - len(given.defaults)
    parameters = {name: at < first_default for at, name in enumerate(placed)}
    for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        parameters[each.arg] = default is None
    for own in ("self", "cls"):
        parameters.pop(own, None)
    returns = None if node.returns is None else ast.unparse(node.returns)
    return Declared(parameters, given.kwarg is not None, returns)
