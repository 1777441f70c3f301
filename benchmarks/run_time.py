"""How fast compiled functions run, beside eager Python and torch.jit.script.

    python benchmarks/run_time.py [--tensors | --gradients] [--threads 2] [--only collatz,cell] [--rounds 15]
                                  [--json out.json]

A ratio above 1 says that jitlite is that many times faster. Before anything is timed, jitlite's functions have been
called until what is hot in them has been compiled.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import torch
from tensor_programs import tensor_workloads, training_workloads
from timing import calls_for, interleaved, ratio, shown
from workloads import run_workloads

import jitlite
from jitlite.debug.equality import difference


def with_gradients(run: Callable[..., Any]) -> Callable[..., Any]:
    """Runs the forward pass, and the backward pass of the sum of its results; gives the gradients."""

    def both(*args: Any) -> Any:
        found = run(*args)
        results = found if isinstance(found, tuple) else (found,)
        wanted = [x for x in args if isinstance(x, torch.Tensor) and x.requires_grad]
        return torch.autograd.grad([r.sum() for r in results], wanted)

    return both


def measure(function: Callable[..., Any], args: Tuple[Any, ...], rounds: int, gradients: bool) -> Dict[str, float]:
    """Median seconds a call of each contestant, and jitlite's ratios to the others."""
    contestants = {"eager": function, "torch.jit": torch.jit.script(function), "jitlite": jitlite.script(function)}
    if gradients:
        contestants = {name: with_gradients(run) for name, run in contestants.items()}
    expected = contestants["eager"](*args)
    _warm(lambda: contestants["jitlite"](*args))
    got = contestants["jitlite"](*args)
    if difference(expected, got):  # sums may be in another order
        is_half = isinstance(got, torch.Tensor) and got.dtype in (torch.bfloat16, torch.float16)
        torch.testing.assert_close(got, expected, rtol=2e-2 if is_half else 1e-3, atol=5e-2 if is_half else 1e-4)

    def repeated(run: Callable[..., Any]) -> Tuple[Callable[[], None], int]:
        calls = calls_for(lambda: run(*args), 0.02)

        def loop() -> None:
            for _ in range(calls):
                run(*args)

        return loop, calls

    loops = {name: repeated(run) for name, run in contestants.items()}
    seconds = interleaved({name: loop for name, (loop, _) in loops.items()}, rounds)
    per_call = {name: [t / loops[name][1] for t in times] for name, times in seconds.items()}
    found = {name: statistics.median(times) for name, times in per_call.items()}
    found["to torch.jit"] = ratio(per_call["jitlite"], per_call["torch.jit"])
    found["to eager"] = ratio(per_call["jitlite"], per_call["eager"])
    return found


def _warm(run: Callable[[], Any], seconds: float = 1.0) -> None:
    """Call until everything hot has been compiled, and compared with Python."""
    for _ in range(2):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            run()
        jitlite.wait_for_compilation()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names of workloads, joined by commas")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--tensors", action="store_true", help="programs over tensors instead")
    parser.add_argument("--gradients", action="store_true", help="programs over tensors, forward and backward")
    parser.add_argument("--threads", type=int, default=1, help="how many threads torch has")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    workloads = run_workloads()
    if options.tensors or options.gradients:
        workloads = training_workloads() if options.gradients else tensor_workloads()
    names = options.only.split(",") if options.only else list(workloads)
    figures = {}
    print(f"{'':18} {'eager':>10} {'torch.jit':>10} {'jitlite':>10} {'to torch.jit':>13} {'to eager':>9}")
    for name in names:
        found = figures[name] = measure(*workloads[name], options.rounds, options.gradients)
        times = " ".join(f"{shown(found[who]):>10}" for who in ("eager", "torch.jit", "jitlite"))
        print(f"{name:18} {times} {found['to torch.jit']:12.2f}x {found['to eager']:8.2f}x")
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
