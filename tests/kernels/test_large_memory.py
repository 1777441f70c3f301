"""Large results and large pieces in between: they come in large pages, and go back to the system."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
import torch

import jitlite
from jitlite.base import options
from jitlite.kernels import large_memory, torch_abi

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())

BYTES = large_memory.LARGE + 8 * 1024 * 1024


def flags_of(address: int) -> list[str]:
    """What the system says of the mapping of an address."""
    with open("/proc/self/smaps") as file:
        inside = False
        for line in file:
            head = line.split(" ", 1)[0]
            if "-" in head and not head.endswith(":"):
                start, end = (int(part, 16) for part in head.split("-"))
                inside = start <= address < end
            elif inside and line.startswith("VmFlags:"):
                return line.split()[1:]
    return []


def resident() -> int:
    """Bytes of memory that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * 2 + 1) * y


def normed(x: torch.Tensor) -> torch.Tensor:
    z = x * 2 + 1
    return torch.cumsum(z, 0).sum(0) + z.flip(0).amax(0)


@pytest.mark.skipif(not os.path.exists("/sys/kernel/mm/transparent_hugepage/enabled"), reason="no large pages")
def test_large_results_are_in_large_pages():
    x = torch.ones(BYTES // 4)
    with torch.no_grad(), options.override(native="now"):
        scripted = jitlite.script(scaled)
        large, small = scripted(x, x), scripted(x[:100], x[:100])
        middle = large.data_ptr() + BYTES // 2
        assert "hg" in flags_of(middle)
        assert "hg" not in flags_of(small.data_ptr())
        assert torch.equal(large, scaled(x, x))


@pytest.mark.parametrize("fn", [scaled, normed], ids=["results", "in between"])
def test_memory_goes_back(fn):
    """What is dropped is not kept, however often a kernel is called."""
    given = [torch.ones(BYTES // 4)] * (2 if fn is scaled else 1)
    with torch.no_grad(), options.override(native="now"):
        scripted = jitlite.script(fn)
        scripted(*(t[:100] for t in given))
        before = resident()
        for _ in range(3):
            scripted(*given)
        assert resident() < before + 16 * 1024 * 1024


def test_a_system_without_large_pages(monkeypatch):
    """Nothing is asked of it, and all is as it was."""
    monkeypatch.setattr(large_memory, "advise_function", lambda: "")
    x = torch.ones(BYTES // 4)
    with torch.no_grad(), options.override(native="now"):
        kernels = jitlite.script(scaled).kernels.compile(x, x)
        assert "@advise(ptr %r" not in kernels[0].llvm
        assert torch.equal(jitlite.script(scaled)(x, x), scaled(x, x))


HOLDS = """\
import ctypes, sys
from jitlite.kernels.large_memory import hold_freed_memory
from jitlite.native.capi import address

allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(address("malloc"))
free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address("free"))


def is_kept() -> bool:
    "Is there a page at a place that was freed?"
    place = allocate(8 << 20)
    ctypes.memset(place, 1, 8 << 20)
    free(place)
    spans = (line.split()[0].split("-") for line in open("/proc/self/maps"))
    return any(int(first, 16) <= place < int(end, 16) for first, end in spans)


before = is_kept()
hold_freed_memory()
print(before, is_kept())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another library of C")
@pytest.mark.parametrize("limit, kept", [(None, "False True"), ("131072", "False False")])
def test_memory_that_is_freed_is_kept_for_the_next_call(limit, kept):
    env = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    if limit is not None:
        env["MALLOC_TRIM_THRESHOLD_"] = limit
    done = subprocess.run([sys.executable, "-c", HOLDS], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == kept
