"""The packages whose public models and functions are compiled, and how each is imported.

A package that is not installed, or that lacks something it needs, is left out.
"""

# ruff: noqa: E501 - a case a line reads better

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator

import torch

MODULES: dict[str, tuple[str, ...]] = {
    "torch.nn": ("torch.nn", "torch.nn.functional"),
    "torch.masked": ("torch.masked",),
    "torch.signal": ("torch.signal.windows",),
    "torchvision": (
        "torchvision.ops", "torchvision.transforms", "torchvision.transforms.functional", "torchvision.transforms.v2",
        "torchvision.transforms.v2.functional",
    ),
    "timm": ("timm.layers", "timm.loss"),
    "torch_geometric": ("torch_geometric.nn", "torch_geometric.nn.dense", "torch_geometric.utils"),
    "kornia": (
        "kornia.color", "kornia.enhance", "kornia.filters", "kornia.geometry", "kornia.geometry.transform", "kornia.losses",
        "kornia.metrics", "kornia.morphology", "kornia.feature",
    ),
    "torchaudio": ("torchaudio.functional", "torchaudio.transforms"),
    "segmentation_models_pytorch": ("segmentation_models_pytorch.losses", "segmentation_models_pytorch.metrics"),
}  # fmt: skip
"""By package: the modules whose public functions and classes are tried."""

_OPERATORS: list[torch.library.Library] = []
"""Declarations of operators, which last as long as they are held."""


def _without_extension_of_torchvision() -> None:
    """Declare what torchvision's Python registers meta functions for, where its own library does not load."""
    declared = torch.library.Library("torchvision", "DEF")
    with contextlib.suppress(RuntimeError):  # they are there: the library has been loaded
        for name in ("nms", "qnms"):
            declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _OPERATORS.append(declared)


def _without_extension_of_torchaudio() -> None:
    """Have torchaudio work without its library, which loads beside one version of torch only."""
    without = types.ModuleType("torchaudio._extension")
    vars(without).update(_IS_TORCHAUDIO_EXT_AVAILABLE=False, _IS_ALIGN_AVAILABLE=False, fail_if_no_align=_as_it_is)
    sys.modules.setdefault("torchaudio._extension", without)


def _as_it_is(function: Callable[..., object]) -> Callable[..., object]:
    return function


_WITHOUT_LIBRARY = {"torchvision": _without_extension_of_torchvision, "torchaudio": _without_extension_of_torchaudio}
_NEEDS_TORCHVISION = ("torchvision", "timm", "segmentation_models_pytorch")


def imported(package: str) -> list[types.ModuleType]:
    """The modules of a package.

    Raises:
        ImportError: it, or something that it needs, is not installed.
    """
    for name, prepare in _WITHOUT_LIBRARY.items():
        if (package in _NEEDS_TORCHVISION if name == "torchvision" else package == name) and name not in sys.modules:
            prepare()
    return [importlib.import_module(name) for name in MODULES[package]]


def public_members(module: types.ModuleType) -> Iterator[tuple[str, object]]:
    """The public functions and classes of modules (nn.Module) that a Python module offers, by name."""
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    root = module.__name__.partition(".")[0]
    for name in sorted(set(names)):
        member = getattr(module, name, None)
        is_module = inspect.isclass(member) and issubclass(member, torch.nn.Module)
        is_function = inspect.isfunction(member) or inspect.isbuiltin(member)
        if (is_module or is_function) and str(getattr(member, "__module__", root)).startswith(root):
            yield name, member
