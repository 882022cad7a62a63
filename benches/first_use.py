"""Loads a vocabulary and encodes with it once, in a process of its own; prints what that took.

`python first_use.py CONTENDER FILE` takes text on stdin and prints a JSON object: CPU seconds of
loading and of the first call, and by how many bytes the resident memory had grown after the first
call and after the text. Imports come before. Run by `test_load.py`.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def loader(contender: str, path: str) -> Callable[[], Callable[[str], object]]:
    """What loads a vocabulary and gives its encode."""
    if contender == "tokenizers":
        from tokenizers import Tokenizer  # noqa: PLC0415 - only what is measured is imported

        def tokenizers() -> Callable[[str], object]:
            tokenizer: Any = Tokenizer.from_file(path)
            return lambda text: tokenizer.encode(text, add_special_tokens=False).ids

        return tokenizers
    if contender == "sentencepiece":
        from sentencepiece import SentencePieceProcessor  # noqa: PLC0415 - the same

        def sentencepiece() -> Callable[[str], object]:
            processor: Any = SentencePieceProcessor(model_file=path)
            encode: Callable[[str], object] = processor.encode
            return encode

        return sentencepiece
    from chatcodec import Vocab  # noqa: PLC0415 - the same

    return lambda: (Vocab.load(path) if path else Vocab.embedded()).encode


def resident() -> int:
    """Bytes of resident memory; where the system does not tell, the most there ever were."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    contender, path = sys.argv[1:]
    text = sys.stdin.read()
    load = loader(contender, path)
    memory = resident()
    start = time.process_time()
    encode = load()
    loaded = time.process_time()
    encode("Hello, world!")
    called = time.process_time()
    first = resident()
    encode(text)
    figures = {
        "load": loaded - start,
        "first call": called - loaded,
        "grown": first - memory,
        "grown after text": resident() - memory,
    }
    sys.stdout.write(json.dumps(figures))


if __name__ == "__main__":
    main()
