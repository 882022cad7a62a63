"""What the type stubs say is what the code does: words, defaults, options."""

from __future__ import annotations

import inspect
import re
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import pytest
from chatcodec import Codec, Format, IntArray, Vocab, _core, events, formats, options

if TYPE_CHECKING:
    from collections.abc import Callable

CODEC = Codec("internlm2", vocab="embedded")
ASKED: Any = [{"role": "user", "content": "Hi"}]
PROMPT = CODEC.encode(ASKED)
IDS = CODEC.vocab.encode("Hi")


def extend(**words: Any) -> object:  # noqa: ANN401
    return CODEC.extend(PROMPT, IDS, ASKED, **words)


def encode(**words: Any) -> object:  # noqa: ANN401
    return CODEC.encode(ASKED, **words)


def batch(**words: Any) -> object:  # noqa: ANN401
    return CODEC.encode_batch([ASKED], **words)


def stream(**words: Any) -> object:  # noqa: ANN401
    return CODEC.stream(PROMPT, **words)


WORDS: list[tuple[Callable[..., object], str, Any]] = [
    (encode, "on_marker", options.OnMarker),
    (encode, "boundary", options.Boundary),
    (encode, "on_arguments", options.OnArguments),
    (encode, "unknown", options.OnUnknown),
    (encode, "on_unsupported", options.OnUnsupported),
    (extend, "reasoning", options.OnReasoning),
    (batch, "errors", options.OnError),
    (stream, "markers", options.Markers),
    (stream, "calls_in_reasoning", options.CallsInReasoning),
    (stream, "bare_calls", options.BareCalls),
]


@pytest.mark.parametrize(("call", "option", "words"), WORDS)
def test_words_are_those_that_are_taken(
    call: Callable[..., object], option: str, words: object
) -> None:
    for word in get_args(words):
        call(**{option: word})
    with pytest.raises(ValueError, match=rf'{option}="other"') as error:
        call(**{option: "other"})
    told = re.findall(r'"(\w+)"', str(error.value).partition("expected")[2])
    assert sorted(told) == sorted(get_args(words))


def test_words_of_what_there_is() -> None:
    assert {Format.built_in(name).guarantee for name in formats()} == {*get_args(options.Guarantee)}
    assert Vocab.embedded().dummy_prefix in get_args(options.DummyPrefix)
    assert Vocab.embedded().kind in get_args(options.VocabKind)


def parameters(function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


TAKING: list[Callable[..., object]] = [
    CODEC.encode,
    CODEC.count,
    CODEC.canonical,
    partial(CODEC.fit, tokens=100),
]


@pytest.mark.parametrize("option", sorted(options.EncodeOptions.__optional_keys__))
def test_every_option_is_taken_by_all_that_take_them(option: str) -> None:
    if option in options.FormatOptions.__optional_keys__:
        return
    type_ = options.EncodeOptions.__annotations__[option].__forward_arg__
    words = get_args(getattr(options, type_, None))
    value: Any = words[0] if words else {"bool": False}.get(type_)
    for method in TAKING:
        method(ASKED, **{option: value})
    CODEC.encode_batch([ASKED], **{option: value})
    if option == "tools":
        with pytest.raises(TypeError, match="unexpected option `tools`"):
            extend(tools=None)
    else:
        extend(**{option: value})


def test_an_unknown_option_is_an_error_that_names_the_known() -> None:
    names = options.EncodeOptions.__optional_keys__ - options.FormatOptions.__optional_keys__
    for method in TAKING:
        with pytest.raises(TypeError, match="unexpected option `add_prompt`") as error:
            method(ASKED, add_prompt=True)
        assert names <= set(re.findall(r"`(\w+)`", str(error.value)))


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("continue_final", 1, "continue_final: is `int`, expected True or False"),
        ("add_generation_prompt", "no", "is `str`, expected True, False or None"),
        ("on_marker", None, "on_marker: is `NoneType`, expected a string"),
        ("media_tokens", 3, "media_tokens: is `int`, expected a function"),
    ],
)
def test_a_value_of_another_type_is_an_error(option: str, value: object, expected: str) -> None:
    with pytest.raises(TypeError, match=expected):
        encode(**{option: value})


def test_options_of_formats_and_streams() -> None:
    of_formats = {option for name in formats() for option in Format.built_in(name).options}
    assert of_formats == options.FormatOptions.__optional_keys__
    streams = {name for name in parameters(CODEC.stream) if name != "prompt"}
    assert streams == options.StreamOptions.__optional_keys__


def test_no_default_is_hidden() -> None:
    classes: list[Any] = [value for value in vars(_core).values() if isinstance(value, type)]
    members = [getattr(class_, name) for class_ in classes for name in vars(class_)]
    found = 0
    for callable_ in [*classes, *filter(callable, members)]:
        try:
            signature = inspect.signature(callable_)
        except (TypeError, ValueError):
            continue
        found += 1
        defaults = [p.default for p in signature.parameters.values()]
        assert Ellipsis not in defaults, callable_
    assert found > 100
    # What a signature shows is what is meant.
    assert events.Text("a") == events.Text("a", tokens=parameters(events.Text)["tokens"].default)
    ignored = parameters(PROMPT.labels)["ignore_index"].default
    assert PROMPT.labels() == PROMPT.labels(ignore_index=ignored)
    stop = parameters(IntArray.index)["stop"].default
    assert IDS.index(IDS[-1]) == IDS.index(IDS[-1], 0, stop)


def test_signatures_name_the_fields_that_match_does() -> None:
    for name in events.__all__:
        event = getattr(events, name)
        if isinstance(event, type):
            assert [*parameters(event)] == [*event.__match_args__, "tokens"]  # type: ignore[attr-defined]
