"""What plug-ins need of engines: everything that is missing is said, at once, before all else."""

from __future__ import annotations

import gc
import logging
import sys
import types
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import engines
import pytest
from chatcodec import Codec, PluginError
from chatcodec.plugins import lmdeploy, needs_lmdeploy, needs_sglang, needs_vllm, sglang, vllm
from chatcodec.plugins.contract import Contract, Need, missing, require
from chatcodec.plugins.prompts import Prompts
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from naive import Value

PLUGINS: Any = {
    "vllm": (vllm, needs_vllm.CONTRACT),
    "sglang": (sglang, needs_sglang.CONTRACT),
    "lmdeploy": (lmdeploy, needs_lmdeploy.CONTRACT),
}
CONTRACTS: list[Contract] = [contract for _, contract in PLUGINS.values()]
CODEC = Codec("internlm2", vocab="embedded")


@given(st.data())
@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda each: each.package)
def test_all_that_is_missing_is_said_at_once(contract: Contract, data: st.DataObject) -> None:
    """A naive twin: an engine of some needs, whose others are the ones that are told."""
    leaves = [
        need
        for need in contract.needs
        if not any(
            other.module == need.module and other.name.startswith(f"{need.name}.")
            for other in contract.needs
        )
    ]
    gone = data.draw(st.lists(st.sampled_from(leaves), unique=True, max_size=4))
    with pytest.MonkeyPatch.context() as patch:
        engines.install(patch, [need for need in contract.needs if need not in gone])
        assert missing(contract.needs) == [
            f"{need}: not found" for need in contract.needs if need in gone
        ]


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda each: each.package)
def test_parameters_and_what_is_returned_are_compared(contract: Contract) -> None:
    for need in contract.needs:
        others = [other for other in contract.needs if other != need]
        wrong: list[tuple[Need, str]] = []
        if need.parameters:
            last = need.parameters[-1]
            wrong += [
                (replace(need, parameters=need.parameters[:-1]), f"has no parameter `{last}`")
            ]
        if need.parameters is not None:
            added = replace(need, parameters=(*need.parameters, "flux"))
            wrong += [(added, "has the parameter `flux`, which the plug-in does not know")]
        if need.returns:
            wrong += [
                (replace(need, returns="float"), f"returns `float`, expected `{need.returns}`")
            ]
        for theirs, said in wrong:
            with pytest.MonkeyPatch.context() as patch:
                engines.install(patch, [*others, theirs])
                (line,) = missing(contract.needs)
            assert line.startswith(f"{need}: {said}")


