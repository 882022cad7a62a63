"""The contenders and their versions: the one place where both are pinned."""

from __future__ import annotations

from dataclasses import dataclass

OURS = "chatcodec"


@dataclass(frozen=True)
class Contender:
    """A library as it is measured.

    `requirements` are what its environment holds, its own first; none for the project itself, which
    is measured as it is installed beside the harness. `form` is the kind of vocabulary it reads.
    """

    name: str
    form: str
    requirements: tuple[str, ...] = ()


CONTENDERS = (
    Contender(OURS, "ours"),
    Contender("fastokens", "json", ("fastokens==0.3.5",)),
    Contender("gigatoken", "json", ("gigatoken==0.10.0",)),
    Contender("tokenizers rc", "json", ("tokenizers==1.0.0rc3",)),
    Contender("tokenizers", "json", ("tokenizers==0.23.3",)),
    Contender("splintr", "json", ("splintr-rs==0.22.0",)),
    Contender("tiktoken", "ranks", ("tiktoken==0.14.0", "numpy==2.4.6")),
    Contender("sentencepiece", "model", ("sentencepiece==0.2.3",)),
    Contender(
        "transformers", "chat", ("transformers==5.23.0", "tokenizers==0.23.3", "jinja2==3.1.6")
    ),
    Contender("openai-harmony", "harmony", ("openai-harmony==0.0.8",)),
    Contender("mistral-common", "mistral", ("mistral-common==1.13.1", "sentencepiece==0.2.3")),
)
PLOTS = ("matplotlib==3.11.2",)
"""What the plots are drawn with, in an environment of its own."""

BY_NAME = {contender.name: contender for contender in CONTENDERS}
