"""Events of a stream in the response formats of server APIs.

A shape is a module: `openai_chat` (chat completion chunks), `openai_responses`,
`openai_completions` (text alone), `anthropic`
(messages) and `plain` (small dicts of our own). Each has an adapter, which takes the events of a
`Stream`, or of a slot of a `StreamPool`, and returns dicts, ready for JSON; and `collect`, which
folds the same dicts into what a client that does not stream is sent, so the two cannot differ.
`sse` writes dicts as server-sent events. No client library is needed.

>>> from chatcodec import Codec
>>> from chatcodec.adapters import openai_chat
>>> codec = Codec("internlm2", vocab="embedded")
>>> stream, adapter = codec.stream(), openai_chat.ChunkStream(id="chatcmpl-1", model="m")
>>> chunks = adapter.push(stream.push(codec.vocab.encode("Hi")))
>>> chunks += adapter.push(stream.finish("length")) + adapter.finish()
>>> [chunk["choices"][0]["delta"] for chunk in chunks]
[{'role': 'assistant', 'content': ''}, {'content': 'Hi'}, {}]
>>> openai_chat.collect(chunks)["choices"][0]["finish_reason"]
'length'
"""

from __future__ import annotations

from chatcodec.adapters._adapter import Adapter, Chunk, Usage
from chatcodec.adapters._request import Request

__all__ = ["Adapter", "Chunk", "Request", "Usage"]
