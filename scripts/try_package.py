"""Installs built packages, each in a new environment, and tries them there.

``try_package.py dist/*.whl`` needs no network for a wheel; a source distribution is built, which
needs Rust and fetches maturin. A wheel for another Python or another platform is an error.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

SMOKE = Path(__file__).with_name("smoke.py")


def try_package(package: Path) -> None:
    """Install a package in a new environment, and run the smoke test and the command line."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        bin_ = Path(folder) / ("Scripts" if os.name == "nt" else "bin")
        offline = ["--no-index"] if package.suffix == ".whl" else []
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *offline]
        subprocess.run([bin_ / "python", *install, package.resolve()], check=True)
        # Isolated and elsewhere, so that the checkout cannot be imported.
        subprocess.run([bin_ / "python", "-I", SMOKE], check=True, cwd=folder)
        subprocess.run(
            [bin_ / "chatcodec", "formats"], check=True, cwd=folder, stdout=subprocess.DEVNULL
        )


def main() -> None:
    """Run the command line."""
    packages = [Path(name) for name in sys.argv[1:]]
    if not packages:
        raise SystemExit("no package given; expected wheels or source distributions")
    for package in packages:
        print(package.name, flush=True)
        try_package(package)


if __name__ == "__main__":
    main()
