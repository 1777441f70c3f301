"""How long it takes until a model has been compiled and called twice, beside torch.jit.script.

    python benchmarks/first_call.py [--only resnet,transformer] [--rounds 5] [--json out.json]

Each measurement has a process of its own, in which the model has run eagerly once and the compiler is imported. Seconds
are CPU time of the process: of script, and of the first and second call. A ratio above 1 says that jitlite takes that
many times as long.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

import torch
from timing import shown

import jitlite

MODELS = ("resnet", "mobilenet", "language_model", "transformer")
COMPILERS = {"jitlite": jitlite.script, "torch.jit": torch.jit.script}


def work(name: str, compiler: str) -> List[float]:
    """Seconds of script, first call and second call; a call computes the loss of one batch."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "models"))
    torch.set_num_threads(1)
    example: Any = importlib.import_module(name)
    torch.manual_seed(0)
    model, batches = example.build(), example.batches()
    with torch.no_grad():
        example.loss_of(model, batches[0])
        marks = [time.process_time()]
        compiled = COMPILERS[compiler](model)
        marks.append(time.process_time())
        for _ in range(2):
            example.loss_of(compiled, batches[0])
            marks.append(time.process_time())
    return [after - before for before, after in itertools.pairwise(marks)]


def measure(name: str, rounds: int) -> Dict[str, List[float]]:
    """Per compiler, the medians of the three times over rounds in turns."""
    found: Dict[str, List[List[float]]] = {compiler: [] for compiler in COMPILERS}
    for _ in range(rounds):
        for compiler in COMPILERS:
            command = [sys.executable, __file__, "--work", name, compiler]
            result = subprocess.run(command, check=True, capture_output=True, text=True)
            found[compiler].append(json.loads(result.stdout.splitlines()[-1]))
    return {
        compiler: [statistics.median(times) for times in zip(*rows, strict=True)] for compiler, rows in found.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names of models, joined by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the medians to this file")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(work(*options.work)))
        return 0
    medians: Dict[str, Dict[str, List[float]]] = {}
    print(
        f"{'model':16} {'jitlite':>10} {'torch.jit':>10} {'ratio':>7}   script, first, second call: jitlite | torch.jit"
    )
    for name in options.only.split(",") if options.only else MODELS:
        found = medians[name] = measure(name, options.rounds)
        ours, theirs = (sum(found[compiler]) for compiler in ("jitlite", "torch.jit"))
        parts = " | ".join(", ".join(shown(t) for t in found[compiler]) for compiler in ("jitlite", "torch.jit"))
        print(f"{name:16} {shown(ours):>10} {shown(theirs):>10} {ours / theirs:6.2f}x   {parts}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(medians, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
