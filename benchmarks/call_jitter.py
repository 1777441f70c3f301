"""How much longer than usual the slowest call of a function takes, while it is being specialized and compiled.

    python benchmarks/call_jitter.py [--calls 500] [--rounds 3] [--only scalar_loop,module]

For each program: the median of calls 3 to N in microseconds, the slowest of them and which it was, and their ratio.
Each round has a process of its own, so that nothing is warm. What else runs on the machine makes single calls slow as
well: on Linux, time in which threads of the process were ready to run and had no processor is taken off, and the round
of the least ratio is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import nn

import jitlite


def scalar_loop(n: int) -> int:
    s = 0
    for i in range(n):
        if i % 3 == 0:
            s += i * i % 7
        else:
            s -= i // 2
    return s


def small_tensor(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.dim() == 2 and x.size(0) == y.size(0):
        return torch.relu(x * y + 1.0)
    return x


def optional_argument(x: torch.Tensor, mask: "torch.Tensor | None") -> torch.Tensor:
    if mask is not None:
        x = x * mask
    if x.dtype == torch.float32:
        x = x + 1.0
    return x


def nested_loop(xs: "list[float]") -> float:
    best = 0.0
    for i in range(len(xs)):
        for j in range(i):
            d = abs(xs[i] - xs[j])
            if d > best:
                best = d
    return best


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 1:
            x = x.unsqueeze(0)
        return self.second(torch.relu(self.first(x)))


PROGRAMS: Dict[str, Tuple[Callable[[], Any], Callable[[], Tuple[Any, ...]]]] = {
    "scalar_loop": (lambda: scalar_loop, lambda: (2000,)),
    "nested_loop": (lambda: nested_loop, lambda: ([float(i % 17) for i in range(60)],)),
    "small_tensor": (lambda: small_tensor, lambda: (torch.ones(4, 8), torch.ones(4, 8))),
    "optional_argument": (lambda: optional_argument, lambda: (torch.ones(4, 8), None)),
    "module": (lambda: Net().eval(), lambda: (torch.ones(8, 32),)),
}


def work(name: str, calls: int) -> List[float]:
    torch.set_num_threads(1)
    program, arguments = PROGRAMS[name]
    compiled, given = jitlite.script(program()), arguments()
    times = []
    with torch.no_grad():
        for _ in range(calls):
            before, start = run_delays(), time.perf_counter()
            compiled(*given)
            wall = time.perf_counter() - start
            delay = sum(after - before.get(thread, 0.0) for thread, after in run_delays().items())
            times.append(max(wall - delay, 1e-7))
    return times


def run_delays() -> Dict[str, float]:
    """Seconds that each thread of this process has waited for a processor; nothing where the system does not say."""
    found = {}
    for thread in os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else ():
        with contextlib.suppress(OSError, IndexError):  # it has just ended
            with open(f"/proc/self/task/{thread}/schedstat") as file:
                found[thread] = int(file.read().split()[1]) * 1e-9
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--work", default=None)
    chosen = parser.parse_args()
    if chosen.work:
        print(json.dumps(work(chosen.work, chosen.calls)))
        return
    print(f"{'program':20} {'median us':>10} {'worst us':>10} {'call':>6} {'ratio':>7}")
    for name in chosen.only.split(","):
        rounds = []
        for _ in range(chosen.rounds):
            command = [sys.executable, __file__, "--work", name, "--calls", str(chosen.calls)]
            found = subprocess.run(command, check=True, capture_output=True, text=True)
            times = json.loads(found.stdout.splitlines()[-1])[2:]
            rounds.append((max(times) / statistics.median(times), statistics.median(times), times))
        ratio, median, times = min(rounds)
        worst = max(times)
        print(f"{name:20} {median * 1e6:10.1f} {worst * 1e6:10.1f} {times.index(worst) + 3:6} {ratio:7.1f}")


if __name__ == "__main__":
    main()
