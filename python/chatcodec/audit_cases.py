"""Attacks and what became of them, for the tools that read test results: JUnit and SARIF."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias
from xml.etree import ElementTree as ET

from chatcodec._core import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Case", "Verdict", "junit", "sarif"]

Verdict: TypeAlias = Literal["kept", "forged", "skipped"]
"""Text stayed text; text became a control token; nothing can be said, or the text was refused."""

_RULE = "forged-control-token"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, slots=True)
class Case:
    """An attack in a place."""

    place: str
    attack: str
    verdict: Verdict
    message: str
    """What happened, in a line; empty for what stayed text."""


def junit(subject: str, cases: Sequence[Case]) -> str:
    """Write cases as JUnit's XML, a test case each; `subject` is what was attacked.

    >>> print(junit("m", [Case("user content", "plain", "kept", "")]).splitlines()[1][:32])
    <testsuites><testsuite name="cha
    """
    counts = {"forged": 0, "skipped": 0, "kept": 0}
    for case in cases:
        counts[case.verdict] += 1
    root = ET.Element("testsuites")
    suite = ET.SubElement(
        root,
        "testsuite",
        name=f"chatcodec audit {_printable(subject)}",
        tests=str(len(cases)),
        failures=str(counts["forged"]),
        skipped=str(counts["skipped"]),
    )
    for case in cases:
        name = _printable(case.attack)
        test = ET.SubElement(suite, "testcase", classname=f"chatcodec.{case.place}", name=name)
        if case.verdict != "kept":
            kind = "failure" if case.verdict == "forged" else "skipped"
            ET.SubElement(test, kind, message=_printable(case.message))
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def sarif(subject: str, cases: Sequence[Case]) -> str:
    """Write the forged cases as SARIF 2.1.0, a result each."""
    results = [
        {
            "ruleId": _RULE,
            "level": "error",
            "message": {"text": f"{case.place}, {case.attack}: {case.message}"},
            "locations": [
                {
                    "physicalLocation": {"artifactLocation": {"uri": subject}},
                    "logicalLocations": [{"fullyQualifiedName": case.place, "kind": "parameter"}],
                }
            ],
        }
        for case in cases
        if case.verdict == "forged"
    ]
    rule = {
        "id": _RULE,
        "shortDescription": {"text": "A caller's text becomes a control token"},
    }
    driver = {"name": "chatcodec", "version": __version__, "rules": [rule]}
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=2) + "\n"


def _printable(text: str) -> str:
    """Replace what XML cannot hold."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
