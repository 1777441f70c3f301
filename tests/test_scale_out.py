"""The examples of scale-out: real processes over gloo, torchrun, Ray.

Each of them compares what several processes have found with what one finds, and fails where that differs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples" / "scale_out"
WAYS = ("ddp", "fsdp", "fsdp_blocks")

pytestmark = pytest.mark.slow


def lines_of(example: str, *args: str, seconds: int = 300) -> list[str]:
    """What an example prints in a process of its own, which has to succeed."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    ran = subprocess.run(
        [sys.executable, FOLDER / example, *args],
        capture_output=True, text=True, timeout=seconds, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize("way", WAYS)
def test_two_processes_train_a_script_as_one_does(way):
    (line,) = lines_of("distributed_training.py", way)
    assert line.startswith(f"{way}: largest difference")


def test_a_worker_that_dies_is_started_again_and_goes_on_from_the_checkpoint():
    lives = [line for line in lines_of("elastic_training.py") if line.startswith("life")]
    assert lives == ["life 0 begins with step 0", "life 1 begins with step 3"]


def test_ray_actors_load_an_archive_once_and_run_many_batches():
    pytest.importorskip("ray.data", reason="Ray is not installed: pip install 'jitlite[ray]'")
    lines = lines_of("batch_inference.py", "--workers", "2", "--rows", "2048")
    # eight batches; an actor that starts late finds none left, and one that loaded again would count from 1
    assert re.match("2048 rows by [12] actors, most batches of an actor: [4-8]$", lines[0]), lines
    assert lines[-1] == "largest feature after the scripted function: 0.5"
