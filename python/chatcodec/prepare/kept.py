"""Columns of the input that are kept: one type for a run, whatever the files have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["KeptColumns"]

_SCALARS = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


class KeptColumns:
    """The types of kept columns, which the first rows decide.

    A column of JSON is of booleans, integers or floats if all its first values are. Otherwise it is
    text, which holds other values as JSON. A column of a table keeps its type.
    """

    def __init__(self, names: Sequence[str], schema: pa.Schema | None) -> None:
        """Name the columns; `schema` is that of the rows before, if there are any."""
        self._names = names
        self._types: dict[str, pa.DataType] = {}
        if schema is not None:
            self._types = {name: schema.field(name).type for name in names}

    def is_waiting(self) -> bool:
        """Whether no rows have decided the types yet."""
        return len(self._types) < len(self._names)

    def columns(self, given: Mapping[str, Any], rows: int) -> tuple[dict[str, Any], dict[int, str]]:
        """Give the columns in their types, and why rows do not fit them.

        A value of `given` is a list of JSON's values or an array; an absent column is null.
        """
        columns: dict[str, Any] = {}
        reasons: dict[int, str] = {}
        for name in self._names:
            values = given.get(name)
            if values is None:
                values = [None] * rows
            kind = self._types.setdefault(name, _kind(values))
            columns[name], wrong = _typed(values, kind)
            for at in wrong:
                value = values[at] if isinstance(values, list) else values[at].as_py()
                reasons[at] = f"`{name}` is {value!r:.80}, expected {kind} as in the first rows"
        return columns, reasons


def _kind(values: Any) -> pa.DataType:  # noqa: ANN401
    if not isinstance(values, list):
        return pa.string() if pa.types.is_null(values.type) else values.type
    kinds = {type(value) for value in values if value is not None}
    return _SCALARS.get(kinds.pop(), pa.string()) if len(kinds) == 1 else pa.string()


def _typed(values: Any, kind: pa.DataType) -> tuple[Any, list[int]]:  # noqa: ANN401
    """Give values in a type, and where they do not fit it; those are null."""
    if not isinstance(values, list):
        try:
            return values.cast(kind), []
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            values = values.to_pylist()
    fitted = [_fitted(value, kind) for value in values]
    wrong = [at for at, value in enumerate(fitted) if value is _WRONG]
    return pa.array([None if value is _WRONG else value for value in fitted], kind), wrong


_WRONG = object()


def _fitted(value: Any, kind: pa.DataType) -> Any:  # noqa: ANN401
    if value is None:
        return None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        # `True` is an int to Python.
        is_right = type(value) is (bool if pa.types.is_boolean(kind) else int)
    else:
        is_right = not isinstance(value, bool)
    try:
        return pa.scalar(value, kind).as_py() if is_right else _WRONG
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return _WRONG
