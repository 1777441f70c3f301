"""Batch inference of an archive over Ray Data: each actor loads the archive once and runs it on batch after batch.

    pip install 'jitlite[ray]'
    python examples/scale_out/batch_inference.py [--workers 2] [--rows 4096]

The second pass maps a scripted function that exists in this file alone. It is sent to the workers with its program, so
they need no copy of this file.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any, Dict

import numpy as np
import ray
import ray.data
import torch
from small_model import batch, build
from torch import Tensor

import jitlite

Columns = Dict[str, np.ndarray[Any, Any]]


@jitlite.script
def clipped(x: Tensor, limit: float) -> Tensor:
    if float(x.abs().max()) > limit:
        x = x.clamp(-limit, limit)
    return x


class Predictor:
    """What an actor runs. Ray makes one object of it in each actor."""

    def __init__(self, path: str) -> None:
        self.model = jitlite.load(path)
        self.batches = 0

    def __call__(self, columns: Columns) -> Columns:
        self.batches += 1
        with torch.no_grad():
            columns["prediction"] = self.model(torch.from_numpy(columns["features"].copy())).numpy()[:, 0]
        rows = len(columns["prediction"])
        columns["actor"] = np.full(rows, os.getpid())
        columns["batch"] = np.full(rows, self.batches)
        return columns


def predict(dataset: ray.data.Dataset, path: str, workers: int, batch_size: int = 256) -> ray.data.Dataset:
    """The dataset with a column for the predictions of the archive."""
    actors = ray.data.ActorPoolStrategy(size=workers)
    return dataset.map_batches(Predictor, fn_constructor_args=(path,), batch_size=batch_size, compute=actors)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=4096)
    args = parser.parse_args()
    ray.init(num_cpus=args.workers, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    model = build().eval()
    features, _ = batch(0, args.rows)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.pt")
        jitlite.script(model).save(path)
        dataset = ray.data.from_items([{"features": row} for row in features.numpy()]).repartition(8).materialize()
        rows = predict(dataset, path, args.workers).take_all()
    expected = {tuple(x.tolist()): float(y) for x, y in zip(features, model(features).detach(), strict=True)}
    error = max(abs(row["prediction"] - expected[tuple(row["features"].tolist())]) for row in rows)
    actors = {int(row["actor"]) for row in rows}
    print(f"{len(rows)} rows by {len(actors)} actors, most batches of an actor: {max(r['batch'] for r in rows)}")
    print(f"largest difference from the model in this process: {error:.1e}")

    def clip(columns: Columns) -> Columns:
        return {"features": clipped(torch.from_numpy(columns["features"].copy()), 0.5).numpy()}

    largest = max(abs(row["features"]).max() for row in dataset.map_batches(clip).take_all())
    print(f"largest feature after the scripted function: {largest}")
    ray.shutdown()
    return 0 if len(rows) == args.rows and error < 1e-5 and largest == 0.5 else 1


if __name__ == "__main__":
    raise SystemExit(main())
