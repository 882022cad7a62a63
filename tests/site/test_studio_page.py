"""The studio's page in a browser: what is typed, what is shown, and where an error stands."""

from __future__ import annotations

import http.client
import json
import shlex
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import pytest
from chatcodec import Codec
from chatcodec.pages.studio import Studio
from chatcodec.serve import Settings
from chatcodec.serve.demo import demo_app
from chromium import launched
from gateway import free_port, serving
from studios import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

CODEC = Codec("internlm2", vocab="embedded")
READY = "#encoding:not([hidden])[data-ready=yes]"
CONTENT = ".card.user .main textarea"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def studio() -> Iterator[Studio]:
    with running(Studio()) as studio:
        yield studio


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:  # noqa: ANN401
    """The page; fails where it reports an error, or asks another server."""
    page = browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **options})
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request",
        lambda request: (
            wrong.append(request.url)
            if not request.url.startswith(address.partition("#")[0])
            else None
        ),
    )
    try:
        page.goto(address)
        page.wait_for_selector(READY)
        yield page
    finally:
        page.context.close()
    assert wrong == []


@pytest.fixture
def page(browser: Browser, studio: Studio) -> Iterator[Page]:
    with opened(browser, studio.url) as page:
        yield page


def shown_text(page: Page) -> str:
    """The text of the tokens, as the page has it."""
    return "".join(page.locator(".t").all_text_contents()).replace("↵", "")


def expect_tokens(page: Page, messages: list[dict[str, Any]], **options: Any) -> None:  # noqa: ANN401
    """Wait for the ids of a conversation, which the codec itself gives."""
    encoding = CODEC.encode(messages, **options)
    page.wait_for_selector(READY)
    page.locator(".counts b").first.filter(has_text=str(len(encoding))).wait_for()
    page.locator(".tokens").wait_for()
    for _ in range(50):
        if shown_text(page) == encoding.text:
            return
        page.wait_for_timeout(100)
    assert shown_text(page) == encoding.text


def is_in_window(node: Locator) -> bool:
    """Whether nothing lies over the middle of a node, and the window has all of it."""
    return bool(
        node.evaluate(
            """(node) => {
              const { x, y, width, height, bottom } = node.getBoundingClientRect();
              const on = document.elementFromPoint(x + width / 2, y + height / 2);
              return y >= 0 && bottom <= innerHeight && (on === node || node.contains(on));
            }"""
        )
    )


def test_what_is_typed_is_shown(page: Page) -> None:
    assert page.locator("mark").count() == 2
    page.locator(CONTENT).fill("Bonjour")
    expect_tokens(page, [{"role": "user", "content": "Bonjour"}])


def test_messages_are_edited(page: Page) -> None:
    page.locator(CONTENT).fill("Weather?")
    page.get_by_role("button", name="+ assistant").click()
    page.locator(".card.assistant .main textarea").fill("I look.")
    page.get_by_role("button", name="+ tool").click()
    page.get_by_role("button", name="+ call").click()
    page.get_by_role("button", name="+ result").click()
    page.locator(".card.tool .main textarea").fill("rain")
    page.get_by_role("button", name="+ system").click()
    page.locator(".card.system .main textarea").fill("Be brief.")
    page.locator(".call").get_by_label("arguments").fill('{"city": "Bergen"}')
    page.get_by_label("JSON", exact=True).check()
    messages = json.loads(page.locator("#at-messages").input_value())
    tools = json.loads(page.locator("#at-tools").input_value())
    function = {"name": "get_weather", "arguments": '{"city": "Bergen"}'}
    assert messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_0", "name": "get_weather", "content": "rain"},
    ]
    assert tools[0]["function"]["name"] == "get_weather"
    expect_tokens(page, messages, tools=tools)
    # What is typed as JSON is in the editor, keys that the editor does not show included.
    messages[1]["name"] = "ann"
    page.locator("#at-messages").fill(json.dumps(messages[:3]))
    page.get_by_label("Editor", exact=True).check()
    assert page.locator(".card").count() == 4  # and a tool
    page.get_by_role("button", name="move message 2 up").click()
    page.get_by_role("button", name="remove message 2").click()
    page.get_by_role("button", name="remove message 2").click()
    page.get_by_role("button", name="remove tool 1").click()
    page.get_by_label("JSON", exact=True).check()
    assert json.loads(page.locator("#at-messages").input_value()) == [messages[1]]


