"""Training that goes on from a checkpoint when a worker dies, under torchrun (torch.distributed.elastic).

    python examples/scale_out/elastic_training.py

starts torchrun with two workers, one of which dies once in the middle. torchrun starts both again, they read the last
checkpoint, and the result is that of a run in which nobody died. The command that is run:

    torchrun --standalone --nproc-per-node 2 --max-restarts 1 elastic_training.py --worker FOLDER --die-at 3
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Optional

import torch
import torch.distributed as dist
from small_model import batch, build, loss_of
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import jitlite

STEPS = 6


def save_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Write the state after a step; a file of that name is replaced when the new one is complete."""
    partial = path.with_suffix(".partial")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, partial)
    os.replace(partial, path)


def load_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Take the state of a checkpoint, if there is one, and give the step to go on with."""
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"]) + 1


def join() -> None:
    """Join the other workers of this life.

    torchrun keeps its store over restarts. Keys of a life of their own keep a worker from reading where another one
    listened that has died.
    """
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    own = dist.PrefixStore(f"life {os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    dist.init_process_group("gloo", store=own, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))


def work(folder: Path, die_at: Optional[int]) -> None:
    """What a worker does: torchrun has set its rank, and where the others are, in the environment."""
    torch.set_num_threads(1)
    join()
    rank, world = dist.get_rank(), dist.get_world_size()
    model = jitlite.script(build())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    first = load_checkpoint(folder / "checkpoint.pt", model, optimizer)
    parallel = DistributedDataParallel(model)
    if rank == 0:
        print(f"life {os.environ['TORCHELASTIC_RESTART_COUNT']} begins with step {first}", flush=True)
    for step in range(first, STEPS):
        if rank == 1 and step == die_at and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os._exit(1)
        x, y = batch(step)
        optimizer.zero_grad()
        loss_of(parallel, x[rank::world], y[rank::world]).backward()
        optimizer.step()
        if rank == 0:
            save_checkpoint(folder / "checkpoint.pt", model, optimizer, step)
        dist.barrier()
    if rank == 0:
        model.save(str(folder / "trained.pt"))
    dist.destroy_process_group()


def launch(folder: Path, die_at: Optional[int]) -> int:
    """Run two workers under torchrun."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["--max-restarts", "1", "--monitor-interval", "0.1", __file__, "--worker", str(folder)]
    command += [] if die_at is None else ["--die-at", str(die_at)]
    return subprocess.run(command, check=False).returncode


def alone() -> nn.Module:
    """The model of a training in this process, in which nobody dies."""
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, *batch(step)).backward()
        optimizer.step()
    return model


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", type=Path)
    parser.add_argument("--die-at", type=int)
    args = parser.parse_args()
    if args.worker is not None:
        work(args.worker, args.die_at)
        return 0
    with tempfile.TemporaryDirectory() as name:
        code = launch(Path(name), die_at=3)
        if code != 0:
            return code
        trained = jitlite.load(str(Path(name) / "trained.pt")).state_dict()
    error = max(float((trained[name] - t).abs().max()) for name, t in alone().state_dict().items())
    print(f"largest difference from training without an end in the middle: {error:.1e}")
    return 0 if error < 1e-5 else 1


if __name__ == "__main__":
    raise SystemExit(main())
