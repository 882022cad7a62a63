"""The plot of a load run as SVG: `python -m benches.gateway_plot RUNS SVG`, where matplotlib is."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

pyplot: Any = importlib.import_module("matplotlib.pyplot")
ticker: Any = importlib.import_module("matplotlib.ticker")
matplotlib: Any = importlib.import_module("matplotlib")

COLOURS = {"engine alone": "#616a6b", "gateway": "#c0392b", "litellm": "#2471a3"}


def main() -> None:
    """Draw delays by streams, and memory by time."""
    runs = json.loads(Path(sys.argv[1]).read_text("utf-8"))["runs"]
    matplotlib.rcParams |= {
        "svg.hashsalt": "chatcodec",
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.4))
    for name, colour in COLOURS.items():
        paced = [run for run in runs if run["kind"] == "paced" and run["server"] == name]
        for axis, measure in zip(axes, ("firsts", "delays"), strict=False):
            for percentile, line in (("p50", "-"), ("p99", "--")):
                axis.plot(
                    [run["streams"] for run in paced],
                    [run[measure][percentile] * 1e3 for run in paced],
                    line,
                    marker="o",
                    color=colour,
                    label=f"{name}, {percentile}",
                )
        begun = 0.0
        for run in paced:
            times = [begun + at for at, _ in run["memory"]]
            axes[2].plot(times, [size / 1e6 for _, size in run["memory"]], color=colour)
            begun = times[-1] if times else 0.0
            if times:
                axes[2].text(times[0], run["memory"][0][1] / 1e6, f" {run['streams']}", va="bottom")
    for axis, title in zip(axes, ("first text", "one event"), strict=False):
        axis.set_xscale("log")
        axis.set_yscale("log")
        for each in (axis.xaxis, axis.yaxis):
            each.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_xlabel("concurrent streams")
        axis.set_ylabel("ms")
        axis.set_title(title, loc="left")
        axis.grid(visible=True, linewidth=0.3)
    axes[0].legend(frameon=False, fontsize=7)
    axes[2].set_ylim(bottom=0)
    axes[2].set_xlabel("seconds, from 1 to 1,000 streams")
    axes[2].set_ylabel("MB")
    axes[2].set_title("memory of the process", loc="left")
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
