"""A scripted engine: a server that speaks the protocols of engines, without a model.

`python examples/scripted_engine.py 9000` speaks vLLM's `/v1/completions`, SGLang's and LMDeploy's
`/generate`, and llama.cpp's `/completion`, as far as a gateway uses them: ids in, ids out, whole or
as server-sent events. What it says is decided by a function of the prompt's ids.

It is a fake, for tests and demonstrations. Its interface: `Script` makes a completion's ids from a
prompt's; `engine` makes the ASGI application.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import uvicorn
from chatcodec import Codec
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.requests import Request

Script: TypeAlias = "Callable[[list[int]], list[int]]"

Body: TypeAlias = dict[str, Any]


def scripted(codec: Codec) -> Script:
    """Make a script for a codec: call the first tool, say what it returned, or repeat the user."""

    def completion(prompt: list[int]) -> list[int]:
        messages = codec.decode(prompt)
        asked = [each for each in messages if each["role"] in {"user", "tool"}]
        last = asked[-1] if asked else {"role": "user", "content": ""}
        answer: Body = {"role": "assistant", "content": f"You said: {last['content']}"}
        names = tools_of(codec, messages)
        if last["role"] == "user" and names:
            function = {"name": names[0], "arguments": {"city": "Oslo"}}
            calls = [{"type": "function", "function": function}]
            answer = {"role": "assistant", "content": "Let me look.", "tool_calls": calls}
        asking = [{"role": "user", "content": "?"}]
        before = codec.encode(asking, add_generation_prompt=True).ids.tolist()
        whole = codec.encode([*asking, answer]).ids.tolist()
        return whole[len(before) :]

    return completion


def tools_of(codec: Codec, messages: list[Body]) -> list[str]:
    """Find the names of tools in a prompt whose system text lists them as JSON."""
    del codec
    text = " ".join(str(each["content"]) for each in messages if each["role"] == "system")
    return [part.split('"')[0] for part in text.split('"name": "')[1:]]


def engine(script: Script, *, together: int = 1, delay: float = 0.0) -> Starlette:
    """Make the server. `together` ids are sent at a time, `delay` seconds apart."""

    def completion(prompt: list[int], body: Body, limit: int | None) -> tuple[list[int], str]:
        del body
        ids = script(prompt)
        if limit is not None and len(ids) > limit:
            return ids[:limit], "length"
        return ids, "stop"

    async def pieces(ids: list[int]) -> AsyncIterator[tuple[int, int]]:
        for start in range(0, max(len(ids), 1), together):
            if delay:
                await asyncio.sleep(delay)
            yield start, min(start + together, len(ids))

    def events(lines: AsyncIterator[Body]) -> Response:
        async def written() -> AsyncIterator[bytes]:
            async for line in lines:
                yield b"data: %b\n\n" % json.dumps(line).encode()
            yield b"data: [DONE]\n\n"

        return StreamingResponse(written(), media_type="text/event-stream")

    async def vllm(http: Request) -> Response:
        body = await http.json()
        ids, reason = completion(body["prompt"], body, body["max_tokens"])

        async def lines() -> AsyncIterator[Body]:
            async for start, end in pieces(ids):
                finish = reason if end == len(ids) else None
                choice: Body = {"index": 0, "text": "", "token_ids": ids[start:end]}
                if body.get("logprobs") is not None:
                    choice["logprobs"] = vllm_logprobs(ids[start:end], body["logprobs"])
                yield {"choices": [{**choice, "finish_reason": finish}]}

        return events(lines())

    async def generate(http: Request) -> Response:
        body = await http.json()
        sampling = body.get("sampling_params", {})
        limit = sampling.get("max_new_tokens", body.get("max_tokens"))
        ids, reason = completion(body["input_ids"], body, limit)
        is_sglang = "sampling_params" in body

        async def lines() -> AsyncIterator[Body]:
            async for start, end in pieces(ids):
                finish = {"type": reason} if is_sglang else reason
                about = {
                    "completion_tokens": end,
                    "finish_reason": finish if end == len(ids) else None,
                }
                if is_sglang and body.get("return_logprob"):
                    about["output_token_logprobs"] = [[-0.5, id_, None] for id_ in ids[:end]]
                # SGLang repeats the ids so far, LMDeploy does not.
                yield {"text": "", "output_ids": ids[0 if is_sglang else start : end], "meta_info": about}

        return events(lines())

    async def llamacpp(http: Request) -> Response:
        body = await http.json()
        limit = body["n_predict"]
        ids, reason = completion(body["prompt"], body, None if limit < 0 else limit)
        kind = {"stop": "eos", "length": "limit"}[reason]
        probabilities = [{"id": id_, "logprob": -0.5, "top_logprobs": []} for id_ in ids]
        if delay:
            await asyncio.sleep(delay)
        return JSONResponse(
            {"tokens": ids, "stop_type": kind, "completion_probabilities": probabilities}
        )

    async def health(_: Request) -> Response:
        return Response()

    return Starlette(
        routes=[
            Route("/v1/completions", vllm, methods=["POST"]),
            Route("/generate", generate, methods=["POST"]),
            Route("/completion", llamacpp, methods=["POST"]),
            Route("/health", health),
        ]
    )


def vllm_logprobs(ids: list[int], top: int) -> Body:
    """Make log probabilities as vLLM tells them by id: -0.5 for each."""
    likeliest: Iterator[Body] = ({f"token_id:{id_}": -0.5} for id_ in ids)
    return {
        "token_logprobs": [-0.5] * len(ids),
        "top_logprobs": [each if top else {} for each in likeliest],
    }


if __name__ == "__main__":
    uvicorn.run(engine(scripted(Codec("internlm2"))), port=int(sys.argv[1]), log_level="warning")
