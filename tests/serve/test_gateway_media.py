"""Parts that are no text: refused, left out, or counted as the operator says, and never fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import chatcodec
import data
import pytest
from chatcodec.cli import main
from chatcodec.serve.errors import ApiError
from chatcodec.serve.media import check_placeholders
from chatcodec.serve.policy import Policy
from chatcodec.serve.settings import Settings
from gateway_here import Here, here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatcodec import Codec

HOST = "http://127.0.0.1:9/x.png"
TEXT: Any = {"type": "text", "text": "What is this?"}
CHAT: dict[str, Any] = {
    "image_url": {"type": "image_url", "image_url": {"url": HOST}},
    "image": {"type": "image"},
    "video_url": {"type": "video_url", "video_url": {"url": HOST}},
    "input_audio": {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    "audio_url": {"type": "audio_url", "audio_url": {"url": HOST}},
    "file": {"type": "file", "file": {"file_id": "f"}},
}
RESPONSES: dict[str, Any] = {
    "input_image": {"type": "input_image", "image_url": HOST, "detail": "auto"},
    "input_file": {"type": "input_file", "file_url": HOST},
}
MESSAGES: dict[str, Any] = {
    "image": {"type": "image", "source": {"type": "url", "url": HOST}},
    "document": {"type": "document", "source": {"type": "text", "data": "A"}},
}
USE: Any = {"type": "tool_use", "id": "t", "name": "f", "input": {}}


def bodies() -> Iterator[tuple[str, dict[str, Any], str]]:
    """A path, a body with a part that is no text, and the part's path."""
    for part in CHAT.values():
        asked = [{"role": "user", "content": [TEXT, part]}]
        yield "/v1/chat/completions", {"messages": asked}, "messages[0].content[1]"
    for part in RESPONSES.values():
        asked = [{"role": "user", "content": [part]}]
        yield "/v1/responses", {"input": asked}, "input[0].content[0]"
        output = {"type": "function_call_output", "call_id": "c", "output": [part]}
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        yield "/v1/responses", {"input": [call, output]}, "input[1].output[0]"
    for part in MESSAGES.values():
        asked = [{"role": "user", "content": [part, TEXT]}]
        yield "/v1/messages", {"messages": asked, "max_tokens": 9}, "messages[0].content[0]"
        result = {"type": "tool_result", "tool_use_id": "t", "content": [TEXT, part]}
        messages = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": [USE]},
            {"role": "user", "content": [result]},
        ]
        where = "messages[2].content[0].content[1]"
        yield "/v1/messages", {"messages": messages, "max_tokens": 9}, where
        system = {"system": [part], "messages": [{"role": "user", "content": "?"}]}
        yield "/v1/messages", {**system, "max_tokens": 9}, "system[0]"


def seeing() -> Codec:
    """A codec whose format has placeholders of images: with a real vocabulary where one is here."""
    if (data.DATA / data.FILES["qwen3"]).exists():
        return data.load_format("qwen3", "qwen3")
    for name in chatcodec.formats():
        if "image" in chatcodec.Format.built_in(name).media:
            try:
                return data.load_appended(name, ())
            except chatcodec.ChatCodecError:
                continue
    pytest.skip("no vocabulary for a format with images")


@pytest.fixture(scope="module")
def of() -> Iterator[Here]:
    with here() as made:
        yield made


@pytest.fixture(scope="module")
def sees() -> Iterator[Here]:
    codec = seeing()
    with here(lambda _: [codec.stop_ids[0]], codec) as made:
        yield made


