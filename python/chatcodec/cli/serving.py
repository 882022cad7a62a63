"""`chatcodec serve`: its arguments and settings."""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import partial
from ssl import VerifyMode
from typing import TYPE_CHECKING, Any, get_args

from chatcodec.cli.loading import UsageError, load_codec, model_of, named_by
from chatcodec.named import EMBEDDED
from chatcodec.serve.listening import Certificates, Listening
from chatcodec.serve.log import set_up
from chatcodec.serve.policy import Policy, Unknown
from chatcodec.serve.salt import CACHE_SECRET
from chatcodec.serve.settings import (
    BACKEND_KEY,
    COUNTS,
    KEYS,
    MEMORY_PASSWORD,
    WAITS,
    Constrain,
    Engine,
    Settings,
    wrong_count,
    wrong_wait,
)
from chatcodec.serve.signals import ignore_signals
from chatcodec.serve.sizes import read_size

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _ArgumentGroup
    from collections.abc import Callable

__all__ = ["add_serve", "serve"]

_NEEDED = ("starlette", "uvicorn", "httptools", "aiohttp", "prometheus_client")
_PORTS = 65_535
SSL_PASSWORD = "CHATCODEC_SSL_PASSWORD"  # noqa: S105 (the name, not the password)
"""Environment variable with the password of the server's private key."""
_URL = ("http://", "https://")
_OWN_HEADERS = {
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
}
"""Headers of a connection or of the gateway's own request."""


def add_serve(parser: ArgumentParser) -> None:
    """Add the backend, the model, and the limits of `serve`."""
    add = parser.add_argument
    add("--backend", metavar="URL", help="the engine's server (required, or `--demo`)")
    add(
        "--demo",
        action="store_true",
        help="a scripted engine in the place of a backend, and a page at / that shows a forged "
        "turn, a call and a stream; without a model, with the vocabulary of the package",
    )
    add(
        "--engine",
        choices=get_args(Engine),
        default="vllm",
        help="the protocol of the backend (default: %(default)s)",
    )
    add(
        "--served-model-name",
        nargs="+",
        default=(),
        metavar="NAME",
        dest="names",
        help="names by which clients may ask for the model (default: `--model`)",
    )
    add("--backend-model", metavar="NAME", help="the model's name at the backend")
    add(
        "--max-model-len",
        type=int,
        metavar="N",
        help="ids that the engine has for a prompt and its answer (default: what the backend says)",
    )
    add(
        "--pass-header",
        nargs="+",
        default=(),
        metavar="NAME",
        dest="pass_headers",
        help="headers of requests that go on to the backend, such as the session of a router",
    )
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=8080, help="port to listen on (default: %(default)s)")
    add("--metrics-port", type=int, metavar="N", help="port for /metrics alone (default: `--port`)")
    add("--workers", type=int, default=1, metavar="N", help="processes (default: %(default)s)")
    add(
        "--api-key-file",
        metavar="FILE",
        help="keys that clients may use, one a line: `KEY` or `NAME: KEY`; a hash may stand for a "
        f"key. Also the variable {KEYS}. The backend's own key is the variable {BACKEND_KEY}",
    )
    add(
        "--cache-salt",
        choices=("key", "off"),
        default="key",
        help="key: each name of keys has a prefix cache of its own, before vLLM and SGLang "
        f"(default: %(default)s). Give several gateways the same {CACHE_SECRET}",
    )
    add(
        "--hash-key",
        action="store_true",
        help="read a key from standard input, print its hash for a file of keys, and end",
    )
    add(
        "--constrain",
        choices=get_args(Constrain),
        default="auto",
        help="what enforces calls and JSON that a request demands: auto, the grammar of the "
        "engine's default backend; lark, for vLLM or SGLang with llguidance (default: %(default)s)",
    )
    add_policy(parser.add_argument_group("what clients may ask"))
    add_memory(parser.add_argument_group("memory"))
    add_pages(parser.add_argument_group("web pages"))
    limits = parser.add_argument_group("limits")
    for name, kind, about in (
        ("max_requests", int, "requests that a process answers at once"),
        ("max_requests_per_key", int, "the same for each name of keys"),
        ("max_queue", int, "requests that wait for others to end"),
        ("queue_timeout", float, "seconds to wait for others to end; 0 for a 503 at once"),
        ("max_body", int, "bytes of a request"),
        ("max_choices", int, "greatest `n`"),
        ("readers", int, "processes that read large requests; 0 for none"),
        ("connect_timeout", float, "seconds to wait for a connection to the backend"),
        ("read_timeout", float, "seconds to wait for the next bytes of the backend"),
        ("heartbeat", float, "seconds of silence after which a stream says it lives; 0 for never"),
        ("client_timeout", float, "seconds to wait for a client to send, or to read"),
    ):
        limits.add_argument(
            "--" + name.replace("_", "-"),
            type=kind,
            default=getattr(Settings, name),
            metavar="N",
            help=f"{about} (default: %(default)s)",
        )
    add_end(parser.add_argument_group("the end"))
    add_certificates(parser.add_argument_group("TLS"))
    add("--log-text", action="store_true", help="write prompts into the log")


