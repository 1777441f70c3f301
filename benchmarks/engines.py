"""Whole models on engines: how much of each is in groups, how exact the results are, what preparing and a call take.

    python benchmarks/engines.py [--engines reference,onnxruntime,iree] [--models resnet18,lstm] [--size 64]

Prints a table. Each pair of a model and an engine has a process of its own. Weights are random; images have `size` by
`size` pixels, and those of `vit_b_16` always 224. Batches of 2, 3, 5, 8 and 17 are run, one after the other.
The columns:

* operators: those on tensors in groups, of all, in the variants that ran;
* compiled: how many groups the engine compiled for all batches, and how many groups there are;
* difference: the largest one to eager, as a part of the largest number where that is less than 1;
* core ATen: seconds of `lower_to_core_aten`; prepared: seconds until the first call has returned;
* call: milliseconds of a call with a batch of 2, beside eager's.

torchvision is needed for its models; its Python parts are enough.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import interleaved
from torch import Tensor, nn

import jitlite
from jitlite.api import core_graphs

BATCHES = (2, 3, 5, 8, 17)
OF_TORCHVISION = ("resnet18", "mobilenet_v3_small", "efficientnet_b0", "densenet121", "vit_b_16")
OTHERS = ("lstm", "decoder", "encoder")
_LIBRARY: list[torch.library.Library] = []
ENGINES = ("reference", "onnxruntime", "iree")


class Recurrent(nn.Module):
    """Two recurrent layers and a linear one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(32, 64, 2, batch_first=True)
        self.out = nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.layers(x)[0])


class Decoder(nn.Module):
    """Gated recurrent steps until each sequence has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.cell = nn.GRUCell(16, 32)
        self.out = nn.Linear(32, 50)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        token = torch.zeros(x.size(0), dtype=torch.int64)
        total, state, steps = torch.zeros(x.size(0)), x + 0, 0
        while steps < 20 and bool((token != 3).any()):
            state = self.cell(self.embedding(token), state)
            best, token = self.out(state).log_softmax(-1).max(1)
            total, steps = total + best, steps + 1
        return state, total


def models_of_torchvision() -> Any:
    """Its models; where its binary part does not fit the torch that is installed, without operators of its own."""
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        _LIBRARY.append(torch.library.Library("torchvision", "DEF"))
        for name in ("nms", "qnms"):
            _LIBRARY[0].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return importlib.import_module("torchvision.models")


def model_of(name: str, size: int) -> tuple[nn.Module, Callable[[int], Tensor]]:
    """A model, and what makes an argument for a batch."""
    torch.manual_seed(0)
    if name in OF_TORCHVISION:
        made = getattr(models_of_torchvision(), name)(weights=None)
        if name == "vit_b_16":
            nn.init.normal_(made.heads.head.weight, std=0.02)  # zeros at first
        pixels = 224 if name == "vit_b_16" else size
        return made.eval(), lambda batch: torch.randn(batch, 3, pixels, pixels)
    if name == "lstm":
        return Recurrent().eval(), lambda batch: torch.randn(batch, 10, 32)
    if name == "decoder":
        return Decoder().eval(), lambda batch: torch.randn(batch, 32)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 2).eval(), lambda batch: torch.randn(batch, 16, 64)


def difference(found: Any, wanted: Any) -> float:
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    return max((a - b).abs().max().item() / min(b.abs().max().item(), 1.0) for a, b in pairs)


def measure(name: str, engine: str, size: int) -> dict[str, Any]:
    """What the table says of one model on one engine."""
    torch.set_num_threads(1)
    model, argument = model_of(name, size)
    parameter = "src" if name == "encoder" else "x"
    lowering: list[float] = []
    lower = core_graphs.lower_to_core_aten

    def timed(*args: Any, **options: Any) -> Any:
        since = time.perf_counter()
        report = lower(*args, **options)
        lowering.append(time.perf_counter() - since)
        return report

    core_graphs.lower_to_core_aten = timed  # type: ignore[assignment]
    with torch.no_grad():
        since = time.perf_counter()
        fast = jitlite.optimize(model, argument(3), engine=engine, dynamic_shapes={parameter: [0]})
        fast(argument(3))
        prepared = time.perf_counter() - since
        worst = max(difference(fast(x), model(x)) for x in map(argument, BATCHES))
        x = argument(2)
        seconds = interleaved({"engine": lambda: fast(x), "eager": lambda: model(x)}, 15)
    told = fast.explain()
    variants = re.findall(r"a variant, (\d+) calls: (\d+) of (\d+) operators on tensors in (\d+) groups", told)
    inside, everything, groups = (sum(int(numbers[i]) for numbers in variants) for i in (1, 2, 3))
    return {
        "inside": inside, "everything": everything, "groups": groups, "compiled": fast.counters.compiled,
        "fallbacks": fast.counters.fallbacks, "difference": worst, "prepared": prepared,
        "core": sum(lowering),
        **{f"{k}_ms": 1e3 * statistics.median(v) for k, v in seconds.items()},
    }  # fmt: skip


def row(name: str, engine: str, size: int) -> str:
    """A line of the table."""
    command = [sys.executable, __file__, "--work", name, engine, "--size", str(size)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason"])[-1]
        return f"| {name} | {engine} | {reason[:90]} | | | | | |"
    told = json.loads(done.stdout.splitlines()[-1])
    share = 100 * told["inside"] / max(told["everything"], 1)
    return (
        f"| {name} | {engine} | {told['inside']} of {told['everything']} ({share:.0f} %) "
        f"| {told['compiled']} of {told['groups']} | {told['difference']:.1e} | {told['core']:.2f} s "
        f"| {told['prepared']:.1f} s | {told['engine_ms']:.2f} ms, eager {told['eager_ms']:.2f} ms |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--models", default=",".join(OF_TORCHVISION + OTHERS))
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--work", nargs=2, metavar=("MODEL", "ENGINE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        sys.path.insert(0, str(Path(__file__).parent))
        print(json.dumps(measure(*options.work, options.size)))
        return
    print("| model | engine | operators in groups | compiled | difference | core ATen | prepared | call |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.models.split(","):
        for engine in options.engines.split(","):
            print(row(name, engine, options.size), flush=True)


if __name__ == "__main__":
    main()
