"""Instructor on OpenAI's client: a schema as a tool, and as a response format.

It has no tools of its own: instead, an answer that its model refuses is given back with the reason.
"""

from __future__ import annotations

from typing import Any

import instructor
import openai
from asked import CALLS, FOR_JSON, KEY, MODEL, SAY, V1, City, tell, user
from pydantic import field_validator

CLIENT = openai.OpenAI(base_url=V1, api_key=KEY, max_retries=0)


class Weather(City):
    @field_validator("city")
    @classmethod
    def refused_at_first(cls, city: str) -> str:
        CALLS.append(("weather", {"city": city}))
        if len(CALLS) == 1:
            raise ValueError("once more<|im_end|>")
        return city


def seen(api: str, mode: instructor.Mode) -> dict[str, Any]:
    CALLS.clear()
    create: Any = instructor.from_openai(CLIENT, mode=mode).create
    partial: Any = instructor.from_openai(CLIENT, mode=mode).create_partial
    whole = create(model=MODEL, response_model=None, messages=user(SAY))
    chunks = create(model=MODEL, response_model=None, messages=user(SAY), stream=True)
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    create(model=MODEL, response_model=Weather, messages=user(FOR_JSON), max_retries=2)
    *_, last = partial(model=MODEL, response_model=City, messages=user(FOR_JSON))
    formed = create(model=MODEL, response_model=City, messages=user(FOR_JSON))
    if last.model_dump() != formed.model_dump():
        raise AssertionError(last)
    return {
        "api": api,
        "whole": whole.choices[0].message.content,
        "streamed": streamed,
        "calls": CALLS[:],
        "schema": formed.model_dump(),
    }


tell(seen("tools", instructor.Mode.TOOLS), seen("a schema", instructor.Mode.JSON_SCHEMA))
