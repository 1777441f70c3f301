"""Train a scripted module in two processes, with DistributedDataParallel and with FSDP2 (`fully_shard`), over gloo.

    python examples/scale_out/distributed_training.py [ddp|fsdp|fsdp_blocks]

Each process takes every second row of a batch. The parameters after some steps are those of one process that has taken
all rows. No GPU is needed.
"""

from __future__ import annotations

import socket
import sys
from typing import Dict

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from small_model import batch, build, loss_of
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import jitlite

WORLD = 2
STEPS = 5
WAYS = ("ddp", "fsdp", "fsdp_blocks")


def train(model: nn.Module, rank: int, world: int) -> None:
    """Some steps on every `world`-th row of the batches, from row `rank` on."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        loss_of(model, x[rank::world], y[rank::world]).backward()
        optimizer.step()


def distributed(way: str) -> nn.Module:
    """The scripted model, in the form that trains in this process as one of several."""
    model = build()
    if way == "ddp":
        return DistributedDataParallel(jitlite.script(model))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    if way == "fsdp_blocks":  # a script calls its submodules without Python, so what is sharded alone is scripted alone
        for index, block in enumerate(model.blocks):
            model.blocks[index] = fully_shard(jitlite.script(block), mesh=mesh)
        return fully_shard(model, mesh=mesh)
    return fully_shard(jitlite.script(model), mesh=mesh)


def whole_state(model: nn.Module) -> Dict[str, Tensor]:
    """The parameters of the trained model, put together from all processes."""
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    return {name: t.full_tensor() if isinstance(t, DTensor) else t for name, t in inner.state_dict().items()}


def work(rank: int, way: str, port: int) -> None:
    """What one process does."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD)
    model = distributed(way)
    train(model, rank, WORLD)
    found = whole_state(model)
    dist.destroy_process_group()
    if rank == 0:
        alone = build()
        train(alone, 0, 1)
        error = max(float((found[name] - t).abs().max()) for name, t in alone.state_dict().items())
        print(f"{way}: largest difference from training in one process: {error:.1e}", flush=True)
        if not error < 1e-5:
            raise SystemExit(1)


def main() -> int:
    for way in sys.argv[1:] or WAYS:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        mp.spawn(work, args=(way, port), nprocs=WORLD)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
