"""First paint and hover of the inspector's page: `python -m benches.pages`, with chromium.

The page has some 10,000 tokens, in one message and in a hundred. CPU time is that of the page's
main thread, from a trace: until the first paint with content, and of a hover with its style, layout
and paint. The clock is beside it, and an empty page, for it depends on what else the machine does.
The pages take turns, so that they share the machine's good and bad moments.
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
CHIPS = """() => Array.from(document.querySelectorAll('.t')).map((node) => {
  const box = node.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
}).filter(([x, y], nth) => nth % 2 && y > 0 && y < 600).slice(0, 40)"""
FRAME = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


def pages() -> dict[str, str]:
    """The pages by name."""
    codec = Codec("internlm2", vocab="embedded")
    one = [{"role": "user", "content": "One line of a long text.\n" * 1500}]
    words = "some words of a chat that goes on for long. " * 8
    many = [{"role": ("user", "assistant")[at % 2], "content": words} for at in range(101)]
    made = {"empty": EMPTY}
    for name, messages in (("one message", one), ("many messages", many)):
        encoding = codec.encode(messages)
        made[f"{name}, {len(encoding):,} ids"] = encoding.to_html()
    return made


def first_paint(browser: Any, url: str) -> tuple[float, float]:  # noqa: ANN401
    """CPU time and time until the first paint; in milliseconds."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    browser.start_tracing(page=page, categories=CATEGORIES)
    page.goto(url)
    page.wait_for_timeout(800)
    events = json.loads(browser.stop_tracing())["traceEvents"]
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
    return max(spent.values()) / 1000, (paint["ts"] - begin) / 1000


def hover(browser: Any, url: str) -> list[float]:  # noqa: ANN401
    """CPU time of each hover, to the end of its frame; in milliseconds."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(url)
    page.wait_for_timeout(1500)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    times = []
    for x, y in page.evaluate(CHIPS):
        before = spent()
        page.mouse.move(x, y)
        page.evaluate(FRAME)
        times.append(1000 * (spent() - before))
    page.close()
    return times


def main() -> int:
    """Print the figures; the exit code."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.stderr.write("no chromium: `make test-browser` installs it\n")
        return 1
    sync_api = importlib.import_module("playwright.sync_api")
    with sync_api.sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        urls = {}
        for at, (title, content) in enumerate(pages().items()):
            path = Path(name) / f"{at}.html"
            path.write_text(content, "utf-8")
            urls[title] = path.as_uri()
        paints: dict[str, list[tuple[float, float]]] = {title: [] for title in urls}
        for _ in range(TIMES):
            for title, url in urls.items():
                paints[title].append(first_paint(browser, url))
        for title, url in urls.items():
            cpu, wall = ([run[at] for run in paints[title]] for at in (0, 1))
            line = (
                f"{title}: first paint {min(cpu):.0f} to {statistics.median(cpu):.0f} ms of CPU, "
            )
            line += f"{min(wall):.0f} to {statistics.median(wall):.0f} ms"
            if hovers := sorted(hover(browser, url)):
                p95 = hovers[len(hovers) * 95 // 100]
                line += f"; hover {statistics.median(hovers):.1f} ms of CPU, 95 % {p95:.1f} ms"
            print(line)  # noqa: T201
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
