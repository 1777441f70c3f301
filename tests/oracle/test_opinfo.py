"""Torch's own samples of its operators give what they give in eager, wherever torch.jit handles them."""

from __future__ import annotations

import types

import pytest
import torch

import jitlite

SLICES = 12
"""Parts of the list of operators, so that several workers share it."""

LEAST_HANDLED = {1: 2000, 5: 9000, 40: 25_000}
"""Calls per sample count that torch.jit handled when this was written, with room: a sweep of nothing proves nothing."""


@pytest.fixture(scope="module")
def opinfo() -> types.ModuleType:
    """The sweep; its import takes seconds, so that only these tests should pay for it."""
    from . import opinfo

    return opinfo


def sweep_slice(opinfo, number, samples, dtypes=None):
    total = opinfo.Row("in all")
    with opinfo.reproducible():
        for op in opinfo.op_db[number::SLICES]:
            total.add(opinfo.sweep(op, samples, dtypes or opinfo.DTYPES))
    assert total.failures == []
    assert total.passed == total.handled >= LEAST_HANDLED[samples] / SLICES / 2


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SLICES))
def test_one_sample_of_every_operator(opinfo, number):
    sweep_slice(opinfo, number, 1, [torch.float32])


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SLICES))
def test_five_samples_of_every_operator(opinfo, number):
    sweep_slice(opinfo, number, 5)


@pytest.mark.sweep
@pytest.mark.parametrize("number", range(SLICES))
def test_forty_samples_of_every_operator(opinfo, number):
    sweep_slice(opinfo, number, 40)


def operator(opinfo, name):
    return next(op for op in opinfo.op_db if op.name == name)


def test_the_sweep_sees_wrong_results_and_refusals(opinfo):
    def doubled(python):
        return lambda *args: python(*args) * 2

    def refused(python):
        raise jitlite.CompileError("no")

    op = operator(opinfo, "sigmoid")
    for script in (doubled, refused):
        row = opinfo.sweep(op, 1, script=script)
        assert row.handled >= 4 and row.passed <= 1  # an error of eager's is an error of both
        assert len(row.failures) == row.handled - row.passed


def test_the_sweep_sees_wrong_gradients(opinfo):
    def detached(python):
        def call(x):
            return python(x) + (x.detach() - x)

        return call

    row = opinfo.sweep(operator(opinfo, "sigmoid"), 1, [torch.float32], script=detached)
    assert row.handled >= 4 and row.passed == 0


def test_errors_are_compared(opinfo):
    def forgiving(python):
        def call(*args):
            try:
                return jitlite.script(python)(*args)
            except RuntimeError:
                return args[0]

        return call

    op = operator(opinfo, "diag")
    assert opinfo.sweep(op, 5).failures == []
    row = opinfo.sweep(op, 5, script=forgiving)
    assert row.failures and all("expected RuntimeError" in text for text in row.failures)


def test_calls_are_written_with_literals_and_with_variables(opinfo):
    texts = {call.variant: call.source for call in opinfo.calls(operator(opinfo, "narrow"), torch.float32, 1)}
    assert set(texts) == {"function", "function of variables", "method"}
    assert texts["method"].startswith("def call(i0):\n    return i0.narrow(")
    assert texts["function of variables"].startswith("def call(i0, i1: int, i2: int, i3: int):\n")
