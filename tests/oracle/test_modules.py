"""Torch's own modules give what they give in eager, with gradients, wherever torch.jit handles them."""

from __future__ import annotations

import types
import warnings

import pytest
import torch

import jitlite

SLICES = 8
"""Parts of the list of modules, so that several workers share it."""

LEAST_HANDLED = {1: 105, 6: 450, None: 780}
"""Runs per number of inputs that torch.jit handled when this was written, with room: nothing tried proves nothing."""


REFUSED = {
    f"nn.{name}"
    for name in (
        "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "ConstantPad1d",
        "ConstantPad2d", "ConstantPad3d", "CTCLoss", "GaussianNLLLoss", "LinearCrossEntropyLoss", "Transformer",
        "TransformerEncoder", "TransformerEncoderLayer",
    )
}  # fmt: skip
"""Modules of which both torch.jit and jitlite refuse some uses."""


@pytest.fixture(scope="module")
def modules_sweep() -> types.ModuleType:
    """The sweep; its import takes seconds, so that only these tests should pay for it."""
    from . import modules_sweep

    return modules_sweep


def sweep_slice(modules_sweep, number, most):
    total = modules_sweep.Row("in all")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in modules_sweep.module_db[number::SLICES]:
            total.add(modules_sweep.sweep(info, most))
    assert total.failures == []
    assert {text.split()[0] for text in total.missed} <= REFUSED
    assert total.passed >= total.handled >= LEAST_HANDLED[most] / SLICES / 2


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SLICES))
def test_one_input_of_every_module(modules_sweep, number):
    sweep_slice(modules_sweep, number, 1)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SLICES))
def test_six_inputs_of_every_module(modules_sweep, number):
    sweep_slice(modules_sweep, number, 6)


@pytest.mark.sweep
@pytest.mark.parametrize("number", range(SLICES))
def test_all_inputs_of_every_module(modules_sweep, number):
    sweep_slice(modules_sweep, number, None)


def entry(modules_sweep, cls):
    return next(info for info in modules_sweep.module_db if info.module_cls is cls)


class Doubled(torch.nn.Module):
    """Gives twice what a module gives."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args):
        return self.module(*args) * 2


class Detached(Doubled):
    """Gives what a module gives, without its gradients."""

    def forward(self, x):
        return self.module(x.detach()) + 0 * x


def refused(module):
    raise jitlite.CompileError("no")


@pytest.mark.parametrize("script", [Doubled, Detached, refused])
def test_the_sweep_sees_what_is_wrong(modules_sweep, script):
    row = modules_sweep.sweep(entry(modules_sweep, torch.nn.Linear), script=script)
    assert row.handled == row.runs == len(row.failures) >= 2
    assert row.passed == 0


def test_both_modes_are_run(modules_sweep):
    texts = [case.text for case in modules_sweep.cases(entry(modules_sweep, torch.nn.BatchNorm1d))]
    assert {text.partition("(")[0] for text in texts} == {"training", "eval"}
