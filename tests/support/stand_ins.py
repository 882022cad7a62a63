"""Stand-ins for modules that need torch or a GPU, so that an engine's own Python runs without.

`stand_in` makes every module of the given names empty: an attribute of one is a class that takes
anything and does nothing. `without_init` makes packages whose `__init__` does not run. What a test
is about must not be among them.
"""

from __future__ import annotations

import abc
import importlib.machinery
import sys
import types
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest
    from naive import Value

ABSENT = {"npu", "musa", "hpu", "xpu"}
"""Devices that packages look for by `hasattr`."""


class Anything(abc.ABCMeta):
    """The class of stand-ins for classes."""

    def __getattr__(cls, name: str) -> Value:
        if name.startswith("__") or name in ABSENT:
            raise AttributeError(name)
        return Anything(name, (Nothing,), {})

    def __or__(cls, other: Value) -> Value:
        return cls

    def __ror__(cls, other: Value) -> Value:
        return cls

    def __getitem__(cls, key: Value) -> Value:
        return cls

    def __iter__(cls) -> Iterator[Value]:
        return iter(())


class Nothing(metaclass=Anything):
    """A stand-in for a class, a function or a value."""

    def __init__(self, *given: Value, **named: Value) -> None:
        pass

    def __getattr__(self, name: str) -> Value:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __call__(self, *given: Value, **named: Value) -> Value:
        is_decorator = len(given) == 1 and callable(given[0]) and not named
        return given[0] if is_decorator else self

    def __bool__(self) -> bool:
        return False


class Empty(types.ModuleType):
    __version__ = "2.9.0"
    __path__: list[str] = []  # noqa: RUF012 (of the module)

    def __getattr__(self, name: str) -> Value:
        if name.startswith("__") or name in ABSENT:
            raise AttributeError(name)
        return Anything(name, (Nothing,), {})


class Finder(MetaPathFinder, Loader):
    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def find_spec(self, name: str, *_given: Value) -> importlib.machinery.ModuleSpec | None:
        if any(f"{name}.".startswith(f"{each}.") for each in self.names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def stand_in(patch: pytest.MonkeyPatch, *names: str) -> None:
    patch.setattr(sys, "meta_path", [Finder(names), *sys.meta_path])


def without_init(patch: pytest.MonkeyPatch, root: Path, *names: str) -> None:
    for name in names:
        package = types.ModuleType(name)
        package.__path__ = [str(Path(root, *name.split(".")))]
        patch.setitem(sys.modules, name, package)
