"""Fetches packages of engines from PyPI, and keeps their Python sources and their servers in Rust.

    python scripts/fetch_engines.py FOLDER NAME==VERSION…

Each package is unpacked into `FOLDER/NAME-VERSION`, unless it is there. Nothing is installed, and
no package that one depends on is fetched.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

SERVERS = {"vllm-rs"}
"""Programs that are kept beside the sources."""
PLATFORM = ["--only-binary=:all:", "--python-version=3.11"]
PLATFORM += [f"--platform=manylinux_2_{glibc}_x86_64" for glibc in (17, 28, 34)]


def fetch(requirement: str, folder: Path) -> None:
    """Unpacks a package's sources."""
    place = folder / requirement.replace("==", "-")
    if place.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *PLATFORM]
        subprocess.run([*command, f"--dest={made}", requirement], check=True)
        (wheel,) = Path(made).glob("*.whl")
        unpacked = Path(made, "unpacked")
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                path = PurePosixPath(name)
                if path.suffix == ".py" or path.name in SERVERS:
                    archive.extract(name, unpacked)
                if path.name in SERVERS:
                    Path(unpacked, name).chmod(0o755)
        unpacked.rename(place)


def main() -> None:
    """Fetches all packages that are named."""
    folder, *requirements = sys.argv[1:]
    for requirement in requirements:
        fetch(requirement, Path(folder))


if __name__ == "__main__":
    main()
