"""What an option cannot be is refused, and nothing is silently taken for something else."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import nn

import jitlite
from jitlite.api.torch_compile import Options as BackendOptions
from jitlite.base import options
from jitlite.passes.casting_policy import CastingOptions

SWITCHES = fields(options.Options)


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda s: s.name)
def test_every_switch_refuses_what_it_cannot_be(switch: Any) -> None:
    for value in ("nonsense", 1.5, [], -1, object()):
        with pytest.raises(ValueError, match=switch.name), options.override(**{switch.name: value}):
            pass
        with pytest.raises(ValueError, match=switch.name):
            options.set_globally(**{switch.name: value})
    if not isinstance(switch.default, bool):
        with pytest.raises(ValueError, match=switch.name), options.override(**{switch.name: True}):
            pass
    variable = switch.metadata["variable"]
    for text in ("nonsense", "1.5", "-1"):
        with pytest.raises(ValueError, match=variable):
            options.Options.from_environment({variable: text})
    assert replace(options.Options(), **{switch.name: switch.default}) == options.Options()


def module() -> Any:
    return jitlite.script(nn.Sequential(nn.Linear(2, 2)).eval())


REFUSED: dict[str, Any] = {
    "half_casts": lambda: CastingOptions(half_casts="nonsense"),  # type: ignore[arg-type]
    "statistics": lambda: CastingOptions(running_statistics_always_float="yes"),  # type: ignore[arg-type]
    "policy": lambda: CastingOptions(policy="float32"),  # type: ignore[arg-type]
    "backend": lambda: BackendOptions.of({"partitioner": "nonsense"}),
    "fuser": lambda: jitlite.fuser("nonsense").__enter__(),
    "strategy": lambda: jitlite.set_fusion_strategy([("SOMETIMES", 1)]),  # type: ignore[list-item]
    "preserved": lambda: jitlite.freeze(module(), ["nonsense"]),
    "methods": lambda: jitlite.optimize_for_inference(jitlite.freeze(module()), ["nonsense"]),
    "keep": lambda: module().to_fx(keep=["nonsense"]),
    "keep as text": lambda: module().to_fx(keep="0"),
    "method": lambda: module().to_fx(method="nonsense"),
    "level": lambda: jitlite.trace(nn.Linear(2, 2), torch.ones(1, 2), level="nonsense"),
    "pass": lambda: jitlite.passes.run(module().forward.graph, "nonsense"),
    "allow": lambda: jitlite.load("nowhere.pt", allow="torchvision"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_parameter_cannot_be(name: str) -> None:
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        REFUSED[name]()


def test_names_that_are_there_are_taken() -> None:
    kept = module().to_fx(keep=["0"])
    assert [n.op for n in kept.graph.nodes].count("call_module") == 1
    CastingOptions("upcast_to_float", running_statistics_always_float=True)
    with jitlite.fuser("fuser1"):
        assert jitlite.optimize_for_inference(jitlite.freeze(module()), ["forward"]) is not None
