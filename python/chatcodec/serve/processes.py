"""Prometheus' own metrics of processes, `process_…`: of one, or of all workers together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import ProcessCollector
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

__all__ = ["Workers", "workers_of"]

_FILE = re.compile(r"_(\d+)\.db")
_LEAST = {"process_start_time_seconds", "process_max_fds"}
"""Metrics that are no sums: the least of all."""


def workers_of(folder: str) -> list[int]:
    """Give the processes that share a folder of counts and are alive."""
    found = {int(each[1]) for path in Path(folder).iterdir() if (each := _FILE.search(path.name))}
    return sorted(pid for pid in found if Path(f"/proc/{pid}").exists())


def _of_one(pid: int) -> list[Metric]:
    return list(ProcessCollector(pid=lambda: pid, registry=None).collect())


class Workers(Collector):
    """The metrics of several processes, added up. Nothing where the system has no `/proc`."""

    def __init__(self, pids: Callable[[], Iterable[int]], registry: CollectorRegistry) -> None:
        """Take what lists the processes."""
        self.pids = pids
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Read and add up."""
        summed: dict[str, Metric] = {}
        for pid in self.pids():
            for metric in _of_one(pid):
                (sample,) = metric.samples
                if metric.name not in summed:
                    summed[metric.name] = metric
                    continue
                first = summed[metric.name].samples[0]
                both = (first.value, sample.value)
                value = min(both) if sample.name in _LEAST else sum(both)
                summed[metric.name].samples = [first._replace(value=value)]
        return summed.values()
