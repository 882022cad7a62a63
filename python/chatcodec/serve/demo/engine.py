"""A scripted engine: a server that speaks the protocols of engines, without a model.

It speaks vLLM's `/v1/completions` and `/inference/v1/generate`, SGLang's and LMDeploy's
`/generate`, and llama.cpp's `/completion`, as far as a gateway uses them: ids in, ids out, whole or
as server-sent events. What it says is decided by a function of the prompt's ids.

It is a fake, for tests and demonstrations. Its interface: `Script` makes a completion's ids from a
prompt's; `engine` makes the ASGI application, and `running` serves it.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.requests import Request

    from chatcodec import Codec

__all__ = ["Engine", "Script", "engine", "running", "scripted", "tools_of"]

Script: TypeAlias = "Callable[[list[int]], list[int]]"
"""Makes the ids of a completion, the one that ends the turn included, from those of a prompt."""

Body: TypeAlias = dict[str, Any]

_WAIT = 0.01
"""Seconds between two looks whether a server has started."""


def scripted(codec: Codec) -> Script:
    """Make a script for a codec: call the first tool, say what it returned, or repeat the user."""

    def completion(prompt: list[int]) -> list[int]:
        messages = codec.decode(prompt)
        asked = [each for each in messages if each["role"] in {"user", "tool"}]
        last = asked[-1] if asked else {"role": "user", "content": ""}
        answer: Body = {"role": "assistant", "content": f"You said: {last['content']}"}
        names = tools_of(messages)
        if last["role"] == "user" and names:
            function = {"name": names[0], "arguments": {"city": "Oslo"}}
            calls = [{"type": "function", "function": function}]
            answer = {"role": "assistant", "content": "Let me look.", "tool_calls": calls}
        asking = [{"role": "user", "content": "?"}]
        before = codec.encode(asking, add_generation_prompt=True).ids.tolist()
        whole = codec.encode([*asking, answer]).ids.tolist()
        return whole[len(before) :]

    return completion


def tools_of(messages: list[Body]) -> list[str]:
    """Find the names of tools in a prompt whose system text lists them as JSON."""
    text = " ".join(str(each["content"]) for each in messages if each["role"] == "system")
    return [part.split('"')[0] for part in text.split('"name": "')[1:]]


class Engine:
    """The answers of a server. `together` ids are sent at a time, `delay` seconds apart."""

    def __init__(self, script: Script, together: int, delay: float) -> None:
        """Take what decides the answers, and their pace."""
        self.script, self.together, self.delay = script, together, delay

    def completion(self, prompt: list[int], limit: int | None) -> tuple[list[int], str]:
        """Give the ids of a completion, and why it ends."""
        ids = self.script(prompt)
        if limit is not None and len(ids) > limit:
            return ids[:limit], "length"
        return ids, "stop"

    async def pieces(self, count: int) -> AsyncIterator[tuple[int, int]]:
        """Give the pieces of so many ids, as they are sent: start and end of each."""
        for start in range(0, max(count, 1), self.together):
            if self.delay:
                await asyncio.sleep(self.delay)
            yield start, min(start + self.together, count)

    async def vllm(self, http: Request) -> Response:
        """Answer as vLLM's `/v1/completions` does."""
        body = await http.json()
        ids, reason = self.completion(body["prompt"], body.get("max_tokens") or 16)

        async def lines() -> AsyncIterator[Body]:
            async for start, end in self.pieces(len(ids)):
                finish = reason if end == len(ids) else None
                choice: Body = {"index": 0, "text": "", "token_ids": ids[start:end]}
                if body.get("logprobs") is not None:
                    choice["logprobs"] = vllm_logprobs(ids[start:end], body["logprobs"])
                yield {"choices": [{**choice, "finish_reason": finish}]}

        return events(lines())

    async def vllm_generate(self, http: Request) -> Response:
        """Answer as vLLM's `/inference/v1/generate` does."""
        body = await http.json()
        sampling = body["sampling_params"]
        ids, reason = self.completion(body["token_ids"], sampling.get("max_tokens"))

        async def lines() -> AsyncIterator[Body]:
            async for start, end in self.pieces(len(ids)):
                finish = reason if end == len(ids) else None
                choice: Body = {"index": 0, "token_ids": ids[start:end], "finish_reason": finish}
                if (top := sampling.get("logprobs")) is not None:
                    choice["logprobs"] = {"content": likeliest(ids[start:end], top)}
                yield {"request_id": "0", "output_mode": "tokens", "choices": [choice]}

        return events(lines())

    async def sglang(self, body: Body) -> Response:
        """Answer as SGLang's `/generate` does: an event repeats the ids before it."""
        limit = body["sampling_params"].get("max_new_tokens", 128)
        ids, reason = self.completion(body["input_ids"], limit)

        async def lines() -> AsyncIterator[Body]:
            async for _, end in self.pieces(len(ids)):
                about: Body = {"completion_tokens": end, "finish_reason": None}
                if end == len(ids):
                    about["finish_reason"] = {"type": reason}
                if body.get("return_logprob"):
                    about["output_token_logprobs"] = [[-0.5, id_, None] for id_ in ids[:end]]
                yield {"text": "", "output_ids": ids[:end], "meta_info": about}

        return events(lines())

    async def lmdeploy(self, body: Body) -> Response:
        """Answer as LMDeploy's `/generate` does: an event has the ids that are new."""
        ids, reason = self.completion(body["input_ids"], body.get("max_tokens", 128))

        async def lines() -> AsyncIterator[Body]:
            async for start, end in self.pieces(len(ids)):
                finish = {"type": reason} if end == len(ids) else None
                about = {"completion_tokens": end, "finish_reason": finish}
                yield {"text": "", "output_ids": ids[start:end], "meta_info": about}

        return events(lines())

    async def generate(self, http: Request) -> Response:
        """Answer as SGLang or LMDeploy, which have the same path."""
        body = await http.json()
        return await (self.sglang(body) if "sampling_params" in body else self.lmdeploy(body))

    async def llamacpp(self, http: Request) -> Response:
        """Answer as llama.cpp's `/completion` does, whole."""
        body = await http.json()
        limit = body["n_predict"]
        ids, reason = self.completion(body["prompt"], None if limit < 0 else limit)
        if self.delay:
            await asyncio.sleep(self.delay)
        kind = {"stop": "eos", "length": "limit"}[reason]
        probabilities = [{"id": id_, "logprob": -0.5, "top_logprobs": []} for id_ in ids]
        return JSONResponse(
            {"tokens": ids, "stop_type": kind, "completion_probabilities": probabilities}
        )

    async def models(self, _: Request) -> Response:
        """Tell the model's window, as the servers of vLLM and SGLang do."""
        return JSONResponse({"data": [{"id": "scripted", "max_model_len": 1_000_000}]})

    async def health(self, _: Request) -> Response:
        """Say that the server answers."""
        return Response()


