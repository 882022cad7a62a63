"""Engines that are made of what a plug-in's contract asks for, and of nothing else.

`install` makes the modules of a contract: each name with its parameters. A test puts its own
classes and functions over some of them, which keep the names that they do not have themselves.
"""

from __future__ import annotations

import inspect
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pytest
    from chatcodec.plugins.contract import Need
    from naive import Value


def signature(need: Need) -> inspect.Signature:
    """The signature that a need asks for."""
    named = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, named) for name in need.parameters or ()]
    returns = need.returns or inspect.Signature.empty
    return inspect.Signature(parameters, return_annotation=returns)


def modules(needs: Iterable[Need]) -> dict[str, types.ModuleType]:
    """The modules of needs, by their names, and the packages that hold them."""
    made: dict[str, types.ModuleType] = {}
    for need in sorted(needs, key=lambda each: each.name.count(".")):
        parts = need.module.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            made.setdefault(name, types.ModuleType(name))
        place: Any = made[need.module]
        *owners, last = need.name.split(".")
        for owner in owners:
            if owner not in vars(place):
                setattr(place, owner, type(owner, (), {}))
            place = getattr(place, owner)
        is_class = last[0].isupper() and need.parameters is not None
        value: Any = type(last, (), {}) if is_class else lambda *_given, **_named: None
        if need.parameters is not None:
            value.__signature__ = signature(need)
        setattr(place, last, value if is_class or not owners else staticmethod(value))
    return made


def over(below: Value, above: Value) -> Value:
    """What a test has, over what a contract asks for."""
    if isinstance(below, type) and isinstance(above, type):
        for name, member in vars(above).items():
            over(getattr(below, name, None), getattr(member, "__func__", member))
        return type(below.__name__, (above, below), {})
    if isinstance(below, types.FunctionType) and isinstance(above, types.FunctionType):
        above.__signature__ = inspect.signature(below)  # type: ignore[attr-defined]
    return above


def install(
    patch: pytest.MonkeyPatch,
    needs: Iterable[Need],
    members: Mapping[str, Mapping[str, Value]] | None = None,
) -> dict[str, types.ModuleType]:
    """Put the modules of needs in place of an engine, with a test's own members over them."""
    made = modules(needs)
    for name, module in made.items():
        patch.setitem(sys.modules, name, module)
    for name, values in (members or {}).items():
        for member, value in values.items():
            setattr(made[name], member, over(vars(made[name]).get(member), value))
    return made
