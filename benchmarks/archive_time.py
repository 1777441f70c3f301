"""How long it takes to save and to load a module of 50 layers, and how much memory loading takes, beside torch.jit.

    python benchmarks/archive_time.py [--layers 50] [--width 512] [--rounds 9] [--json out.json]

The contestants take turns, and medians are compared: a ratio above 1 says that jitlite takes that many times as long.
Memory is what a process of its own holds at most while it loads, beyond what it held before.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict

import torch
from timing import interleaved, shown
from torch import Tensor, nn

import jitlite

LOADERS = {
    "torch.jit": torch.jit.load,
    "jitlite": jitlite.load,
    "jitlite, mapped": lambda path: jitlite.load(path, mmap=True),
}


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.relu(self.linear(self.norm(x)))


class Model(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(width) for _ in range(layers)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def held(what: str) -> float:
    """MiB that this process holds (`VmRSS`), or has held at most (`VmHWM`)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what))


def memory_of(loader: str, path: str) -> float:
    """MiB that loading takes, in a process of its own."""
    found = subprocess.run(
        [sys.executable, __file__, "--load", loader, path], capture_output=True, text=True, check=True
    )
    return float(found.stdout.split()[-1])


def load_once(loader: str, path: str) -> None:
    load: Any = LOADERS[loader]
    small = str(Path(path).with_name("small.pt"))
    load(small)  # what the first use of all takes is not that of the file
    Path("/proc/self/clear_refs").write_text("5")  # the most that was held is from now on
    before = held("VmRSS")
    kept = load(path)
    print(held("VmHWM") - before)
    del kept


def compared(contestants: Dict[str, Any], rounds: int, what: str, out: Dict[str, Any]) -> None:
    seconds = interleaved(contestants, rounds)
    reference = seconds["torch.jit"]
    for name, taken in seconds.items():
        ratio = statistics.median(t / r for t, r in zip(taken, reference, strict=True))
        out[f"{what}, {name}"] = {"seconds": statistics.median(taken), "ratio": ratio}
        print(f"{what:6} {name:16} {shown(statistics.median(taken)):>10} {ratio:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=50)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--load", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.load:
        load_once(*options.load)
        return
    out: Dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.pt")
        model = Model(options.width, options.layers)
        theirs, ours = torch.jit.script(model), jitlite.script(model)
        print(f"{'':6} {'':16} {'median':>10} {'ratio':>8}")
        savers = {
            "torch.jit": lambda: torch.jit.save(theirs, path),
            "jitlite": lambda: jitlite.save(ours, path),
        }
        compared(savers, options.rounds, "save", out)
        torch.jit.save(theirs, path)
        torch.jit.save(torch.jit.script(Model(4, 1)), str(Path(folder) / "small.pt"))
        loaders = {name: (lambda load=load: load(path)) for name, load in LOADERS.items()}
        compared(loaders, options.rounds, "load", out)
        memory = {name: statistics.median(memory_of(name, path) for _ in range(3)) for name in LOADERS}
        for name, taken in memory.items():
            ratio = taken / memory["torch.jit"]
            out[f"memory, {name}"] = {"mib": taken, "ratio": ratio}
            print(f"memory {name:16} {taken:6.0f} MiB {ratio:8.2f}")
    if options.json:
        options.json.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
