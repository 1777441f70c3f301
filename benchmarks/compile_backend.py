"""`torch.compile` with backend="jitlite" beside "aot_eager" (time of a call) and "inductor" (time of compiling).

    python benchmarks/compile_backend.py [--only tiny,block] [--rounds 15] [--latency] [--json out.json]

All three get the same graphs from Dynamo and AOTAutograd. For calls the ratio to aot_eager counts: both run eager's
kernels, so it is overhead that is compared; below 1 jitlite takes less time. For compiling, `own` is what a backend
does itself, the others are the whole first call with what Dynamo and AOTAutograd do. Caches of inductor are off.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch
import torch._dynamo
from timing import calls_for, interleaved, ratio, shown
from torch import Tensor, nn
from torch.nn import functional as F

from jitlite.api.torch_compile import backend, last_report

Workload = Tuple[Callable[..., Any], Tuple[Any, ...]]


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        b, t, w = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(b, t, w))
        return x + self.mlp(self.second(x))


def tiny(x: Tensor) -> Tensor:
    return x + 1


def views(x: Tensor) -> Tensor:
    """Nothing but views, one after another."""
    for _ in range(10):
        x = x.view(2, -1).t().unsqueeze(0).squeeze(0).t().reshape(-1)
    return x


def chain(x: Tensor) -> Tensor:
    for _ in range(30):
        x = (x * 2 - 1).sin()
    return x


def cell(x: Tensor, h: Tensor, w: Tensor, u: Tensor) -> Tensor:
    i, f, g, o = (x @ w + h @ u).chunk(4, 1)
    return o.sigmoid() * (f.sigmoid() * h + i.sigmoid() * g.tanh()).tanh()


def workloads() -> Dict[str, Workload]:
    torch.manual_seed(0)
    vector = torch.randn(16, requires_grad=True)
    layers = [layer for _ in range(4) for layer in (nn.Linear(32, 32), nn.ReLU())]
    convolution = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    return {
        "tiny": (tiny, (vector,)),
        "views": (views, (vector,)),
        "chain": (chain, (vector,)),
        "cell": (cell, tuple(torch.randn(4, n, requires_grad=True) for n in (4, 4, 16, 16))),
        "mlp": (nn.Sequential(*layers), (torch.randn(4, 32),)),
        "convolution": (convolution, (torch.randn(2, 3, 8, 8),)),
        "block": (Block(), (torch.randn(2, 8, 32),)),
        "three blocks": (nn.Sequential(Block(), Block(), Block()), (torch.randn(2, 8, 32),)),
    }


# -- calls


def measure(function: Callable[..., Any], args: Tuple[Any, ...], training: bool, rounds: int) -> Dict[str, float]:
    """Median seconds a call of each contestant, and the ratio of jitlite's to aot_eager's."""
    torch._dynamo.reset()
    ways = {"eager": function, "aot_eager": compiled(function, "aot_eager"), "jitlite": compiled(function, backend)}

    def inference(run: Callable[..., Any]) -> Callable[[], Any]:
        def call() -> Any:
            with torch.no_grad():
                return run(*args)

        return call

    def step(run: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: run(*args).sum().backward()

    loops = {}
    for name, run in ways.items():
        call = step(run) if training else inference(run)
        call()
        loops[name] = repeated(call, calls_for(call, 0.03))
    counts = {name: count for name, (_, count) in loops.items()}
    seconds = interleaved({name: loop for name, (loop, _) in loops.items()}, rounds)
    per_call = {name: [t / counts[name] for t in times] for name, times in seconds.items()}
    found = {name: statistics.median(times) for name, times in per_call.items()}
    found["to aot_eager"] = ratio(per_call["aot_eager"], per_call["jitlite"])
    return found


def repeated(call: Callable[[], Any], count: int) -> Tuple[Callable[[], None], int]:
    def loop() -> None:
        for _ in range(count):
            call()

    return loop, count


def compiled(function: Callable[..., Any], way: Any) -> Callable[..., Any]:
    """A copy of a module shares no code with other copies, so each is compiled anew."""
    torch_compile: Any = torch.compile
    if isinstance(function, nn.Module):
        return torch_compile(copy.deepcopy(function), backend=way)  # type: ignore[no-any-return]
    return torch_compile(function, backend=way)  # type: ignore[no-any-return]


# -- compiling


def first_call(function: Callable[..., Any], args: Tuple[Any, ...], way: str, training: bool) -> Tuple[float, float]:
    """Seconds of the first call, and of what the backend itself did in it."""
    torch._dynamo.reset()
    metrics = torch._dynamo.utils.compilation_time_metrics
    metrics.clear()
    run = compiled(function, backend if way == "jitlite" else way)
    start = time.perf_counter()
    if training:
        run(*args).sum().backward()
    else:
        with torch.no_grad():
            run(*args)
    total = time.perf_counter() - start
    own = sum(r.seconds for r in last_report()) if way == "jitlite" else sum(metrics.get("compile_fx_inner", ()))
    return total, own


def latency(names: Dict[str, Workload], rounds: int) -> Dict[str, Dict[str, float]]:
    """Of each workload, medians of the first call's time."""
    figures = {}
    heads = f"{'inductor own':>13} {'jitlite own':>12} {'part':>6} {'inductor':>10} {'jitlite':>10} {'part':>6}"
    print(f"\n{'first call':28} {heads}")
    for name, (function, args) in names.items():
        for training in (False, True):
            seen: Dict[str, list[Tuple[float, float]]] = {"inductor": [], "jitlite": []}
            for _ in range(rounds + 1):
                for way, times in seen.items():
                    times.append(first_call(function, args, way, training))
            medians = {
                f"{way} {what}": statistics.median(t[i] for t in times[1:])
                for way, times in seen.items()
                for i, what in enumerate(("total", "own"))
            }
            own = medians["jitlite own"] / medians["inductor own"]
            total = medians["jitlite total"] / medians["inductor total"]
            label = f"{name}, {'training' if training else 'inference'}"
            figures[label] = {**medians, "own part": own, "total part": total}
            print(
                f"{label:28} {shown(medians['inductor own']):>13} {shown(medians['jitlite own']):>12} {own:6.3f} "
                f"{shown(medians['inductor total']):>10} {shown(medians['jitlite total']):>10} {total:6.3f}",
                flush=True,
            )
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names of workloads, joined by commas")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--latency", action="store_true", help="measure compiling too, beside inductor: minutes")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    chosen = workloads()
    if options.only:
        chosen = {name: chosen[name] for name in options.only.split(",")}
    figures: Dict[str, Any] = {}
    print(f"{'a call':28} {'eager':>10} {'aot_eager':>10} {'jitlite':>10} {'to aot_eager':>13}")
    for name, (function, args) in chosen.items():
        for training in (False, True):
            found = measure(function, args, training, options.rounds)
            label = f"{name}, {'training' if training else 'inference'}"
            figures[label] = found
            times = " ".join(f"{shown(found[who]):>10}" for who in ("eager", "aot_eager", "jitlite"))
            print(f"{label:28} {times} {found['to aot_eager']:12.2f}x", flush=True)
    if options.latency:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
            figures["latency"] = latency(chosen, 1 if options.rounds < 5 else 3)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
