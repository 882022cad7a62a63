"""What the studio's page may choose: vocabularies and models, and formats and templates that write.

Some are named when the server is started. Others are files that are dropped on the page: their
contents are kept in a folder of the server until it ends, and have no name but the file's.
"""

from __future__ import annotations

import functools
import re
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from chatcodec._core import Codec, Format, Template, Vocab, formats
from chatcodec.errors import DataError
from chatcodec.model_files import found_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["FILES_BYTES", "Models"]

FILES_BYTES = 64 << 20
"""Largest size of the files of one drop, in bytes."""

_MOST_FILES, _MOST_DROPS = 16, 16
_CODECS = 8
"""Codecs that are kept, each with the tables of its vocabulary."""

_NAME = re.compile(r"\w[\w .+@=-]{0,99}", re.ASCII)
_TEMPLATES = {".jinja", ".jinja2", ".j2"}


class Models:
    """The choices; `paths` are vocabularies and models, and then comes the embedded vocabulary."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Offer `paths`; nothing is loaded."""
        self.paths: list[str | Path | None] = [*paths, None]
        self.names = [*paths, "embedded"]
        self.writers: dict[str, Format | Template] = {}
        self.codec = functools.lru_cache(maxsize=_CODECS)(self._load)
        self._drops = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()

    def choices(self) -> dict[str, object]:
        """Give what the page offers."""
        return {"vocabularies": self.names, "formats": [*self.writers, *formats()]}

    def close(self) -> None:
        """Delete the files that were dropped."""
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, files: Mapping[str, bytes]) -> dict[str, object]:
        """Offer files that were dropped: a template or a format, or the files of one model.

        Gives the key that they are chosen by, `vocabulary` or `format`, and the name there. Raises
        `DataError` for names and numbers that are not taken, and what loading raises.
        """
        _check(files)
        with self._lock:
            if self._drops == _MOST_DROPS:
                raise DataError(
                    f"files were dropped {_MOST_DROPS} times, expected no more; start the studio "
                    "again to begin anew"
                )
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="chatcodec-studio-")
            folder = Path(self._folder.name) / str(self._drops)
            folder.mkdir()
            for name, content in files.items():
                (folder / name).write_bytes(content)
            try:
                chosen = self._offer(sorted(folder.iterdir()))
            except Exception as error:
                shutil.rmtree(folder)
                _forget_folder(error, folder)
                raise
            self._drops += 1
            return chosen

    def _offer(self, files: Sequence[Path]) -> dict[str, object]:
        first = files[0]
        if len(files) == 1 and (first.suffix == ".toml" or first.suffix in _TEMPLATES):
            writer = Format.load(first) if first.suffix == ".toml" else Template.load(first)
            name = _new_name(first.name, self.writers)
            self.writers[name] = writer
            return {"key": "format", "name": name}
        path = first if len(files) == 1 else first.parent
        Vocab.load(path)
        name = _new_name(" + ".join(file.name for file in files)[:60], self.names)
        self.paths.append(path)
        self.names.append(name)
        return {"key": "vocabulary", "name": name}

    def _load(self, vocabulary: int, name: str) -> Codec:
        path = self.paths[vocabulary]
        writer = self.writers.get(name)
        if path is None:
            return Codec(writer or Format.built_in(name or "internlm2"), Vocab.embedded())
        if isinstance(writer, Template):
            return self._templated(path, writer)
        return Codec.from_pretrained(path, writer or name or None, local_files_only=True)

    def _templated(self, path: str | Path, template: Template) -> Codec:
        """Load a model whose template is another one; a folder's files name its special tokens."""
        if not Path(path).is_dir():
            return Codec(template, Vocab.from_pretrained(path, local_files_only=True))
        with tempfile.TemporaryDirectory(prefix="chatcodec-studio-") as folder:
            for file in found_files(path):
                if file.parent == Path(path) and not file.name.startswith("chat_template."):
                    shutil.copy(file, folder)
            (Path(folder) / "chat_template.jinja").write_text(template.source, "utf-8")
            return Codec.from_pretrained(folder)


def _check(files: Mapping[str, bytes]) -> None:
    if not 0 < len(files) <= _MOST_FILES:
        raise DataError(f"{len(files)} files, expected 1 to {_MOST_FILES}")
    for name in files:
        if not _NAME.fullmatch(name):
            raise DataError(
                f"`{name[:100]}` is no name of a file here, expected letters, digits and ` .+@=-`"
            )


def _new_name(name: str, known: Sequence[str] | Mapping[str, object]) -> str:
    """Name what was dropped; the second one of a name has a number."""
    names = [f"{name} (dropped)", *(f"{name} (dropped, {nth})" for nth in range(2, 99))]
    return next(each for each in names if each not in known)


def _forget_folder(error: Exception, folder: Path) -> None:
    """Name the files in an error as the caller does, without the folder of the server."""
    error.args = tuple(
        arg.replace(f"{folder}/", "").replace(str(folder), "the dropped files")
        if isinstance(arg, str)
        else arg
        for arg in error.args
    )
