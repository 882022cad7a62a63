"""The codecs of built-in formats on the embedded vocabulary, and of published templates."""

from __future__ import annotations

import data
from chatcodec import Codec, formats
from chatcodec.errors import ChatCodecError
from completions import codec_of
from test_template_codec import PUBLISHED, made, text_of


def each_codec(*, formats_of: int, templates_of: int) -> list[Codec]:
    """The codecs of a share of the formats, and of the templates: one of so many in a short run."""
    found = []
    for name in [
        *data.share(sorted(formats()), formats_of),
        *data.share(PUBLISHED, templates_of),
    ]:
        try:
            if name.endswith(".jinja"):
                found.append(made(text_of(name))[1])
            else:
                found.append(codec_of(name))
        except ChatCodecError:
            continue  # a format whose control tokens the vocabulary has as text
    return found
