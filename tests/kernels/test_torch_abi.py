"""What kernels know of torch's layout: it is tried, in any thread, and may be missing."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from jitlite.kernels import torch_abi

pytestmark = pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not())


@pytest.fixture
def anew():
    """Nothing has been tried yet."""

    def forget():
        torch_abi._abi.cache_clear()
        torch_abi._found.cache_clear()

    forget()
    yield forget
    forget()


class Refusing(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} was seen")


@pytest.mark.parametrize(
    "mode",
    [
        torch.no_grad,
        torch.inference_mode,
        Refusing,
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        lambda: torch.device("meta"),
        torch._subclasses.FakeTensorMode,
        lambda: torch._C._AutoDispatchBelowAutograd(),
    ],
    ids=["no_grad", "inference", "refusing", "autocast", "device", "fake", "below"],
)
def test_modes_do_not_disturb_trials(mode, anew):
    usual = torch_abi.torch_abi()
    anew()
    with mode():
        found = torch_abi.torch_abi()
    assert torch_abi.why_not() == ""
    # the index of what is local to a thread is made anew each time
    assert {**vars(found), "thread_keys": 0} == {**vars(usual), "thread_keys": 0}


def test_transforms_do_not_disturb_trials(anew):
    found = []
    torch.func.vmap(lambda x: (found.append(torch_abi.torch_abi()), x)[1])(torch.ones(2))
    assert found[0] is not None


def test_threads_have_their_own_keys():
    abi, words = torch_abi.torch_abi(), []
    place = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(torch_abi.thread_local())

    def look():
        at = place(abi.thread_keys)
        words.append((torch_abi._word(at), torch_abi._word(at + 8)))

    look()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        look()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    with torch.inference_mode():
        look()
    assert words[0] == words[2] == abi.plain_threads[0] != words[1]
    assert words[3] == abi.plain_threads[1] != words[0]


FAULTS = {
    "handle": ("_handle_offset", lambda: 1 / 0, "ZeroDivisionError"),
    "keys": ("_KEYS_END", 64, "dispatch keys where"),
    "function": ("WRAP", "_Z16THPVariable_WrapNothing", "torch exports no _Z16THPVariable_WrapNothing"),
    "getter": ("GET_SIZES", torch_abi.GET_STRIDES, "aoti_torch_get_strides"),
    "dtype": ("GET_DTYPE", "aoti_torch_get_layout", "aoti_torch_get_layout"),
    "gradients": ("GRAD_MODE", "_ZN3c1013InferenceMode10is_enabledEv", "instead of True"),
    "derivatives": ("_DERIVATIVES_END", 24, "autograd keeps"),
    "modes": ("FUNCTION_MODES", "_ZN3c108GradMode10is_enabledEv", "instead of (0, 1)"),
    "keys of threads": ("_THREAD_KEYS", "_ZN3c104impl26raw_nothing", "torch exports no _ZN3c104impl26raw_nothing"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_not_as_expected(fault, anew, monkeypatch):
    name, value, said = FAULTS[fault]
    monkeypatch.setattr(torch_abi, name, value)
    assert torch_abi.torch_abi() is None and said in torch_abi.why_not()
    (what, works, why), *_ = torch_abi.status()
    assert what == "tensors in machine code" and not works and said in why


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        ("sys.platform", "win32", "the system is win32"),
        ("platform.machine", lambda: "aarch64", "the machine is aarch64"),
        ("sysconfig.get_config_var", lambda name: 1, "Python has no global lock"),
    ],
)
def test_other_machines(where, value, said, anew, monkeypatch):
    monkeypatch.setattr(f"jitlite.kernels.torch_abi.{where}", value)
    assert torch_abi.torch_abi() is None and torch_abi.why_not() == said
    assert torch_abi.symbol(torch_abi.GET_DATA) is None
    assert {works for _, works, _ in torch_abi.status()} == {False}


def test_symbols(anew, monkeypatch):
    assert torch_abi.symbol("sgemm_") and torch_abi.symbol("dgemm_")
    assert torch_abi.symbol("no_such_function") is None
    assert torch_abi.symbol("dgemm_") != torch_abi.symbol("sgemm_")
    monkeypatch.setattr(torch_abi, "_PRODUCTS", {"sgemm_": ctypes.c_double, "dgemm_": ctypes.c_float})
    torch_abi._found.cache_clear()
    assert torch_abi.symbol("sgemm_") is None, "its trial fails"


@pytest.mark.parametrize(
    ("capability", "lanes"), [("AVX512", {"f16", "d8", "f8", "d4"}), ("AVX2", {"f8", "d4"}), ("DEFAULT", set())]
)
def test_vector_functions(capability, lanes, anew, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    there = {kind for kind in ("f16", "d8", "f8", "d4") if torch_abi.symbol(torch_abi.vector_function("exp", kind))}
    assert there == lanes


def test_nothing_is_tried_at_import():
    code = (
        "import sys, threading; before = threading.active_count(); from jitlite.kernels import border, torch_abi; "
        "assert torch_abi._abi.cache_info().misses == torch_abi._found.cache_info().misses == 0; "
        "torch_abi.status(); assert 'llvmlite' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
