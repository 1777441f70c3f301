"""How many rows a second one and two workers of Ray Data predict with an archive.

    pip install 'jitlite[ray]'
    python benchmarks/scale_out.py [--rows 20000] [--rounds 3]

A worker is an actor with one thread, which has loaded the archive before the time is taken. The rates of one and two
workers are taken in turns, and medians shown. The last column is what of twice the rate is reached.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import ray
import torch
from ray.util import ActorPool
from timing import interleaved

import jitlite

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "scale_out"))
MODELS = importlib.import_module("small_model")


@ray.remote(num_cpus=1)
class Worker:
    """Runs the archive on one batch after another."""

    def __init__(self, path: str) -> None:
        torch.set_num_threads(1)
        self.model = jitlite.load(path)

    def run(self, batch: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        with torch.no_grad():
            found: np.ndarray[Any, Any] = self.model(torch.from_numpy(batch.copy())).numpy()
            return found


def run(workers: List[Any], batches: List[Any]) -> int:
    """The number of rows that the workers have predicted."""
    pool = ActorPool(workers)
    return sum(len(found) for found in pool.map_unordered(lambda worker, batch: worker.run.remote(batch), batches))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    ray.init(
        num_cpus=3, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}}
    )
    model = MODELS.Regressor(features=256, blocks=8).eval()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.pt")
        jitlite.script(model).save(path)
        workers = [Worker.remote(path) for _ in range(2)]
        rows = torch.randn(args.rows, 256)
        batches = [ray.put(part.numpy()) for part in rows.split(args.batch)]
        for worker in workers:  # archives are loaded and plans made
            ray.get([worker.run.remote(batch) for batch in batches[:3]])
        seconds: Dict[str, List[float]] = interleaved(
            {f"{n} workers": lambda n=n: run(workers[:n], batches) for n in (1, 2)}, args.rounds
        )
    rates = {name: args.rows / statistics.median(times) for name, times in seconds.items()}
    for name, rate in rates.items():
        print(f"{name}: {rate:10,.0f} rows a second")
    print(f"two workers reach {rates['2 workers'] / rates['1 workers'] / 2:.0%} of twice the rate of one")
    ray.shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