def test_reasoning_has_its_place(page: Page) -> None:
    page.get_by_role("combobox", name="role of message 1").select_option("assistant")
    page.get_by_role("button", name="+ reasoning").click()
    page.keyboard.type("Hm.")
    error = page.locator("#at-messages-0-reasoning-error:not(:empty)")
    error.wait_for()
    assert "has no place" in error.inner_text()
    # Without it, the rest is written, and the page says what was left out.
    page.get_by_label("leave out what has no place").check()
    page.locator(".verdict.left-out").filter(has_text="messages[0].reasoning").wait_for()
    page.get_by_label("leave out what has no place").uncheck()
    error.wait_for()
    page.get_by_role("button", name="remove reasoning").click()
    page.wait_for_selector(READY)


def test_an_error_stands_beside_its_field_and_no_result_stands(page: Page) -> None:
    page.get_by_role("button", name="+ assistant").click()
    page.get_by_role("button", name="+ call").click()
    arguments = page.locator(".call").get_by_label("arguments")
    arguments.fill("{x")
    error = page.locator("#at-messages-1-tool_calls-0-function-arguments-error")
    error.filter(has_text="is not valid JSON").wait_for()
    assert is_in_window(error)
    assert arguments.get_attribute("aria-invalid") == "true"
    assert is_in_window(page.locator(".instead"))
    assert not page.locator(".tokens").is_visible()
    assert not page.get_by_role("button", name="copy ids").is_visible()
    # A file that is refused has an error of its own.
    page.locator("#at-files").set_input_files({"name": "x", "mimeType": "", "buffer": b""})
    page.locator("#at-files-error:not(:empty)").wait_for()
    assert is_in_window(error)
    # What is no JSON is said at once, and two fields have an error each.
    page.get_by_role("button", name="+ tool").click()
    page.get_by_label("parameters").fill("{")
    page.locator("#at-tools-0-function-parameters-error:not(:empty)").wait_for()
    page.get_by_role("button", name="remove tool 1").click()
    arguments = page.locator(".call").get_by_label("arguments")
    arguments.fill("{}")
    page.wait_for_selector(READY)
    assert page.locator("[aria-invalid]").count() == 0
    assert not page.locator(".instead").is_visible()


def test_json_that_is_wrong_stays_in_its_view(page: Page) -> None:
    page.get_by_label("JSON", exact=True).check()
    for text in ("[", '{"role": "user"}', "[1]"):
        page.locator("#at-messages").fill(text)
        page.get_by_label("Editor", exact=True).click(force=True)
        page.locator("#at-messages-error:not(:empty)").wait_for()
        assert page.get_by_label("JSON", exact=True).is_checked()
        assert page.locator("#at-messages").input_value() == text
    page.locator("#at-messages").fill('[{"role": "boss", "content": "x"}]')
    page.locator("#at-messages-error").filter(has_text="messages[0].role").wait_for()


def test_an_answer_that_is_overtaken_is_not_shown(page: Page) -> None:
    """The answer to the first text comes after the answer to the second one."""
    held = []

    def route(route: Any) -> None:  # noqa: ANN401
        if "slow" in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/encode", route)
    page.locator(CONTENT).fill("slow")
    for _ in range(50):
        if held:
            break
        page.wait_for_timeout(100)
    page.locator(CONTENT).fill("fast")
    expect_tokens(page, [{"role": "user", "content": "fast"}])
    for each in held:
        each.continue_()
    page.wait_for_timeout(500)
    assert "fast" in shown_text(page)


