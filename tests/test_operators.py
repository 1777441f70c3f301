"""Every operator that jitlite declares does what Python does."""

import cmath
import math
import time
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from jitlite.ir.constants import QualifiedClassName
from jitlite.ir.operator_docs import operators_markdown
from jitlite.ir.ops import Effect, declared_ops, lookup, op
from jitlite.ir.pass_prims import _MACHINERY
from jitlite.ir.prims import Await, make_exception
from jitlite.source import Error

from .operator_cases import CASES, run_case
from .operator_samples import BIG, INF, NAN, argument_samples, fresh, outcome, plain

ROOT = Path(__file__).parents[1]
DECLARED = {o.schema.qualified: o for o in declared_ops()}