def add_end(group: _ArgumentGroup) -> None:
    """Add how long the gateway serves after it is told to end."""
    for name, about in (
        ("drain", "seconds to serve on after SIGTERM, while /readyz says 503"),
        ("grace", "seconds for open answers after that, or at once after SIGINT"),
    ):
        group.add_argument(
            f"--{name}",
            type=float,
            default=getattr(Listening, name),
            metavar="N",
            help=f"{about} (default: %(default)s)",
        )


def add_certificates(group: _ArgumentGroup) -> None:
    """Add the files of TLS, named as uvicorn and vLLM name them."""
    for name, metavar, about in (
        ("certfile", "FILE", "the server's certificates, in PEM: the gateway speaks TLS"),
        ("keyfile", "FILE", f"their private key; the variable {SSL_PASSWORD} has its password"),
        ("ca-certs", "FILE", "certificates that sign those of clients, who then need one"),
        ("ciphers", "NAMES", "ciphers, as OpenSSL lists them"),
    ):
        group.add_argument(f"--ssl-{name}", metavar=metavar, help=about)
    group.add_argument(
        "--ssl-cert-reqs",
        type=int,
        choices=(0, 1, 2),
        help="certificates of clients: 0 for none, 1 for those that have one, 2 for all "
        "(default: 2 with `--ssl-ca-certs`)",
    )


def certificates_of(args: Namespace) -> Certificates | None:
    """Read the arguments of TLS. Raises `UsageError`."""
    if args.ssl_certfile is None:
        for name in ("keyfile", "ca_certs", "ciphers", "cert_reqs"):
            if getattr(args, f"ssl_{name}") is not None:
                option = "--ssl-" + name.replace("_", "-")
                raise UsageError(f"{option}: needs `--ssl-certfile` too")
        return None
    needed = args.ssl_cert_reqs
    if needed is None:
        needed = 0 if args.ssl_ca_certs is None else 2
    if needed and args.ssl_ca_certs is None:
        raise UsageError(f"--ssl-cert-reqs {needed}: needs `--ssl-ca-certs` too")
    return Certificates(
        certificate=args.ssl_certfile,
        key=args.ssl_keyfile,
        password=os.environ.get(SSL_PASSWORD),
        authorities=args.ssl_ca_certs,
        clients=VerifyMode(needed),
        ciphers=args.ssl_ciphers,
    )


def add_memory(group: _ArgumentGroup) -> None:
    """Add what the gateway remembers of conversations."""
    group.add_argument(
        "--memory",
        default="0",
        metavar="SIZE",
        help="answers that are kept, as 64MiB: prompts go on with the ids that were sampled "
        "(default: none)",
    )
    group.add_argument(
        "--memory-file",
        metavar="FILE",
        help="SQLite file in which they are kept, for `--workers` and restarts (default: each "
        "process has its own memory)",
    )
    group.add_argument(
        "--memory-server",
        metavar="URL",
        help="Redis or Valkey server in which they are kept, for several machines, as "
        "redis://HOST:6379; its password is that of the URL, or the variable " + MEMORY_PASSWORD,
    )
    group.add_argument(
        "--trajectories",
        action="store_true",
        help="let each client have the ids, masks and log probabilities of its conversations, at "
        "/v1/trajectories, and attach rewards",
    )