@pytest.mark.parametrize("tokens", [{}, {"tokens": 3}, {"tokens": [2, 2]}])
def test_media_are_refused_plainly(of: Here, sees: Here, tokens: dict[str, Any]) -> None:
    for gateway in (of, sees):
        before = len(gateway.asked)
        for path, body, where in bodies():
            part = body
            for step in where.replace("]", "").replace("[", ".").split("."):
                part = part[int(step) if step.isdigit() else step]  # type: ignore[index]
            part.update(tokens)
            refused = gateway.post(path, body)
            assert refused.status_code == 400, where
            error = refused.json()["error"]
            assert "takes text alone" in error["message"]
            assert f"`{where}`" in error["message"]
            assert "option" not in error["message"]
            assert HOST not in error["message"]
            if path != "/v1/messages":
                assert error["param"] == where
        assert len(gateway.asked) == before
        assert (
            gateway.post(
                "/tokenize", {"messages": [{"role": "user", "content": [CHAT["image"]]}]}
            ).status_code
            == 400
        )


def test_a_client_counts_nothing_in_a_text(of: Here) -> None:
    refused = of.chat(messages=[{"role": "user", "content": [{**TEXT, "tokens": 3}]}])
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "messages[0].content[0].tokens"


def test_the_operator_counts_them() -> None:
    codec = seeing()
    part = {**CHAT["image_url"], "tokens": 100_000}
    messages: Any = [{"role": "user", "content": [TEXT, part]}]
    with here(lambda _: [codec.stop_ids[0]], codec, media_tokens=("image=5",)) as made:
        assert made.chat(messages=messages).status_code == 200
        mine: Any = [{"role": "user", "content": [TEXT, {"type": "image", "tokens": 5}]}]
        assert (
            made.asked[-1]["prompt"] == codec.encode(mine, add_generation_prompt=True).ids.tolist()
        )
        video: Any = [{"role": "user", "content": [CHAT["video_url"]]}]
        assert made.chat(messages=video).status_code == 400


def test_media_may_be_left_out_by_kind() -> None:
    codec = seeing()
    messages: Any = [{"role": "user", "content": [CHAT["image_url"], CHAT["image_url"], TEXT]}]
    with here(lambda _: [codec.stop_ids[0]], codec, on_unsupported="drop=image") as made:
        answer = made.chat(messages=messages)
        assert answer.headers["x-chatcodec-dropped"] == "image=2"
        alone: Any = [{"role": "user", "content": [TEXT]}]
        assert (
            made.asked[-1]["prompt"] == codec.encode(alone, add_generation_prompt=True).ids.tolist()
        )
        assert made.metric('chatcodec_dropped_total{kind="image"}') == 2
        other: Any = [{"role": "user", "content": [TEXT, CHAT["video_url"]]}]
        assert made.chat(messages=other).status_code == 400


def test_placeholders_that_came_another_way_are_refused() -> None:
    """The last check: whatever a part looks like, its placeholders are the operator's."""
    mine: Any = [{"role": "user", "content": [TEXT, {"type": "image", "tokens": 5}]}]
    prompt = seeing().encode(mine)
    check_placeholders(prompt, Policy.of(Settings(backend="http://x", media_tokens=("image=5",))))
    with pytest.raises(ApiError) as caught:
        check_placeholders(prompt, Policy.of(Settings(backend="http://x")))
    assert caught.value.param == "messages[0].content[1]"


def test_deep_parts_are_no_crash(of: Here) -> None:
    part: Any = {"type": "text", "text": ""}
    for _ in range(300):
        part = {"type": "tool_result", "content": [part]}
    assert of.chat(messages=[{"role": "user", "content": [part]}]).status_code == 400


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--media-tokens", "image=0"),
        ("--media-tokens", "file=3"),
        ("--media-tokens", "image=3x"),
        ("--on-unsupported", "keep"),
        ("--on-unsupported", "drop="),
        ("--on-unsupported", "error=name"),
    ],
)
def test_a_policy_that_means_nothing_is_refused(
    flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["serve", "--backend", "http://127.0.0.1:9", "--vocab", "embedded"]
    assert main([*argv, flag, value]) != 0
    assert f"{flag} {value}: expected" in capsys.readouterr().err
