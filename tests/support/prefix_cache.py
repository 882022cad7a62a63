"""Hits of an engine's prefix cache in an agent's conversation, with a memory and without.

The conversation goes through the gateway. The engine counts the hits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway import MODEL, gateway

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import openai


def shares(
    url: str, folder: Path, options: Sequence[str], block: int, cached: Callable[[], float]
) -> dict[str, float]:
    """Of the ids that the engine has seen before, the share that was cached.

    `block` is the number of ids that the cache keeps as one; `cached` gives the engine's count of
    hits so far.
    """
    found = {}
    for name, memory in (("without", ()), ("with", ("--memory", "64MiB"))):
        with gateway(url, folder, *options, *memory) as of:
            hits, possible = converse(of.openai, f"A task {name} a memory", block, cached)
        found[name] = hits / possible
    return found


def converse(
    client: openai.OpenAI, topic: str, block: int, cached: Callable[[], float]
) -> tuple[float, int]:
    """Talk for six turns; give the hits after the first turn, and the most that were possible."""
    messages: Any = [{"role": "user", "content": f"{topic}. " + "Some words of a task. " * 40}]
    seen = possible = 0
    before = 0.0
    for turn in range(6):
        answer = client.chat.completions.create(
            model=MODEL, messages=messages, max_tokens=70, temperature=1, seed=turn
        )
        assert answer.usage is not None
        possible += seen // block * block
        # The last id that was sampled has not been computed.
        seen = answer.usage.total_tokens - 1
        if turn == 0:
            before = cached()
        said = answer.choices[0].message
        messages += [{"role": "assistant", "content": said.content or ""}]
        messages += [{"role": "user", "content": f"Result {turn}: " + "more of it. " * 20}]
    return cached() - before, possible


def check(found: dict[str, float]) -> None:
    """Random weights sample ids that are seldom those of their text, which a memory makes good."""
    assert found["with"] >= 0.99
    assert found["without"] < found["with"]