def add_pages(group: _ArgumentGroup) -> None:
    """Add which hosts and pages are served."""
    group.add_argument(
        "--allow-host",
        nargs="+",
        default=(),
        metavar="NAME",
        dest="allow_hosts",
        help="names in the header Host that are served beside this machine's own, such as that of "
        "a proxy before the gateway; `*` for all (default: all, unless the address is a loopback)",
    )
    group.add_argument(
        "--allow-origin",
        nargs="+",
        default=(),
        metavar="ORIGIN",
        dest="allow_origins",
        help="web pages that may send requests, as https://HOST; `*` for all (default: none)",
    )


def add_policy(group: _ArgumentGroup) -> None:
    """Add what becomes of requests that ask for what is not done."""
    add = group.add_argument
    add(
        "--on-unsupported",
        default="error",
        metavar="POLICY",
        help="parts of a request that cannot be written or are not done: error, drop, or "
        "drop=KIND,KIND for the kinds that are left out (default: %(default)s)",
    )
    add(
        "--unknown-fields",
        choices=get_args(Unknown),
        default="error",
        help="fields of a request that the gateway does not know: an error, left out, or passed on "
        "to the engine (default: %(default)s)",
    )
    add(
        "--allow-field",
        nargs="+",
        default=(),
        metavar="NAME",
        dest="allowed_fields",
        help="fields that are refused unless they are named here, such as ignore_eos",
    )
    add(
        "--prompt-ids",
        choices=("any", "canonical"),
        default="any",
        help="ids that a client may give as a prompt: any, or those to which text is encoded, with "
        "control tokens between (default: %(default)s)",
    )
    add(
        "--media-tokens",
        nargs="+",
        default=(),
        metavar="KIND=N",
        help="placeholder ids of an image, a video or audio, image=256 or image=16x16; media of "
        "other kinds are refused",
    )


