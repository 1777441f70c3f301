"""`out=(a, b)` of operators with several results: in scripts on each tier, in archives, in traces at each level."""

from __future__ import annotations

import io
import linecache
import warnings
from typing import Any

import pytest
import torch

import jitlite

CALLS = {
    "max": "torch.max(x, 1, out=(a, b))",
    "min": "torch.min(x, 1, keepdim=True, out=(a, b))",
    "sort": "torch.sort(x, out=(a, b))",
    "sort, stable": "torch.sort(x, stable=True, dim=0, descending=True, out=(a, b))",
    "topk": "torch.topk(x, 2, out=(a, b))",
    "mode": "torch.mode(x, out=(a, b))",
    "median": "torch.median(x, 1, out=(a, b))",
    "nanmedian": "torch.nanmedian(x, 1, out=(a, b))",
    "kthvalue": "torch.kthvalue(x, 1, out=(a, b))",
    "cummax": "torch.cummax(x, 1, out=(a, b))",
    "cummin": "torch.cummin(x, 0, out=(a, b))",
    "frexp": "torch.frexp(x, out=(a, c))",
    "aminmax": "torch.aminmax(x, dim=1, out=(a, d))",
    "qr": "torch.linalg.qr(x, out=(a, d))",
    "slogdet": "torch.linalg.slogdet(x, out=(a, d))",
    "eigh": "torch.linalg.eigh(x + x.t(), out=(a, d))",
    "svd": "torch.svd(x, out=(a, d, e))",
    "linalg.svd": "torch.linalg.svd(x, out=(a, d, e))",
    "lu": "torch.linalg.lu(x, out=(a, d, e))",
}
RESULTS = {"outs": "a, b, c, d, e", "results": "r[0], r[1] * 2"}
LEVELS: dict[str, dict[str, Any]] = {
    "python": {}, "dispatcher": {"level": "dispatcher"}, "whole": {"level": "dispatcher", "keep": "all"},
    "functional": {"level": "dispatcher", "functional": True},
}  # fmt: skip

MOVED = ("svd", "slogdet")
"""torch makes these of other operators, and has the tensors that are given hold the memory of others."""


def function_of(name: str, result: str) -> Any:
    lines = f"def f(x: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor):\n    r = {CALLS[name]}\n"
    lines += f"    return {RESULTS[result]}\n"
    file = f"<out {name} {result}>"
    linecache.cache[file] = (len(lines), None, lines.splitlines(keepends=True), file)
    names: dict[str, Any] = {"torch": torch, "Tensor": torch.Tensor}
    exec(compile(lines, file, "exec", dont_inherit=True), names)
    return names["f"]


def arguments(f: Any, *, sized: bool) -> tuple[Any, ...]:
    """The arguments; the tensors to write are empty, or have the sizes that they are going to have."""
    x = torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
    dtypes = (torch.float, torch.long, torch.int, torch.float, torch.float)
    outs = [torch.empty(0, dtype=dtype) for dtype in dtypes]
    if sized:
        written = [torch.empty(0, dtype=dtype) for dtype in dtypes]
        f(x, *written)
        outs = [torch.empty_like(w) for w in written]
    return (x, *outs)


def same(run: Any, f: Any, *, sized: bool = True) -> None:
    ours, theirs = arguments(f, sized=sized), arguments(f, sized=sized)
    found, expected = run(*ours), f(*theirs)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("result", list(RESULTS))
@pytest.mark.parametrize("name", list(CALLS))
def test_scripts_and_their_archives(name, result):
    f = function_of(name, result)
    for tier in ("python", "stack"):
        with jitlite.options.override(tier=tier):
            script = jitlite.script(f)
            same(script, f)
            same(script, f, sized=False)
    file = io.BytesIO()
    jitlite.save(script, file)
    file.seek(0)
    same(jitlite.load(file), f)


@pytest.mark.parametrize("options", list(LEVELS))
@pytest.mark.parametrize("result", list(RESULTS))
@pytest.mark.parametrize("name", list(CALLS))
def test_traces(name, result, options):
    f = function_of(name, result)
    if options == "functional" and name in MOVED:
        with pytest.raises(jitlite.CompileError, match=r"(?s)no functional form.*out=\("):
            jitlite.trace(f, arguments(f, sized=True), check_trace=False, **LEVELS[options])
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = jitlite.trace(f, arguments(f, sized=True), check_trace=False, **LEVELS[options])
    same(traced, f)


def test_a_tensor_that_gets_another_size_has_no_functional_form():
    f = function_of("max", "outs")
    with pytest.raises(jitlite.CompileError, match="no functional form"):
        jitlite.trace(f, arguments(f, sized=False), level="dispatcher", functional=True)
