"""A stranger finds an answer in two clicks from the home page."""

from __future__ import annotations

import re

import docs_site
import pytest

PAGES = docs_site.pages()
QUESTIONS = {
    "How do I install it, and is it on PyPI?": ("index.md", "## Install", "not on PyPI"),
    "Does it work with my model?": ("any-model.md", "### `chatcodec check`", "exit status is 1"),
    "How do I put it before vLLM without changing my clients?": (
        *("gateway.md", "# A gateway before an engine", "vllm serve Qwen/Qwen3-8B"),
    ),
    "Why are the ids not those of apply_chat_template?": (
        *("ids.md", "# It does not give my ids", "chatcodec check ./model"),
    ),
    "How do I get JSON that follows my schema?": (
        *("cookbook.md", "## JSON that follows a schema", "response_format"),
    ),
    "How do I run tools over several turns?": (
        *("cookbook.md", "## Tools over several turns", "codec.extend"),
    ),
    "How do I make labels from ShareGPT data?": (
        *("training.md", "## Many conversations", "from_sharegpt"),
    ),
    "What does it not protect from?": (*("safety.md", "## Limits of the guarantee", "Persuasion"),),
    "Does it work with LangChain, and which versions were tried?": (
        *("compatibility.md", "## Clients of the gateway", "langchain-openai=="),
    ),
    "What does Codec.encode take, and which errors does it raise?": (
        *("reference-encode.md", "#### `Codec.encode`", "on_unsupported"),
    ),
    "How do I let Claude Code use my model?": (
        *("gateway.md", "### Coding agents", "Claude Code"),
    ),
    "Which metrics are there?": (
        *("metrics.md", "# Metrics of the gateway", "chatcodec_neutralized_total"),
    ),
    "How fast is it beside tiktoken?": ("benchmarks.md", "# Benchmarks", "tiktoken"),
    "How do images work?": ("servers.md", "## Images", "media_tokens"),
    "What is a notice?": ("faq.md", "# Questions", "notice"),
    "How do I go back?": ("faq.md", "# Questions", "How do I go back?"),
    "Which flags has `chatcodec serve`?": ("commands.md", "## `chatcodec serve`", "--backend URL"),
}


def clicks() -> dict[str, int]:
    """How many clicks each page is from the home page."""
    far, edge = {"index.md": 0}, ["index.md"]
    while edge:
        name = edge.pop(0)
        for found in docs_site.LINK_OR_CODE.finditer(PAGES[name]):
            page = (found["target"] or "").partition("#")[0]
            if page in PAGES and page not in far:
                far[page] = far[name] + 1
                edge.append(page)
    return far


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_is_two_clicks_away(question: str) -> None:
    page, heading, words = QUESTIONS[question]
    assert clicks()[page] <= 2
    _, found, rest = PAGES[page].partition(f"{heading}\n")
    level = len(heading.partition(" ")[0])
    answer = re.split(rf"^#{{1,{level}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    assert found
    assert words in answer


def test_every_page_is_two_clicks_away() -> None:
    far = clicks()
    assert set(PAGES) - far.keys() == set()
    assert [name for name, distance in far.items() if distance > 2] == []