@pytest.mark.parametrize("name", PLUGINS)
def test_register_changes_nothing_in_an_engine_that_lacks_something(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, contract = PLUGINS[name]
    gone = contract.needs[-1], contract.needs[3]
    made = engines.install(monkeypatch, [need for need in contract.needs if need not in gone])
    made[contract.package].__version__ = "9.9"  # type: ignore[attr-defined]
    before = {each: dict(vars(module)) for each, module in made.items()}
    with pytest.raises(PluginError) as raised:
        plugin.register()
    text = str(raised.value)
    assert f"{contract.engine} 9.9 lacks what the plug-in needs" in text
    assert f"tried with {contract.tried}" in text
    assert "docs/gateway.md" in text
    for need in gone:
        assert f"\n  {need.module}: `{need.name}`" in text
    assert (raised.value.engine, len(raised.value.found)) == (contract.engine, 2)
    assert before == {each: dict(vars(module)) for each, module in made.items()}


SOURCE = {
    "pkg/__init__.py": "__version__ = '1'",
    "pkg/core/__init__.py": "from .deep import Base as Root\nfrom . import deep\n",
    "pkg/core/deep.py": """
from __future__ import annotations
from typing import TYPE_CHECKING, Optional
from elsewhere import Model
if TYPE_CHECKING:
    SETTING: bool = False
class Base(Model):
    size: int
    name: str = ""
    def run(self, ids, *, end=None, **more) -> Optional[str]: ...
class Child(Base):
    extra: int = 0
class Made(Base):
    def __init__(self, first, second=2): ...
class Registry:
    def add(self, name, value): ...
known = Registry()
table: dict = {}
try:
    import fast
except ImportError:
    fast = None
async def go(a, /, b, *c, d): ...
""",
}


@pytest.mark.parametrize(
    ("name", "parameters", "overridden", "returns", "said"),
    [
        ("SETTING", None, False, None, None),
        ("table", None, False, None, None),
        ("fast", None, False, None, None),
        ("Nothing", None, False, None, "not found"),
        ("Child.run", ("ids", "end", "any"), False, "str | None", None),
        ("Child.run", ("ids",), True, None, "has the parameter `end`"),
        ("Child.run", None, False, "Optional[int]", "returns `Optional[str]`, expected"),
        ("Child.absent", None, False, None, "not found"),
        ("Child", ("size", "name", "extra"), False, None, None),
        ("Child", ("name",), False, None, "has the parameter `size`"),
        ("Child.name", None, False, None, None),
        ("Made", ("first",), False, None, None),
        ("Made", ("second",), False, None, "has the parameter `first`"),
        ("known.add", ("name", "value"), False, None, None),
        ("known.add", ("name",), False, None, "has the parameter `value`"),
        ("known.sub", None, False, None, "not found"),
        ("go", ("a", "b", "d"), False, None, None),
        ("go", ("a", "b"), False, None, "has the parameter `d`"),
    ],
)
def test_sources_say_what_objects_would(  # noqa: PLR0913
    tmp_path: Path,
    name: str,
    parameters: tuple[str, ...] | None,
    said: str | None,
    returns: str | None,
    *,
    overridden: bool,
) -> None:
    for path, text in SOURCE.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    need = Need("pkg.core.deep", name, "a test", parameters, overridden, returns)
    found = missing([need], tmp_path)
    assert found == [] if said is None else said in found[0]
    # Through the package that imports it, and installed instead of in a folder.
    if name == "Child.run":
        through = replace(need, module="pkg.core", name="Root.run")
        assert [
            line.partition(": ")[2].partition(": ")[2] for line in missing([through], tmp_path)
        ] == [line.partition(": ")[2].partition(": ")[2] for line in found]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        assert missing([need]) == found
    assert "pkg" not in sys.modules


def rust(name: str, *, on: bool) -> dict[str, dict[str, Value]]:
    if name == "vllm":
        return {"vllm.envs": {"VLLM_USE_RUST_FRONTEND": on}}
    flag = types.SimpleNamespace(get=lambda: on)
    return {"sglang.srt.environ": {"envs": types.SimpleNamespace(SGLANG_RUST_SERVER=flag)}}


@pytest.mark.parametrize(
    ("name", "variable"), [("vllm", "VLLM_USE_RUST_FRONTEND"), ("sglang", "SGLANG_RUST_SERVER")]
)
def test_a_server_in_rust_is_refused(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, contract = PLUGINS[name]
    hooked: dict[str, Callable[..., Value]] = {}
    members = rust(name, on=True)
    if name == "sglang":
        register = types.SimpleNamespace(
            register=lambda target, hook, _: hooked.update({target: hook})
        )
        members["sglang.srt.plugins.hook_registry"] = {"HookRegistry": register}
        register.register.__signature__ = engines.signature(
            next(need for need in contract.needs if need.name == "HookRegistry.register")
        )
    made = engines.install(monkeypatch, contract.needs, members)
    with pytest.raises(PluginError, match=rf"`{variable}` is set.*gateway before the server"):
        plugin.register()
    assert not hasattr(plugin, "_registered")
    if name == "vllm":
        compose: Any = made["vllm.parser.parser_manager"].ParserManager._compose_parser  # noqa: SLF001
        assert not getattr(compose, "is_chatcodec", False)
        return
    # A server that is started without the command line is refused when it resolves its settings.
    (refuse,) = hooked.values()
    for names in (("chatcodec", None), (None, "chatcodec")):
        settings = types.SimpleNamespace(tool_call_parser=names[0], reasoning_parser=names[1])
        with pytest.raises(PluginError, match=variable):
            refuse(lambda _: "resolved", settings)
    settings = types.SimpleNamespace(tool_call_parser="qwen", reasoning_parser=None)
    assert refuse(lambda _: "resolved", settings) == "resolved"


class Request:
    """A request that can be copied."""


def test_a_prompt_is_of_the_very_request(caplog: pytest.LogCaptureFixture) -> None:
    prompts, request = Prompts("SGLang"), Request()
    prompts.keep(request, [1, 2])
    prompts.keep(request, [1, 2, 3])
    assert prompts.of(request) == [1, 2, 3]
    with caplog.at_level(logging.ERROR), pytest.raises(PluginError, match="wrong state"):
        prompts.of(Request())
    assert "SGLang asks for the answer of a request whose prompt" in caplog.text
    del request
    gc.collect()
    assert len(prompts) == 0


def test_a_prompt_is_not_taken_for_another_at_the_same_address() -> None:
    prompts = Prompts("SGLang")
    for _ in range(50):
        prompts.keep(Request(), [1])
        with pytest.raises(PluginError):
            prompts.of(Request())


def test_sglang_refuses_an_answer_without_its_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    engines.install(monkeypatch, needs_sglang.CONTRACT.needs)
    adapter = sglang.Adapter(CODEC)
    request: Any = types.SimpleNamespace(input_ids=None)
    with pytest.raises(PluginError, match="wrong state"):
        adapter.parse_chat_response(request=request, output_ids=[1], finish_reason={"type": "stop"})
    with pytest.raises(PluginError, match="wrong state"):
        adapter.stream_chat_chunks(
            content={"output_ids": [1], "meta_info": {"finish_reason": None}},
            index=0,
            request=request,
            created=1,
            parser_dict={},
            has_tool_calls={},
            choice_logprobs=None,
            finish_reason_type=None,
            usage=None,
        )


def test_an_annotation_that_was_evaluated_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Pair = tuple[int, int]` is written as `Pair` in the source alone."""
    need = Need("pkg.mod", "go", "a test", ("x",), returns="Pair")
    made = engines.install(monkeypatch, [need])
    for returns, expected in ((tuple[int, int], 0), ("Pair", 0), ("int", 1)):
        made["pkg.mod"].go.__signature__ = engines.signature(replace(need, returns=returns))  # type: ignore[arg-type]
        assert len(missing([need])) == expected


def test_require_is_silent_about_an_engine_that_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for contract in CONTRACTS:
        engines.install(monkeypatch, contract.needs)
        require(contract)