def serve(args: Namespace) -> bool:
    """Serve until the process gets a signal to end."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        packages = " ".join(name.replace("_", "-") for name in missing)
        raise UsageError(f"serve: needs {', '.join(missing)}; `pip install {packages}`")
    if args.hash_key:
        return print_hash()
    if args.demo:
        set_up_demo(args)
    if args.backend is None:
        raise UsageError("serve: needs the engine's server, `--backend URL`; `--demo` needs none")
    ignore_signals()
    check(args)
    if args.readers < 0:
        raise UsageError(f"--readers {args.readers}: expected 0 or more")
    set_up()
    load_codec(args)  # whose errors say what to do, and whose warnings are lines of the log
    named = named_by(args)
    settings = Settings(
        backend=args.backend.rstrip("/"),
        engine=args.engine,
        model=named.model,
        format=named.format,
        vocab=named.vocab,
        names=tuple(args.names),
        backend_model=args.backend_model,
        max_model_len=args.max_model_len,
        pass_headers=tuple(name.lower() for name in args.pass_headers),
        constrain=args.constrain,
        on_unsupported=args.on_unsupported,
        unknown_fields=args.unknown_fields,
        prompt_ids=args.prompt_ids,
        media_tokens=tuple(args.media_tokens),
        allowed_fields=tuple(args.allowed_fields),
        max_requests=args.max_requests,
        max_requests_per_key=args.max_requests_per_key,
        max_queue=args.max_queue,
        queue_timeout=args.queue_timeout,
        max_body=args.max_body,
        max_choices=args.max_choices,
        readers=args.readers,
        connect_timeout=args.connect_timeout,
        read_timeout=args.read_timeout,
        heartbeat=args.heartbeat,
        client_timeout=args.client_timeout,
        keys_file=args.api_key_file,
        memory=memory_of(args),
        memory_file=args.memory_file,
        memory_server=args.memory_server,
        trajectories=args.trajectories,
        cache_salt=args.cache_salt,
        host=args.host,
        allow_hosts=tuple(args.allow_hosts),
        allow_origins=tuple(args.allow_origins),
        metrics_port=args.metrics_port,
        log_text=args.log_text,
    )
    # An extra, which other commands do without.
    from chatcodec.serve.demo import run_demo  # noqa: PLC0415
    from chatcodec.serve.run import run  # noqa: PLC0415

    listening = Listening(
        host=args.host,
        port=args.port,
        workers=args.workers,
        drain=args.drain,
        grace=args.grace,
        certificates=certificates_of(args),
    )
    try:
        Policy.of(settings)  # in this process, before others are started
        return run_demo(settings, listening) if args.demo else run(settings, listening)
    except ValueError as error:
        raise UsageError(str(error)) from error


def set_up_demo(args: Namespace) -> None:
    """Choose what a demonstration has: its backend, and a vocabulary where none is named."""
    if args.backend is not None:
        raise UsageError("--demo: has an engine of its own, expected no `--backend`")
    if args.workers != 1:
        raise UsageError(f"--workers {args.workers}: the demonstration is one process")
    args.backend = "http://127.0.0.1"  # the address is known when the scripted engine listens
    if model_of(args) is None and args.vocab is None:
        args.vocab = EMBEDDED
        args.names = args.names or ("demo",)


def memory_of(args: Namespace) -> int:
    """Read the bytes that may be kept. Raises `UsageError`."""
    try:
        size = read_size(args.memory)
    except ValueError as error:
        raise UsageError(f"--memory: {error}") from None
    if args.memory_file is not None and not size:
        raise UsageError("--memory-file: needs the bytes that it may have, `--memory SIZE`")
    if args.memory_server is not None:
        if not size:
            raise UsageError("--memory-server: needs the bytes that it may have, `--memory SIZE`")
        if args.memory_file is not None:
            raise UsageError("--memory-server: expected it or `--memory-file`, not both")
        if importlib.util.find_spec("redis") is None:
            raise UsageError("--memory-server: needs redis; `pip install redis`")
    if args.trajectories:
        if not size:
            raise UsageError("--trajectories: needs what keeps them, `--memory SIZE`")
        if importlib.util.find_spec("pyarrow") is None:
            raise UsageError("--trajectories: needs pyarrow; `pip install pyarrow`")
    return size


def check(args: Namespace) -> None:
    """Refuse arguments that no gateway could serve with. Raises `UsageError`."""
    if not args.backend.startswith(_URL):
        raise UsageError(f"--backend {args.backend}: expected a URL, http://HOST:PORT")
    bounds: list[tuple[tuple[str, ...], Callable[[Any], str | None]]] = [
        (("workers", *COUNTS), wrong_count),
        (WAITS, wrong_wait),
        (("drain", "grace", "queue_timeout", "heartbeat"), partial(wrong_wait, least=0)),
    ]
    for names, wrong in bounds:
        for name in names:
            given = getattr(args, name)
            if why := wrong(given):
                raise UsageError(f"--{name.replace('_', '-')} {given}: {why}")
    check_ports(args)
    for name in args.pass_headers:
        if name.lower() in _OWN_HEADERS:
            raise UsageError(f"--pass-header {name}: the gateway sends one of its own")
    for origin in args.allow_origins:
        if origin not in {"*", "null"} and not origin.startswith(_URL):
            raise UsageError(f"--allow-origin {origin}: expected https://HOST, or `*`")


def check_ports(args: Namespace) -> None:
    """Refuse ports that are none, and two that are the same. Raises `UsageError`."""
    for option, port in (("--port", args.port), ("--metrics-port", args.metrics_port)):
        if port is not None and not 0 <= port <= _PORTS:
            raise UsageError(f"{option} {port}: expected 0 to {_PORTS}")
    if args.metrics_port == args.port != 0:
        raise UsageError(f"--metrics-port {args.port}: expected another than `--port`")


def print_hash() -> bool:
    """Print the hash of a key that standard input has, so that no shell's history has it."""
    from chatcodec.serve.keys import hash_of  # noqa: PLC0415 (as above)

    try:
        print(hash_of(sys.stdin.readline().strip()))  # noqa: T201
    except ValueError as error:
        raise UsageError(f"--hash-key: {error}") from None
    return True
