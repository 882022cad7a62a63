"""What each client is asked, from the first argument as JSON, and how it tells what it has got."""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import BaseModel

GIVEN: dict[str, str] = json.loads(sys.argv[1])
URL, MODEL = GIVEN["url"], GIVEN["model"]
V1 = f"{URL}/v1"
KEY = "-"
SAY, FOR_TOOL, FOR_JSON = GIVEN["say"], GIVEN["for_tool"], GIVEN["for_json"]
CALLS: list[tuple[str, Any]] = []
"""Calls of tools that arrived, with their arguments."""


class City(BaseModel):
    city: str


def weather(city: str) -> str:
    """Tell the weather of a city."""
    CALLS.append(("weather", {"city": city}))
    return GIVEN["result"]


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def tell(*seen: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(seen) + "\n")
