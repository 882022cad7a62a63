"""Memory: what loading a vocabulary leaves in use."""

from __future__ import annotations

import platform
import subprocess
import sys

import data
import pytest

GROWN = """
import resource, sys
from chatcodec import Vocab

def resident():
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()

before = resident()
vocab = Vocab.load(sys.argv[1])
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only there memory is given back")
@pytest.mark.parametrize(("name", "most"), [("internlm2", 25e6), ("qwen2", 46e6)])
def test_what_loading_needs_no_more_is_given_back(name: str, most: float) -> None:
    path = str(data.find(data.FILES[name]))
    # In a process of its own: what others have freed would be used again.
    ran = subprocess.run(
        [sys.executable, "-c", GROWN, path], capture_output=True, text=True, check=True
    )
    assert int(ran.stdout) < most