def engine(script: Script, *, together: int = 1, delay: float = 0.0) -> Starlette:
    """Make the server. `together` ids are sent at a time, `delay` seconds apart."""
    made = Engine(script, together, delay)
    return Starlette(
        routes=[
            Route("/v1/completions", made.vllm, methods=["POST"]),
            Route("/inference/v1/generate", made.vllm_generate, methods=["POST"]),
            Route("/generate", made.generate, methods=["POST"]),
            Route("/completion", made.llamacpp, methods=["POST"]),
            Route("/v1/models", made.models),
            Route("/health", made.health),
        ]
    )


def events(lines: AsyncIterator[Body]) -> Response:
    """Make a response of server-sent events."""

    async def written() -> AsyncIterator[bytes]:
        async for line in lines:
            yield b"data: %b\n\n" % json.dumps(line).encode()
        yield b"data: [DONE]\n\n"

    return StreamingResponse(written(), media_type="text/event-stream")


def vllm_logprobs(ids: list[int], top: int) -> Body:
    """Make log probabilities as vLLM tells them by id: -0.5 for each."""
    likeliest: Iterator[Body] = ({f"token_id:{id_}": -0.5} for id_ in ids)
    return {
        "token_logprobs": [-0.5] * len(ids),
        "top_logprobs": [each if top else {} for each in likeliest],
    }


def likeliest(ids: list[int], top: int) -> list[Body]:
    """Make log probabilities as `/inference/v1/generate` tells them: -0.5 for each."""
    entries: Iterator[Body] = ({"token_id": id_, "logprob": -0.5} for id_ in ids)
    return [{**each, "top_logprobs": [each] if top else []} for each in entries]


@contextmanager
def running(application: Starlette) -> Iterator[str]:
    """Serve an application on a free port of this machine, in a thread; give its URL."""
    config = uvicorn.Config(
        application, port=0, log_level="error", log_config=None, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(_WAIT)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
