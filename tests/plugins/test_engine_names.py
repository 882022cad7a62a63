"""What plug-ins need, in the sources of the engines' packages: `make test-engine-names`.

Nothing of an engine is installed or imported, except its own reading of the environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chatcodec.plugins import needs_lmdeploy, needs_sglang, needs_vllm
from chatcodec.plugins.contract import Contract, missing

if TYPE_CHECKING:
    from naive import Value

ROOT = os.environ.get("CHATCODEC_ENGINES")
if ROOT is None:
    pytest.skip("`make test-engine-names` runs these", allow_module_level=True)

CONTRACTS = {
    contract.package: contract
    for contract in (needs_lmdeploy.CONTRACT, needs_sglang.CONTRACT, needs_vllm.CONTRACT)
}
FOLDERS = sorted(folder for folder in Path(ROOT or "").iterdir() if folder.is_dir())


def contract_of(folder: Path) -> Contract:
    return CONTRACTS[folder.name.partition("-")[0]]


def newest(package: str) -> Path:
    """The folder of the version that a plug-in was tried with."""
    return Path(ROOT or "", f"{package}-{CONTRACTS[package].tried}")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_engine_has_what_its_plug_in_needs(folder: Path) -> None:
    assert missing(contract_of(folder).needs, folder) == []


@pytest.mark.parametrize("package", CONTRACTS)
def test_each_need_would_be_missed(package: str) -> None:
    for need in CONTRACTS[package].needs:
        absent = replace(need, name=f"{need.name}_absent")
        assert missing([absent], newest(package)) == [f"{absent}: not found"]
        if need.returns is not None:
            (line,) = missing([replace(need, returns="complex")], newest(package))
            assert "expected `complex`" in line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tokenizer-mode", "chatcodec"], "unknown renderer `chatcodec`"),
        (["--tool-call-parser", "chatcodec"], "tool parser `chatcodec` is not registered"),
        (["--reasoning-parser", "chatcodec"], "reasoning parser `chatcodec` is not registered"),
    ],
)
@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64",
    reason="a program for Linux on x86-64",
)
def test_vllms_rust_frontend_refuses_the_names(
    tmp_path: Path, options: list[str], said: str
) -> None:
    tmp_path.joinpath("config.json").write_text(json.dumps({"model_type": "qwen3"}))
    tmp_path.joinpath("tokenizer.json").write_text("{}")
    program = newest("vllm") / "vllm" / "vllm-rs"
    ran = subprocess.run(
        [program, "render", tmp_path, "--port", "0", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert ran.returncode != 0
    assert said in ran.stdout + ran.stderr


REGISTER = """
import importlib, sys, types
package, folder = sys.argv[1:]
for name in (package, f"{package}.srt"):
    module = types.ModuleType(name)
    module.__path__ = [f"{folder}/{name.replace('.', '/')}"]
    sys.modules[name] = module
importlib.import_module(f"chatcodec.plugins.{package}").register()
"""


@pytest.mark.parametrize(
    ("package", "variable"),
    [("vllm", "VLLM_USE_RUST_FRONTEND"), ("sglang", "SGLANG_RUST_SERVER")],
)
def test_register_refuses_beside_a_server_in_rust(package: str, variable: str) -> None:
    """The engine's own module reads the variable; all else that needs torch is not reached."""

    def said(**environment: Value) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", REGISTER, package, newest(package)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "VLLM_RUST_FRONTEND_PATH": "/none", **environment},
        )
        return ran.stderr

    refusal = f"PluginError: chatcodec's plug-in: `{variable}` is set"
    assert refusal in said(**{variable: "1"})
    assert "PluginError" not in said(**{variable: "0"})
    assert "PluginError" not in said()
