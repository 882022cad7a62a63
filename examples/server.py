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
from typing import TYPE_CHECKING

from chatcodec import Codec, MessageError
from chatcodec.adapters import openai_chat, sse
from chatcodec.adapters.run import chunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chatcodec import Encoding
    from chatcodec.adapters import Chunk, Request

CODEC = Codec("internlm2", vocab="embedded")
NUMBERS = itertools.count()


def generate(request: Request) -> Iterator[int]:
    """Ids as a model would generate them."""
    control, encode = CODEC.vocab.control, CODEC.vocab.encode
    last = request.messages[-1]
    if last["role"] == "tool" or not request.tools:
        yield from encode(f"You said: {last['content']}")
    else:
        name = json.dumps(request.tools[0]["function"]["name"])
        yield from (control["<|action_start|>"], control["<|plugin|>"])
        yield from encode(f'\n{{"name": {name}, "parameters": {{}}}}')
        yield control["<|action_end|>"]
    yield CODEC.stop_ids[0]


def chunks_of(request: Request, prompt: Encoding) -> Iterator[Chunk]:
    """The chunks of a chat completion, as they are generated."""
    stream = request.stream(prompt)
    adapter = openai_chat.ChunkStream(
        id=f"chatcmpl-{next(NUMBERS)}", created=int(time.time()), **request.adapter
    )
    options = request.rest.get("stream_options") or {"include_usage": not request.rest["stream"]}
    return chunks(
        generate(request),
        stream,
        adapter,
        stop=request.stop,
        limit=request.limit,
        prompt_tokens=len(prompt) if options.get("include_usage") else None,
    )


class Handler(BaseHTTPRequestHandler):
    """Answers `POST /v1/chat/completions`."""

    def do_POST(self) -> None:
        """Read the request and write the response, a chunk at a time where it is streamed."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            request = openai_chat.read_request({"stream": False, **body}, CODEC)
            prompt = request.encode()
        except MessageError as error:
            fault = {"message": str(error), "param": error.path, "type": "invalid_request_error"}
            self.answer(400, "application/json", [json.dumps({"error": fault}).encode()])
            return
        response = chunks_of(request, prompt)
        if request.rest["stream"]:
            lines = itertools.chain(map(sse.data, response), [sse.DONE])
            self.answer(200, "text/event-stream", lines)
        else:
            whole = json.dumps(openai_chat.collect(response)).encode()
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
