"""A gateway: clients of OpenAI's and Anthropic's APIs before an engine that is given ids.

`chatcodec serve --backend URL --model MODEL` runs it. A request becomes ids here, the engine
generates ids, and the answer is read from them. The engine's own chat template and parsers are not
used. The gateway keeps no state between requests, so any number of processes serve together.

`app` makes the ASGI application; it needs the extra `serve`.
"""

from __future__ import annotations

from chatcodec.serve.settings import Settings

__all__ = ["Settings"]
