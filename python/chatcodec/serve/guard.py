"""What protects a gateway from web pages: a check of `Host` and `Origin`, and CORS by a list.

A page in a browser can send requests to any address that its user reaches, a gateway on the same
machine included. The browser says which page it was, in `Origin`; without a list of pages, none is
served. A page whose name is made to resolve to 127.0.0.1 (DNS rebinding) has no `Origin` to speak
of, but its name is in `Host`; so where a gateway listens on a loopback address, `Host` has to be
one too.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from chatcodec.serve.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from chatcodec.serve.settings import Settings

__all__ = ["Guard", "is_loopback"]

ANY = "*"
_PREFLIGHT = {"access-control-allow-methods": "GET, POST", "access-control-max-age": "600"}


def is_loopback(name: str) -> bool:
    """Whether the name or address of a host is this machine's own."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def name_of(host: str) -> str:
    """Give the name in a `Host` header, without its port, in lower case."""
    name, _, port = host.rpartition(":")
    whole = name if name and port.isdigit() else host
    return whole.strip().lower().rstrip(".")


class Guard:
    """An application that serves only the hosts and the pages that it may."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        refuse: Callable[[HttpRequest, ApiError], Response],
    ) -> None:
        """Guard an application; `refuse` makes the answer to a request that is not served."""
        self.app, self.refuse = app, refuse
        self.hosts = {name_of(host) for host in settings.allow_hosts}
        self.checks_host = bool(self.hosts) or is_loopback(settings.host or "")
        self.origins = {origin.lower().rstrip("/") for origin in settings.allow_origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        try:
            self.check_host(headers)
            self.check_origin(headers)
        except ApiError as error:
            await self.refuse(HttpRequest(scope), error)(scope, receive, send)
            return
        if origin is None:
            await self.app(scope, receive, send)
        elif scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            asked = headers.get("access-control-request-headers", "")
            allowed = {**_PREFLIGHT, **shared_with(origin), "access-control-allow-headers": asked}
            await Response(status_code=204, headers=allowed)(scope, receive, send)
        else:
            await self.app(scope, receive, shared(send, origin))

    def check_host(self, headers: Headers) -> None:
        """Refuse a `Host` that names another server. Raises `ApiError`."""
        if not self.checks_host or ANY in self.hosts:
            return
        for host in headers.getlist("host"):
            name = name_of(host)
            if not is_loopback(name) and name not in self.hosts:
                raise ApiError(
                    403,
                    f"the header `Host` is `{host:.80}`, which is not served: "
                    "start the gateway with --allow-host",
                )

    def check_origin(self, headers: Headers) -> None:
        """Refuse a page that is not listed. Raises `ApiError`."""
        for origin in headers.getlist("origin"):
            if ANY not in self.origins and origin.lower() not in self.origins:
                raise ApiError(
                    403,
                    f"the header `Origin` is `{origin:.80}`, and pages of it are not served: "
                    "start the gateway with --allow-origin",
                )


def shared_with(origin: str) -> dict[str, str]:
    """Give the headers that let a page read an answer."""
    return {
        "access-control-allow-origin": origin,
        "access-control-expose-headers": "*",
        "vary": "Origin",
    }


def shared(send: Send, origin: str) -> Send:
    """Let a page read an answer."""
    added = [(key.encode(), value.encode("latin-1")) for key, value in shared_with(origin).items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return sending
