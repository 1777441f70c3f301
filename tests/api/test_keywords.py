"""Keywords and names that jitlite does not have are refused with those that were perhaps meant."""

from __future__ import annotations

import inspect
import subprocess
import sys
from types import FunctionType

import pytest
import torch

import jitlite

TAKES_THOSE_OF_OTHERS = ("bisect", "debug", "debug_with", "fork", "report")
"""Functions whose keywords go to a function that they call."""
OF_SCRIPTS = ("annotate", "isinstance", "wait")
"""Functions that are written in scripts, where the compiler says what was meant."""


def functions():
    for name in dir(jitlite):
        found = getattr(jitlite, name)
        is_own = isinstance(found, FunctionType) and found.__module__.startswith("jitlite.") and name[0] != "_"
        if (
            is_own
            and not found.__module__.startswith("jitlite.base.on_demand")
            and name not in (*TAKES_THOSE_OF_OTHERS, *OF_SCRIPTS)
        ):
            yield name


def parameters(name):
    """Parameters with a name long enough that one letter more does not make another name of it."""
    found = inspect.signature(getattr(jitlite, name)).parameters.values()
    return [p for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and len(p.name) > 4]


@pytest.mark.parametrize(
    ("name", "parameter"), [(n, p.name) for n in functions() for p in parameters(n) if p.name[0] != "_"]
)
def test_a_keyword_with_a_slip_names_the_one_that_was_meant(name, parameter):
    function = getattr(jitlite, name)
    slip = parameter[:3] + parameter[2:]
    required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    positional = [None for p in required if p.kind is p.POSITIONAL_OR_KEYWORD]
    with pytest.raises(TypeError) as raised:
        function(*positional, **{slip: None})
    said = str(raised.value)
    assert said.startswith(f"{name}() got an unexpected keyword argument '{slip}'")
    assert f"'{parameter}'" in said.partition("; did you mean ")[2]


def test_the_range_of_functions_is_wide():
    assert {"script", "trace", "load", "save", "optimize", "freeze", "to_onnx"} <= set(functions())


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_a_keyword_that_is_like_none_is_named_alone():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'zzz'$"):
        jitlite.script(scaled, zzz=1)


def test_names_of_the_caller_are_found_in_the_function_that_calls_script():
    def inner(x: torch.Tensor) -> torch.Tensor:
        return scaled(x)

    assert jitlite.script(inner)(torch.ones(1)) == 2


def test_python_suggests_names_of_the_package():
    program = "import jitlite; jitlite.scirpt"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "Did you mean: 'script'?" in ended.stderr
