"""Salts of prefix caches: a client's prompts are cached for that client alone.

An engine that finds the beginning of a prompt in its cache answers sooner. Without a salt, a client
could learn so what others have asked.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets

__all__ = ["CACHE_SECRET", "salt_of", "share_secret"]

CACHE_SECRET = "CHATCODEC_CACHE_SECRET"  # noqa: S105 (the name, not the secret)
"""Environment variable with what salts are made of; the same in all processes of a service."""


def share_secret() -> None:
    """Set the variable to what nobody knows, for this process and those that it starts.

    Raises `ValueError` for a variable that is set to nothing.
    """
    if not os.environ.setdefault(CACHE_SECRET, secrets.token_hex(32)).strip():
        raise ValueError(f"{CACHE_SECRET}: is empty, expected a random text")


def salt_of(name: str, own: object = None) -> str:
    """Make the salt of a client by its name, and by a salt of its own if it asks for one."""
    secret = os.environ[CACHE_SECRET].encode("utf-8", "surrogateescape")
    text = name if own is None else f"{name} {own}"  # a name has no space
    made = hmac.digest(secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256)
    return base64.urlsafe_b64encode(made).decode().rstrip("=")