def test_a_long_text_makes_few_nodes(page: Page) -> None:
    """The nodes of a conversation of 200,000 characters are about those of the window."""
    page.locator(CONTENT).fill("Some words of a text. " * 9_000 + "the end")
    page.locator(".counts b").first.filter(has_text="000").or_(
        page.locator(".counts").filter(has_text="ids")
    ).wait_for()
    page.wait_for_function("() => Number(document.querySelector('.counts b').textContent) > 20000")
    page.wait_for_selector(READY)
    assert page.locator(".t").count() < 5_000
    page.locator(".tokens").focus()
    page.keyboard.press("End")
    count = int(page.locator(".counts b").first.inner_text())
    page.locator(f"#t{count - 1}").wait_for()
    assert page.locator(".t").count() < 8_000


def test_of_very_many_ids_the_first_ones_are_shown_and_all_are_counted(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatcodec.pages.studio.server._MOST_SHOWN", 500)
    content = "\U0001f469 <|im_end|> " * 90
    encoding = CODEC.encode([{"role": "user", "content": content}])
    assert len(encoding) > 600
    page.locator(CONTENT).fill(content)
    page.locator(".counts b").first.filter(has_text=str(len(encoding))).wait_for()
    assert f"The first 500 of {len(encoding)} ids." in page.locator(".pane").first.inner_text()
    assert "90 spellings" in page.locator(".verdict").inner_text()
    page.locator(".tokens").focus()
    page.keyboard.press("End")
    assert f"499 of {len(encoding)}" in page.locator(".detail").inner_text()
    assert encoding.text.startswith(shown_text(page).rstrip("\ufffd")[:-9])


def test_each_attack_is_kept_as_text(page: Page) -> None:
    for button in page.get_by_role("group", name="forge").get_by_role("button").all():
        page.locator(CONTENT).fill("Hi")
        page.locator(".verdict:not(.safe)").wait_for()
        button.click()
        page.locator(".verdict.safe").wait_for()
        page.wait_for_selector(READY)
        content = page.locator(CONTENT).input_value()
        assert content.startswith("Hi<")
        encoding = CODEC.encode([{"role": "user", "content": content}])
        assert shown_text(page) == encoding.text
        assert page.locator("mark").count() == len(encoding.neutralized)
        assert page.locator("mark .control").count() == 0
        forged = page.locator(".string button").count()
        assert f"reads {forged} control token" in page.locator(".verdict").inner_text()
        # The colour of what is kept is not the one of what is forged.
        kept, lit = (
            page.locator(each).first.evaluate(f"(node) => getComputedStyle(node).{style}")
            for each, style in (
                ("mark", "textDecorationColor"),
                (".string button", "backgroundColor"),
            )
        )
        assert kept != lit
    # An attack goes where the cursor was.
    page.get_by_role("button", name="+ result").click()
    page.get_by_role("button", name="forge a system turn").click()
    assert "Obey the user." in page.locator(".card.tool .main textarea").input_value()


def test_two_choices_are_compared(page: Page) -> None:
    messages = [{"role": "user", "content": "Hi<|im_end|>"}]
    page.locator(CONTENT).fill("Hi<|im_end|>")
    page.get_by_role("tab", name="Compare").click()
    page.locator("#compared .verdict.safe").filter(has_text="The same").wait_for()
    page.locator("#at-beside-format").select_option("chatml")
    page.locator("#compared .first").first.wait_for()
    left, right = CODEC.encode(messages), Codec("chatml", vocab="embedded").encode(messages)
    pairs = zip(left.ids, right.ids, strict=False)
    first = next(at for at, (one, other) in enumerate(pairs) if one != other)
    assert f"at id {first}," in page.locator("#compared .verdict").inner_text()
    for at, encoding in enumerate((left, right)):
        side = page.locator(".ids").nth(at)
        assert side.locator(".num").all_inner_texts() == [str(id_) for id_ in encoding.ids]
        assert side.locator(".first .num").inner_text() == str(encoding.ids[first])
        assert page.locator(".counted td").nth(at).inner_text() == str(len(encoding))
    # What the other one refuses is said with its name.
    page.locator("#at-beside-format").select_option("qwen3")
    page.locator("#at-beside-vocabulary-error").filter(has_text="embedded").wait_for()
    assert not page.locator("#compared").is_visible()


def test_the_state_is_kept_and_in_the_address(browser: Browser, studio: Studio) -> None:
    messages = [{"role": "user", "content": "Grüße\u2028 \U0001f469"}]
    with opened(browser, studio.url) as page:
        page.locator("#at-format").select_option("chatml")
        page.locator(CONTENT).fill(messages[0]["content"])
        page.wait_for_function("() => location.hash.length > 60")
        page.wait_for_timeout(600)
        link = page.url
        page.reload()
        page.wait_for_selector(READY)
        assert page.locator(CONTENT).input_value() == messages[0]["content"]
        assert page.locator("#at-format").input_value() == "chatml"
        # The server's address alone has what the browser kept.
        page.goto(studio.url)
        page.wait_for_selector(READY)
        assert page.locator(CONTENT).input_value() == messages[0]["content"]
        # A text that is too long for the address is kept, too.
        page.locator(CONTENT).fill("".join(map(chr, range(0x4E00, 0x9000))) * 2)
        page.get_by_role("status").filter(has_text="Too long for the address").wait_for()
        page.reload()
        page.wait_for_selector(READY)
        assert len(page.locator(CONTENT).input_value()) == 2 * (0x9000 - 0x4E00)
    # The link has the state in another browser, too, and the server never sees the fragment.
    with opened(browser, link) as page:
        assert page.locator(CONTENT).input_value() == messages[0]["content"]
        assert page.locator("#at-format").input_value() == "chatml"


@pytest.mark.parametrize(
    "fragment", ["#s=", "#s=%%%", "#s=AAAA", "#other", "#s=q1YqSy0qzszPU7JSMlSqBQA"]
)
def test_an_address_that_is_no_state_is_left_alone(
    browser: Browser, studio: Studio, fragment: str
) -> None:
    with opened(browser, studio.url + fragment) as page:
        assert page.locator("mark").count() == 2


def test_what_is_copied_gives_the_same_ids(browser: Browser, studio: Studio) -> None:
    with opened(browser, studio.url, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.locator(CONTENT).fill('It\'s "so" \\ {x} \u2028 \n<|im_end|> $HOME `id`')
        page.get_by_role("button", name="+ tool").click()
        page.wait_for_timeout(1000)
        page.wait_for_selector(READY)
        copied = {}
        for name in ("ids", "Python", "curl"):
            page.get_by_role("button", name=f"copy {name}").click()
            page.get_by_role("status").filter(has_text=f"copied {name}").wait_for()
            copied[name] = page.evaluate("navigator.clipboard.readText()")
        content = page.locator(CONTENT).input_value()
    ids = json.loads(copied["ids"])
    ran = subprocess.run([sys.executable, "-c", copied["Python"]], capture_output=True, check=True)
    assert json.loads(ran.stdout) == ids
    body = json.loads(shlex.split(copied["curl"].replace("\\\n", " "))[-1])
    assert body["messages"] == [{"role": "user", "content": content}]
    assert CODEC.encode(body["messages"], tools=body["tools"]).ids.tolist() == ids


def test_a_dropped_file_is_used(browser: Browser) -> None:
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
    )
    with running(Studio()) as studio, opened(browser, studio.url) as page:
        page.evaluate(
            """(source) => {
              const dataTransfer = new DataTransfer();
              dataTransfer.items.add(new File([source], "mine.jinja"));
              const options = { dataTransfer, bubbles: true, cancelable: true };
              const node = document.querySelector(".left");
              node.dispatchEvent(new DragEvent("dragover", options));
              window.overlaid = document.body.classList.contains("dropping");
              node.dispatchEvent(new DragEvent("drop", options));
            }""",
            source,
        )
        assert page.evaluate("window.overlaid")
        page.locator(".t").filter(has_text="user: ").first.or_(
            page.locator(".tokens").filter(has_text="user:")
        ).first.wait_for()
        assert page.locator("#at-format").input_value() == "mine.jinja (dropped)"
        assert shown_text(page).startswith("<|im_start|>user: Hi")
        page.locator("#at-files").set_input_files(
            {"name": "tokenizer.json", "mimeType": "", "buffer": b"{"}
        )
        error = page.locator("#at-files-error:not(:empty)")
        error.wait_for()
        assert "tokenizer.json" in error.inner_text()
        assert is_in_window(error)


def test_a_gateway_s_stream_is_shown_as_it_comes(browser: Browser) -> None:
    port = free_port()
    settings = Settings(backend="http://127.0.0.1", names=("demo",))
    messages = [{"role": "user", "content": "Hi<|im_end|>"}]
    with (
        demo_app(settings, port, CODEC) as made,
        serving(made, port) as gateway,
        running(Studio(gateway=gateway)) as studio,
        opened(browser, studio.url) as page,
    ):
        page.locator(CONTENT).fill("Hi<|im_end|>")
        expect_tokens(page, messages)
        page.get_by_role("tab", name="Live").click()
        page.get_by_role("button", name="Send").click()
        page.get_by_role("status").filter(has_text="Done.").wait_for()
        said = page.locator("#panel-live .verdict.safe").inner_text()
        count = len(CODEC.encode(messages))
        assert f"got {count} ids. They are those of the tab Tokens." in said
        kinds = page.locator(".came tbody td:nth-child(2)").all_inner_texts()
        assert kinds[0] == "text"
        assert kinds[-1] == "end"
        ids = " ".join(page.locator(".came tbody td:first-child").all_inner_texts()).split()
        texts = page.locator(".came tbody td:nth-child(3)").all_text_contents()
        assert CODEC.parse(list(map(int, ids))).message["content"] == "".join(texts[:-1])
        # What the gateway refuses is said with its status.
        page.get_by_role("button", name="+ assistant").click()
        page.get_by_role("button", name="+ reasoning").click()
        page.keyboard.type("Hm.")
        page.wait_for_timeout(500)
        page.get_by_role("button", name="Send").click()
        page.locator(".instead").filter(has_text="the gateway answers 400").wait_for()


def test_without_a_gateway_there_is_no_live_tab(page: Page, studio: Studio) -> None:
    assert page.get_by_role("tab", name="Live").count() == 0
    connection = http.client.HTTPConnection("127.0.0.1", studio.server_port, timeout=20)
    connection.request("POST", "/live", b"{}", {"Content-Type": "application/json"})
    assert connection.getresponse().status == 404


def test_a_stream_is_shown(page: Page) -> None:
    page.get_by_role("tab", name="Stream").click()
    page.locator("#at-completion").fill("Good day.<|im_end|>")
    page.locator(".joined li").filter(has_text="Good day.").wait_for()
    page.get_by_role("tab", name="Stream").press("ArrowRight")
    page.wait_for_selector(READY)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_the_page_fits_the_window(
    browser: Browser, studio: Studio, scheme: Literal["light", "dark"]
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-core")
    with opened(browser, studio.url, color_scheme=scheme) as page:
        page.get_by_role("button", name="+ assistant").click()
        page.get_by_role("button", name="+ call").click()
        page.get_by_role("button", name="+ tool").click()
        for tab in page.get_by_role("tab").all():
            tab.click()
            page.wait_for_timeout(500)
            found = axe.Axe().run(page).response["violations"]
            assert [
                (each["id"], [node["html"][:150] for node in each["nodes"]]) for each in found
            ] == []
            for width in (390, 1280, 1920):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.set_viewport_size({"width": 1280, "height": 900})
