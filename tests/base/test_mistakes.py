"""Golden tests of errors: mistakes of users, and the message each of them gets.

A file `golden/errors/<subject>.txt` holds cases:

    --- case: what the mistake is
    @jitlite.script
    def f(x): ...
    --- error
    the whole message, with `mistake.py` for the file

The program is run with the names of `NAMES`. `pytest --accept` writes the messages anew.
"""

from __future__ import annotations

import linecache
import re
import sys
from pathlib import Path

import pytest

from jitlite.base.source import CompileError

FILES = sorted((Path(__file__).parents[1] / "golden" / "errors").glob("*.txt"))
PRELUDE = """\
import functools, json, math, os, random, time
import numpy as np
import torch
import torch.nn.functional as F
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union
from torch import Tensor, nn
import jitlite
"""
NAMES = {}
exec(PRELUDE, NAMES)
FILE = "mistake.py"
LONGEST = 15
OF_OBJECTS = ("super().__init__() forgotten", "method scripted by itself")
"""Mistakes in what is given to `script`, which stand in no script."""
_CASE = re.compile(r"^--- case: (.*)\n((?:(?!---).*\n)*)--- error\n((?:(?!---).*\n?)*)", re.M)
CASES = [(path, *found) for path in FILES for found in _CASE.findall(path.read_text())]


def message_of(program):
    """What jitlite says of a program."""
    linecache.cache[FILE] = (len(program), None, program.splitlines(keepends=True), FILE)
    module = sys.modules["mistake"] = type(sys)("mistake")
    vars(module).update(NAMES)
    vars(module)["__file__"] = FILE
    try:
        exec(compile(program, FILE, "exec", dont_inherit=True), vars(module))
    except CompileError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        del linecache.cache[FILE], sys.modules["mistake"]
    return "no error"


def without_addresses(text):
    text = re.sub(r" at 0x[0-9a-f]+", " at 0x...", text)
    text = re.sub(r"^(in (?:Python\'s library|NumPy): \S+\.py):\d+:\d+$", r"\1:LINE:COLUMN", text, flags=re.M)
    return re.sub(r"(?<![\w.])/\S*/site-packages/", "", text)


@pytest.mark.parametrize(("path", "title", "program", "expected"), CASES, ids=[case[1] for case in CASES])
def test_the_message_of_a_mistake(path, title, program, expected, accept):
    found = without_addresses(message_of(program)).rstrip() + "\n"
    if found != expected and accept:
        text = path.read_text()
        path.write_text(text.replace(f"{program}--- error\n{expected}", f"{program}--- error\n{found}"))
    assert found == expected
    lines = found.splitlines()
    assert len(lines) <= LONGEST and re.fullmatch(r"more: jitlite explain J\d{4}", lines[-1])


def test_there_are_forty_mistakes_and_each_is_read():
    assert len(CASES) == sum(path.read_text().count("--- case:") for path in FILES) >= 40
    assert len({title for _, title, *_ in CASES}) == len(CASES)


@pytest.mark.parametrize(("path", "title", "program", "expected"), CASES, ids=[case[1] for case in CASES])
def test_a_mistake_is_at_its_place(path, title, program, expected):
    """Each message names the file of the program and a line of it, unless an object is refused."""
    if title in OF_OBJECTS:
        return
    named = re.match(r"mistake\.py:(\d+):(\d+): ", expected)
    assert named and program.splitlines()[int(named.group(1)) - 1].strip()
