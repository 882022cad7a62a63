"""A server of OpenAI's chat completions, streamed or not, with the standard library alone.

`python examples/server.py 8000`, then point a client at `http://localhost:8000/v1`. In the place of
a model stands `generate`: it calls the first tool it is given, and says what a tool's result was.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from chatcodec import Codec, MessageError
from chatcodec.adapters import Usage, openai_chat, sse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chatcodec import Encoding
    from chatcodec.adapters import Chunk

CODEC = Codec("internlm2")
NUMBERS = itertools.count()


def generate(request: dict[str, Any]) -> Iterator[int]:
    """Ids as a model would generate them."""
    control, encode = CODEC.vocab.control, CODEC.vocab.encode
    last = request["messages"][-1]
    if last["role"] == "tool" or not request.get("tools"):
        yield from encode(f"You said: {last['content']}")
    else:
        name = json.dumps(request["tools"][0]["function"]["name"])
        yield from (control["<|action_start|>"], control["<|plugin|>"])
        yield from encode(f'\n{{"name": {name}, "parameters": {{}}}}')
        yield control["<|action_end|>"]
    yield CODEC.stop_ids[0]


def chunks_of(request: dict[str, Any], prompt: Encoding) -> Iterator[Chunk]:
    """The chunks of a chat completion, as they are generated."""
    stream = CODEC.stream(prompt)
    adapter = openai_chat.ChunkStream(
        id=f"chatcmpl-{next(NUMBERS)}", model=request["model"], created=int(time.time())
    )
    generated, limit = 0, request.get("max_tokens")
    for token in itertools.islice(generate(request), limit):
        yield from adapter.push(stream.push(token))
        generated += 1
    yield from adapter.push(stream.finish("length" if generated == limit else "stop"))
    options = request.get("stream_options") or {"include_usage": not request.get("stream")}
    usage = Usage(prompt_tokens=len(prompt), completion_tokens=generated)
    yield from adapter.finish(usage if options.get("include_usage") else None)


class Handler(BaseHTTPRequestHandler):
    """Answers `POST /v1/chat/completions`."""

    def do_POST(self) -> None:
        """Read the request and write the response, a chunk at a time where it is streamed."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            prompt = CODEC.encode(request["messages"], tools=request.get("tools"))
        except MessageError as error:
            fault = {"message": str(error), "param": error.path, "type": "invalid_request_error"}
            self.answer(400, "application/json", [json.dumps({"error": fault}).encode()])
            return
        chunks = chunks_of(request, prompt)
        if request.get("stream"):
            lines = itertools.chain(map(sse.data, chunks), [sse.DONE])
            self.answer(200, "text/event-stream", lines)
        else:
            whole = json.dumps(openai_chat.collect(chunks)).encode()
            self.answer(200, "application/json", [whole])

    def answer(self, status: int, kind: str, body: Iterable[bytes]) -> None:
        """Write a response; the end of the connection is the end of its body."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        for piece in body:
            self.wfile.write(piece)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


def serve(port: int) -> ThreadingHTTPServer:
    """Make a server; a port of 0 is any that is free."""
    return ThreadingHTTPServer(("localhost", port), Handler)


if __name__ == "__main__":
    serve(int(sys.argv[1])).serve_forever()
