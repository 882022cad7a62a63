"""Models on the Hugging Face hub: from a name to a folder with the files of its vocabulary.

Files come through `huggingface_hub`, an optional dependency, into its cache. What is there in full
is used without asking the hub. Weights are never fetched.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import TypedDict

from chatcodec import __version__
from chatcodec.errors import VocabError
from chatcodec.model_files import MODEL_FILES

try:
    from huggingface_hub import (
        constants,
        get_cached_repo_tree,
        is_offline_mode,
        snapshot_download,
    )
    from huggingface_hub.errors import (
        CachedRepoTreeNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )
except ImportError as _missing:
    raise ImportError(
        "no such file or folder; names on the Hugging Face hub need `pip install huggingface_hub`",
        name="huggingface_hub",
    ) from _missing

__all__ = ["fetch"]

# A name, with its owner or without. `huggingface_hub` has more rules, and says less of them.
_NAME = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?")


class _Wanted(TypedDict):
    """The arguments of `huggingface_hub`, for its cache and for the hub."""

    repo_id: str
    revision: str
    allow_patterns: list[str]


def fetch(
    name: str, *, revision: str | None, token: str | bool | None, local_files_only: bool
) -> Path:
    """Return a folder with a model's vocabulary files, from the cache or else from the hub."""
    if not _NAME.fullmatch(name):
        raise _no_such(name)
    revision = revision or constants.DEFAULT_REVISION
    wanted = _Wanted(repo_id=name, revision=revision, allow_patterns=list(MODEL_FILES))
    try:
        if local_files_only or is_offline_mode():
            folder = _cached(wanted)
        else:
            folder = _cached_in_full(wanted) or _download(wanted, token=token)
    except HFValidationError as error:
        raise _no_such(name) from error
    of_tokenizer = (pattern for pattern in MODEL_FILES if pattern != "generation_config.json")
    if not any(path for pattern in of_tokenizer for path in folder.glob(pattern)):
        raise _refused(name, "has no tokenizer's files, such as `tokenizer.json`")
    return folder


def _cached(wanted: _Wanted) -> Path:
    """The cached files, from any program."""
    try:
        return Path(snapshot_download(**wanted, local_files_only=True))
    except LocalEntryNotFoundError as error:
        why = "not in the hub's cache, or not in full"
        raise FileNotFoundError(errno.ENOENT, why, wanted["repo_id"]) from error


def _cached_in_full(wanted: _Wanted) -> Path | None:
    """The cached files, if the cache knows that they are complete."""
    try:
        get_cached_repo_tree(wanted["repo_id"], revision=wanted["revision"])
        return Path(snapshot_download(**wanted, local_files_only=True))
    except (CachedRepoTreeNotFoundError, LocalEntryNotFoundError):
        return None


def _download(wanted: _Wanted, *, token: str | bool | None) -> Path:
    """All vocabulary files that the hub has."""
    name, revision = wanted["repo_id"], wanted["revision"]
    try:
        folder = snapshot_download(
            **wanted, token=token, library_name="chatcodec", library_version=__version__
        )
        # Where the hub cannot be asked, the client falls back to what may be half of it.
        get_cached_repo_tree(name, revision=revision)
    except GatedRepoError as error:
        page = f"{constants.ENDPOINT}/{name}"
        why = f"is gated: ask for access at {page}, and give `token=` or run `hf auth login`"
        raise _refused(name, why) from error
    except RepositoryNotFoundError as error:
        why = (
            "is not on the hub, or is private; "
            "expected a folder, a name such as `owner/name`, or `token=` of one who may read it"
        )
        raise _refused(name, why) from error
    except RevisionNotFoundError as error:
        raise _refused(name, f"has no revision `{revision}`") from error
    except HfHubHTTPError as error:
        if error.response.status_code in {401, 403}:
            raise _refused(name, "is refused by the hub; expected another `token=`") from error
        raise _unreachable(name, error) from error
    except (LocalEntryNotFoundError, CachedRepoTreeNotFoundError) as error:
        raise _unreachable(name, error.__cause__ or error) from error
    return Path(folder)


def _refused(name: str, why: str) -> VocabError:
    return VocabError(f"model `{name}` {why}", file=name, component="hub")


def _no_such(name: str) -> FileNotFoundError:
    why = "no such file or folder, and no name on the hub, expected `owner/name`"
    return FileNotFoundError(errno.ENOENT, why, name)


def _unreachable(name: str, cause: BaseException) -> ConnectionError:
    why = " ".join(str(cause).split())
    return ConnectionError(
        f"model `{name}`: no such file or folder, and the hub cannot be reached: {why}"
    )
