"""First paint and hover of the inspector's page: `python -m benches.pages`, with chromium.

The page has some 10,000 tokens, in one message and in a hundred. CPU time is that of the page's
main thread until the first paint with content, from a trace; an empty page is beside it.
"""

from __future__ import annotations

import importlib
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from chatcodec import Codec

TIMES = 7
CATEGORIES = ["devtools.timeline", "loading", "toplevel", "blink.user_timing"]
EMPTY = "<!doctype html><title>Empty</title><p>Hi"
HOVER = """() => {
  const chips = Array.from(document.querySelectorAll('.t')).filter((node, nth) => nth % 37 === 0);
  return chips.slice(0, 200).map((node) => {
    const begin = performance.now();
    node.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
    document.body.getBoundingClientRect();
    return performance.now() - begin;
  });
}"""


def pages() -> dict[str, str]:
    """The pages by name."""
    codec = Codec("internlm2")
    one = [{"role": "user", "content": "One line of a long text.\n" * 1500}]
    words = "some words of a chat that goes on for long. " * 8
    many = [{"role": ("user", "assistant")[at % 2], "content": words} for at in range(101)]
    made = {"empty": EMPTY}
    for name, messages in (("one message", one), ("many messages", many)):
        encoding = codec.encode(messages)
        made[f"{name}, {len(encoding):,} ids"] = encoding.to_html()
    return made


def first_paint(browser: Any, url: str) -> tuple[float, float, list[float]]:  # noqa: ANN401
    """CPU time and time until the first paint, and of hovers; in milliseconds."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    browser.start_tracing(page=page, categories=CATEGORIES)
    page.goto(url)
    page.wait_for_timeout(800)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    hovers = page.evaluate(HOVER)
    page.close()
    paint = [event for event in events if event["name"] == "firstContentfulPaint"][-1]
    begin = max(
        event["ts"]
        for event in events
        if event["name"] == "navigationStart" and event["ts"] < paint["ts"]
    )
    names = {"RunTask", "ThreadControllerImpl::RunTask"}
    spent = dict.fromkeys(names, 0)
    for event in events:
        if (
            event["name"] in names
            and (event["pid"], event["tid"]) == (paint["pid"], paint["tid"])
            and begin <= event["ts"] < paint["ts"]
        ):
            spent[event["name"]] += event.get("tdur", 0)
    return max(spent.values()) / 1000, (paint["ts"] - begin) / 1000, hovers


def main() -> int:
    """Print the figures; the exit code."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.stderr.write("no chromium: `make test-browser` installs it\n")
        return 1
    sync_api = importlib.import_module("playwright.sync_api")
    with sync_api.sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for at, (title, content) in enumerate(pages().items()):
            path = Path(name) / f"{at}.html"
            path.write_text(content, "utf-8")
            runs = [first_paint(browser, path.as_uri()) for _ in range(TIMES)]
            cpu, wall = sorted(run[0] for run in runs), sorted(run[1] for run in runs)
            line = f"{title}: first paint {cpu[0]:.0f} to {statistics.median(cpu):.0f} ms of CPU, "
            line += f"{wall[0]:.0f} to {statistics.median(wall):.0f} ms"
            if hovers := sorted(time for run in runs for time in run[2]):
                p95 = hovers[len(hovers) * 95 // 100]
                line += f"; hover {statistics.median(hovers):.1f} ms, 95 % {p95:.1f} ms"
            print(line)  # noqa: T201
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
