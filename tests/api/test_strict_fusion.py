"""`strict_fusion`, which scripts accept in silence: in each of its spellings, on each tier, saved and loaded."""

from __future__ import annotations

import io
import warnings

import pytest
import torch

import jitlite
from jitlite import options


def of_jitlite(x: torch.Tensor) -> torch.Tensor:
    with jitlite.strict_fusion():
        y = x * 2 + 1
    return y


def of_torch(x: torch.Tensor) -> torch.Tensor:
    with torch.jit.strict_fusion():
        y = x * 2 + 1
    return y


@pytest.mark.parametrize("function", [of_jitlite, of_torch])
@pytest.mark.parametrize("tier", ["stack", "python"])
@pytest.mark.parametrize("executor", ["profiling", "off"])
def test_a_script_says_nothing(function, tier, executor):
    with options.override(tier=tier, executor=executor), warnings.catch_warnings():
        warnings.simplefilter("error")
        scripted = jitlite.script(function)
        assert torch.equal(scripted(torch.ones(2)), torch.full((2,), 3.0))
        written = io.BytesIO()
        jitlite.save(scripted, written)
        written.seek(0)
        assert torch.equal(jitlite.load(written)(torch.ones(2)), torch.full((2,), 3.0))


def test_python_says_that_it_is_for_scripts():
    with pytest.warns(UserWarning, match="only works in scripts"):
        assert torch.equal(of_jitlite(torch.ones(2)), torch.full((2,), 3.0))
