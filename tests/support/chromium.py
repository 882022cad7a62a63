"""The browser of the tests of pages: Debian's chromium, which playwright drives."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


# Playwright's loop runs in this thread until it is closed: tests of other modules run their own.
@contextmanager
def launched() -> Iterator[Browser]:
    """Run the browser; skips the test where there is none."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="no playwright: `make test-browser` installs it"
    )
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no chromium: `make test-browser` installs it")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
