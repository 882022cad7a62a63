"""Settings of the gateway: what the command line, or a caller from Python, chooses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from chatcodec.named import Named

if TYPE_CHECKING:
    from chatcodec import Codec

__all__ = ["BACKEND_KEY", "KEYS", "MEMORY_PASSWORD", "Constrain", "Engine", "Settings"]

Engine: TypeAlias = Literal["vllm", "vllm-generate", "sglang", "lmdeploy", "llamacpp"]
"""Protocol of the backend."""

Constrain: TypeAlias = Literal["auto", "lark", "off"]
"""Grammar for what a request demands: the one of the engine's default backend, Lark, or none."""

KEYS = "CHATCODEC_API_KEYS"
"""Environment variable with the keys that clients may use, separated by white space or commas.
A variable that is set has one at least."""

BACKEND_KEY = "CHATCODEC_BACKEND_KEY"
"""Environment variable with the key that the gateway sends to the backend."""

MEMORY_PASSWORD = "CHATCODEC_MEMORY_PASSWORD"  # noqa: S105 (the name, not the password)
"""Environment variable with the password of the memory's server."""

COUNTS = (
    "max_requests",
    "max_requests_per_key",
    "max_queue",
    "max_body",
    "max_choices",
    "max_model_len",
)
"""Settings that are numbers of 1 or more, or None."""

WAITS = ("connect_timeout", "read_timeout", "client_timeout")
"""Settings that are seconds, more than none."""

_LONGEST = 1_000_000.0
"""Longest wait, in seconds: event loops overflow far above it."""


def wrong_count(value: int | None) -> str | None:
    """Say what is wrong with a number; None for one that is fine."""
    return None if value is None or value >= 1 else "expected 1 or more"


