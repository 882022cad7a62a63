"""A codec as a function for tools that map over batches: datasets, Ray Data, Spark, Dask.

>>> import pyarrow as pa
>>> from chatcodec import Codec
>>> mapper = Codec("internlm2", vocab="embedded").mapper(labels=True)
>>> turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
>>> mapper(pa.table({"messages": [turns]})).column_names
['messages', 'input_ids', 'labels']
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcodec._core import Codec, Format, Template, Vocab
from chatcodec.errors import VocabError

try:
    import pyarrow as pa
except ImportError as _missing:
    raise ImportError(
        "`Codec.mapper` needs pyarrow: `pip install pyarrow`", name="pyarrow"
    ) from _missing


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chatcodec._core import EncodedTable

__all__ = ["Mapper"]

_CODECS: dict[str, Codec] = {}
"""The codecs of this process, by the digest of their recipe."""

_LOCK = threading.Lock()


def _renew_lock() -> None:
    """Replace the lock in a forked child: another thread of the parent may have held it."""
    global _LOCK  # noqa: PLW0603
    _LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class Mapper:
    """A function from a batch of conversations to the batch with their ids.

    It takes and gives tables of pyarrow, frames of pandas and polars, and dicts of columns:
    `datasets.map(mapper, batched=True)`, `map_batches(mapper, batch_format="pyarrow")`.
    A dict holds the new columns alone, which datasets merges with the others, and empty values
    where tables have nulls.

    A mapper is pickled as a recipe: the path of the vocabulary and the hash of its files, the
    format and the options. Each process loads the codec once. The pickle of a vocabulary that was
    not read from files of its own holds the vocabulary.
    """

    __slots__ = ("_options", "_recipe")

    def __init__(self, codec: Codec, options: Mapping[str, Any]) -> None:
        """Make a mapper of a codec, with options of `Codec.encode_table`."""
        self._options = dict(sorted(options.items()))
        self._recipe = _recipe(codec)
        with _LOCK:
            _CODECS.setdefault(self._recipe["digest"], codec)
        # A wrong option is an error here, and not in a worker.
        self._encode(_EMPTY, messages=None, tools=None)

    @property
    def digest(self) -> str:
        """The hash of the recipe: of the vocabulary's files, the format and the template."""
        digest: str = self._recipe["digest"]
        return digest

    def describe(self) -> dict[str, Any]:
        """Name what gives the ids, as JSON has it: vocabulary, format and template with hashes.

        A vocabulary's name is the model's on the hub, its folder's or file's, or `embedded`. No
        other part of a path is told: the same model is described alike on every machine.
        """
        codec, recipe = self.codec, self._recipe
        template = None if recipe["template"] is None else recipe["template"][:2]
        return {
            "vocabulary": {**_source(recipe), "sha256": recipe["vocab_hash"]},
            "format": {"name": codec.format.name, "sha256": _sha256(codec.format.text)},
            "template": template and {"sha256": _sha256(json.dumps(template))},
        }

    @property
    def codec(self) -> Codec:
        """The codec of this process, loaded when it is first asked for.

        Raises `VocabError` if the files of the vocabulary differ from those of the recipe,
        `OSError` if they are absent.
        """
        digest = self._recipe["digest"]
        codec = _CODECS.get(digest)
        if codec is None:
            with _LOCK:
                codec = _CODECS.get(digest)
                if codec is None:
                    codec = _CODECS[digest] = _load(self._recipe)
        return codec

    def __call__(self, batch: Any) -> Any:  # noqa: ANN401
        """Encode a batch.

        Raises what `Codec.encode_table` raises.
        """
        if isinstance(batch, (pa.Table, pa.RecordBatch)):
            return self._encode(batch)
        if isinstance(batch, Mapping):
            return self._columns(batch)
        encoded = self.codec.encode_table(batch, **self._options)
        module = type(batch).__module__.partition(".")[0]
        table = pa.table(encoded)
        _warn_of_untrained(encoded)
        if module == "polars":
            return type(batch)(encoded)
        return table.to_pandas() if module == "pandas" else table

    def spark(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Encode the record batches of a partition; gives the new columns alone.

        `frame.mapInArrow(mapper.spark, mapper.spark_schema)`
        """
        for batch in batches:
            table = self._encode(batch)
            yield from table.select(table.column_names[batch.num_columns :]).to_batches()

    @property
    def spark_schema(self) -> str:
        """The new columns as Spark writes a schema: `input_ids array<int>`."""
        schema = self._encode(_EMPTY, messages=None, tools=None).schema
        kinds = {"list<item: int32>": "array<int>", "list<item: int8>": "array<tinyint>"}
        kinds |= {"int32": "int", "string": "string", "list<item: string>": "array<string>"}
        pair = "list<item: struct<path: string, spelling: string>>"
        kinds[pair] = "array<struct<path: string, spelling: string>>"
        return ", ".join(f"`{field.name}` {kinds[str(field.type)]}" for field in [*schema][1:])

    def _encode(self, batch: Any, **changed: Any) -> pa.Table:  # noqa: ANN401
        encoded = self.codec.encode_table(batch, **{**self._options, **changed})
        _warn_of_untrained(encoded)
        return pa.table(encoded)

    def _columns(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Encode a dict of columns; gives the new ones as lists of arrays."""
        # A batch of datasets has the table that its columns are read from.
        table = getattr(batch, "pa_table", None)
        if not isinstance(table, pa.Table):
            table = pa.table({name: _column(values) for name, values in batch.items()})
        encoded = self._encode(table)
        new = encoded.column_names[table.num_columns :]
        return {name: _listed(encoded[name]) for name in new}

    def __getstate__(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Give the recipe and the options, and not the codec."""
        return self._recipe, self._options

    def __setstate__(self, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
        """Take the recipe and the options."""
        self._recipe, self._options = state

    def __eq__(self, other: object) -> bool:
        """Whether both give the same ids for the same batches."""
        if not isinstance(other, Mapper):
            return NotImplemented
        return (self._recipe["digest"], self._options) == (other._recipe["digest"], other._options)

    def __hash__(self) -> int:
        """Hash the recipe."""
        return hash(self._recipe["digest"])

    def __repr__(self) -> str:
        """Show the format and the options."""
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        name = self._recipe["format"][0] or "template"
        return f"Mapper({name!r}{options})"


_EMPTY = pa.table({"messages": pa.array([], pa.string())})


def _warn_of_untrained(encoded: EncodedTable) -> None:
    """Warn of conversations with labels none of which is trained on."""
    if encoded.untrained:
        warnings.warn(
            f"{encoded.untrained} of {len(encoded)} conversations have nothing to train on: none "
            "of their ids is one that a model generates; expected an assistant's message",
            stacklevel=4,
        )


def _column(values: Any) -> Any:  # noqa: ANN401
    """Give a column as Arrow's array; as JSON text if its values have no common type."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else json.dumps(value) for value in values])


def _listed(column: pa.ChunkedArray) -> list[Any]:
    """Give a column as a list of NumPy's arrays, or of Python's values; null as an empty value.

    Tools that merge dicts infer the type of a column from its first batch, which nulls would hide.
    """
    if pa.types.is_list(column.type):
        import numpy as np  # noqa: PLC0415 (tools that map over columns have it)

        empty = column.type.value_type.to_pandas_dtype()
        arrays = column.to_numpy()
        return [np.empty(0, empty) if array is None else array for array in arrays]
    values: list[Any] = column.fill_null("" if pa.types.is_string(column.type) else 0).to_pylist()
    return values


def _recipe(codec: Codec) -> dict[str, Any]:
    """Describe how a process makes the codec again."""
    pickled: Any = codec.__reduce__()
    _, (writer, vocab, *read) = pickled
    form, template = writer, None
    if codec.template is not None:
        # A response template reads completions, and a mapper only writes.
        form, told, _, stop_ids = read
        of_source, (source,) = writer.__reduce__()
        template = (source, of_source.keywords, told, stop_ids)
    name, text, variant = form.__reduce__()[1]
    _, vocab_hash, options, appended, aliases = vocab.__reduce__()[1]
    known = [name, text, variant, vocab_hash, options, appended, aliases]
    described = json.dumps(known if template is None else [*known, template])
    is_built_in = _is_built_in(form)
    origin = vocab._origin  # noqa: SLF001 - the recipe is a pickle
    return {
        "digest": hashlib.sha256(described.encode()).hexdigest(),
        "format": (name, None if is_built_in else text, None if is_built_in else variant),
        # Source and special tokens of a template, how the format reads what it writes, and the
        # stop ids of the model's folder.
        "template": template,
        "vocab_hash": vocab_hash,
        "origin": origin,
        "options": options,
        # What has no files is taken along.
        "vocab": None if origin is not None else vocab,
    }


def _source(recipe: Mapping[str, Any]) -> dict[str, str | None]:
    """Name where the vocabulary of a recipe is from: the name, and the revision on the hub."""
    if recipe["origin"] is None:
        files = recipe["vocab"].__reduce__()[1][0]
        name = "embedded" if files is None else " ".join(name for name, _ in files)
        return {"name": name, "revision": None}
    path, model, revision = recipe["origin"]
    parts = Path(path).parts
    if model is not None:
        # The folder of the hub's cache is named after the commit.
        is_cached = "snapshots" in parts[:-1]
        return {"name": model, "revision": parts[-1] if is_cached else revision}
    # A file such as `tokenizer.json` says nothing without its folder.
    return {"name": "/".join(parts[-2:] if Path(path).is_file() else parts[-1:]), "revision": None}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _is_built_in(form: Format) -> bool:
    try:
        return Format.built_in(form.name).text == form.text
    except ValueError:
        return False


def _load(recipe: Mapping[str, Any]) -> Codec:
    """Make the codec of a recipe."""
    name, text, variant = recipe["format"]
    restored = (name, text, variant)
    form = Format.built_in(name) if text is None else Format._restore(*restored)  # noqa: SLF001
    vocab = recipe["vocab"]
    if vocab is None:
        path, model, revision = recipe["origin"]
        text_tokens, special_tokens, pattern = recipe["options"]
        words: dict[str, Any] = {
            "text_tokens": text_tokens,
            "special_tokens": dict(special_tokens),
            "pattern": pattern,
        }
        if model is not None and not Path(path).exists():
            vocab = Vocab.from_pretrained(model, revision=revision, **words)
        else:
            vocab = Vocab.load(path, **words)
        pickled: Any = vocab.__reduce__()
        found = pickled[1][1]
        if found != recipe["vocab_hash"]:
            raise VocabError(
                f"`{path}`: the files differ from those that the mapper was made of; "
                f"expected the hash {recipe['vocab_hash'][:16]}, found {str(found)[:16]}",
                path,
            )
    if recipe["template"] is not None:
        source, special_tokens, told, stop_ids = recipe["template"]
        template = Template(source, **special_tokens)
        return Codec._restore(template, vocab, form, told, None, stop_ids)  # noqa: SLF001
    return Codec(form, vocab, check_template=False)
