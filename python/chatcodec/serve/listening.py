"""Where a gateway listens, and its certificates."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from dataclasses import dataclass, field

__all__ = ["Certificates", "Listening"]

_WAITING = 2048
"""Connections that the system holds for a process that is busy."""


@dataclass(frozen=True, kw_only=True)
class Certificates:
    """Files for TLS, in PEM."""

    certificate: str
    """Chain of the server's certificates."""
    key: str | None = None
    """The private key; None if it is in the first file."""
    password: str | None = field(default=None, repr=False)
    """Password of the private key."""
    authorities: str | None = None
    """Certificates that sign those of clients; None for clients without certificates."""
    clients: ssl.VerifyMode = ssl.CERT_NONE
    """Whether clients need a certificate."""
    ciphers: str | None = None
    """Ciphers, as OpenSSL lists them."""

    def check(self) -> None:
        """Read the files. Raises `ValueError`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.load(context)
        try:
            if self.authorities is not None:
                context.load_verify_locations(self.authorities)
        except OSError as error:
            raise ValueError(f"--ssl-ca-certs {self.authorities}: {error}") from None
        try:
            if self.ciphers is not None:
                context.set_ciphers(self.ciphers)
        except ssl.SSLError as error:
            raise ValueError(f"--ssl-ciphers {self.ciphers}: {error}") from None

    def load(self, context: ssl.SSLContext) -> None:
        """Read the server's certificate and key into a context. Raises `ValueError`."""
        # Without a password, OpenSSL would ask for one at the terminal.
        password = self.password or ""
        try:
            context.load_cert_chain(self.certificate, self.key, lambda: password)
        except (OSError, ValueError) as error:
            files = self.certificate + (f" --ssl-keyfile {self.key}" if self.key else "")
            raise ValueError(f"--ssl-certfile {files}: {error}") from None


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where and how a gateway listens, and how it ends."""

    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    """Processes on the port."""
    drain: float = 0.0
    """Seconds for which requests are still served after SIGTERM, while `/readyz` says no."""
    grace: float = 30.0
    """Seconds for answers that are open after that."""
    certificates: Certificates | None = None
    """None for plain HTTP."""

    def sockets(self) -> list[socket.socket]:
        """Listen on all addresses of the host. Raises `OSError` where one is in use."""
        kinds = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        made: list[socket.socket] = []
        missed: OSError | None = None
        for family, name in dict.fromkeys((kind[0], str(kind[4][0])) for kind in kinds):
            port = made[0].getsockname()[1] if made else self.port
            try:
                bound = socket.create_server((name, port), family=family, backlog=_WAITING)
                made.append(bound)
            except OSError as error:
                missed = OSError(
                    error.errno, f"{name} port {port}: {os.strerror(error.errno or 0)}"
                )
                # A machine may have a name for an address that it has not: IPv6, as a rule.
                if error.errno == errno.EADDRINUSE:
                    break
        if missed is not None and (not made or missed.errno == errno.EADDRINUSE):
            for each in made:
                each.close()
            raise missed
        return made