def wrong_wait(value: float, *, least: float | None = None) -> str | None:
    """Say what is wrong with seconds, which are above 0, or at least `least`; None for fine."""
    is_fine = math.isfinite(value) and value <= _LONGEST
    if is_fine and (value > 0 if least is None else value >= least):
        return None
    lowest = "more than 0" if least is None else f"{least:g} or more"
    return f"expected seconds, {lowest} and at most {_LONGEST:g}"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one gateway. Keys are not among them: they come from files or the environment."""

    backend: str
    """URL of the engine's server."""
    engine: Engine = "vllm"
    """Protocol that the backend speaks."""
    model: str | None = None
    """Folder, GGUF file or name on the hub of the model; None to use `vocab`."""
    format: str | None = None
    """Name of a built-in format, or a TOML file; by default that of the model's template."""
    vocab: str | None = None
    """File or folder of a vocabulary, in place of a model; or `embedded`, to try things out."""
    names: tuple[str, ...] = ()
    """Names by which clients may ask for the model. By default `model`, or the format's name."""
    backend_model: str | None = None
    """Name of the model in requests to the backend; by default the first of the names."""
    max_model_len: int | None = None
    """Greatest number of ids of a prompt and its answer; None for what the backend says."""
    constrain: Constrain = "auto"
    """Grammar by which the engine enforces calls and JSON that a request demands."""
    on_unsupported: str = "error"
    """Policy for parts of a request that cannot be written or are not done: `error`, `drop`, or
    `drop=KIND,KIND` for the kinds that are left out."""
    unknown_fields: Literal["error", "drop", "pass"] = "error"
    """Policy for fields that the gateway does not know."""
    prompt_ids: Literal["any", "canonical"] = "any"
    """Prompts of ids that are taken: any, or those to which text is encoded."""
    media_tokens: tuple[str, ...] = ()
    """Placeholder ids of media, `image=256` or `image=16x16`; media of other kinds are refused."""
    allowed_fields: tuple[str, ...] = ()
    """Fields that are refused unless they are named here, such as `ignore_eos`."""
    pass_headers: tuple[str, ...] = ()
    """Headers of a request that go on to the backend, beside those of traces: for routers."""
    max_requests: int = 1024
    """Greatest number of requests that are answered at once by a process; others wait."""
    max_requests_per_key: int | None = None
    """The same for each name of keys; None for no limit. The file of keys may say another."""
    max_queue: int = 1024
    """Greatest number of requests that wait in a process; others get a 503."""
    queue_timeout: float = 10.0
    """Longest wait of a request for its turn, in seconds; 0 for a 503 at once."""
    max_body: int = 8_000_000
    """Largest body of a request, in bytes."""
    max_choices: int = 128
    """Greatest `n` of a request."""
    readers: int = 2
    """Greatest number of processes that read large requests; 0 to read them where streams go on."""
    connect_timeout: float = 5.0
    """Longest wait for a connection to the backend, in seconds."""
    read_timeout: float = 120.0
    """Longest wait for the next bytes of the backend, in seconds."""
    heartbeat: float = 15.0
    """Seconds of silence of the engine after which a stream says that it lives; 0 for never."""
    client_timeout: float = 60.0
    """Longest wait for the bytes of a client's body, or for a client to read, in seconds."""
    keys_file: str | None = None
    """File with the keys that clients may use, one a line (`chatcodec.serve.keys`)."""
    host: str | None = None
    """Address that the server listens on; on a loopback address, `Host` has to be one too."""
    allow_hosts: tuple[str, ...] = ()
    """Further names in `Host` that are served; `*` for all."""
    allow_origins: tuple[str, ...] = ()
    """Origins of the web pages that are served; `*` for all."""
    memory: int = 0
    """Bytes of answered turns that are kept, so that prompts go on with the ids that were sampled;
    0 for none."""
    memory_file: str | None = None
    """SQLite file in which they are kept, which processes share; None for this process's memory."""
    memory_server: str | None = None
    """URL of a Redis or Valkey server in which they are kept, which machines share."""
    trajectories: bool = False
    """Whether clients may have the trajectories of their conversations, of what is kept."""
    cache_salt: Literal["key", "off"] = "key"
    """Whether the clients of each name of keys have a prefix cache of their own."""
    metrics_port: int | None = None
    """Port that has `/metrics` alone; None for the port of all other paths."""
    log_text: bool = False
    """Whether the log has the text of prompts."""

    def __post_init__(self) -> None:
        """Refuse numbers out of their bounds. Raises `ValueError`."""
        if self.readers < 0:
            raise ValueError(f"`readers` is {self.readers}, expected 0 or more")
        for names, wrong in ((COUNTS, wrong_count), (WAITS, wrong_wait)):
            for name in names:
                if why := wrong(getattr(self, name)):
                    raise ValueError(f"`{name}` is {getattr(self, name)}, {why}")
        self._check_memory()
        for name in ("queue_timeout", "heartbeat"):
            if why := wrong_wait(getattr(self, name), least=0):
                raise ValueError(f"`{name}` is {getattr(self, name)}, {why}")

    def _check_memory(self) -> None:
        if self.memory < 0:
            raise ValueError(f"`memory` is {self.memory}, expected bytes, 0 or more")
        places = [name for name in ("memory_file", "memory_server") if getattr(self, name)]
        if len(places) > 1:
            raise ValueError("`memory_file` and `memory_server` are given, expected one of them")
        for place in places if not self.memory else ():
            raise ValueError(f"`{place}` needs `memory`, the bytes that it may have")
        if self.trajectories and not self.memory:
            raise ValueError("`trajectories` needs `memory`, which keeps them")

    @property
    def served(self) -> tuple[str, ...]:
        """The names by which clients may ask for the model."""
        return self.names or (self._named.name,)

    def codec(self) -> Codec:
        """Load the codec. Raises what `Codec` and `Codec.from_pretrained` raise."""
        return self._named.codec()

    @property
    def _named(self) -> Named:
        return Named(self.model, self.format, self.vocab)
