"""Calls of public models and functions, as eager Python takes them."""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import linecache
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from client_arguments import combinations, required_parameters
from client_packages import imported, public_members
from public_models import PACKAGES, limited, tensors_of

_LARGEST = 8_000_000
"""Models with more parameters take longer and say no more."""
_LONGEST_CALL = 4
"""Seconds for a call in eager Python. What needs more is left out."""
_FEW = 24
"""Arguments of constructors that are tried."""


@dataclass
class Case:
    """A model or function, and arguments that eager Python takes.

    Attributes:
        model: what is compiled: a module, or a function of the tensors among the arguments.
    """

    name: str
    model: Callable[..., object]
    arguments: tuple[object, ...]


def cases_of(package: str, chosen: Callable[[str], bool] = lambda name: True) -> Iterator[Case]:
    """What is tried of a package, in an order that stays.

    Raises:
        ImportError: it is not installed.
    """
    for module in imported(package):
        for name, member in public_members(module):
            full = f"{module.__name__}.{name}"
            if chosen(full):
                case = _module_case(full, member) if inspect.isclass(member) else _function_case(full, member)
                if case is not None:
                    yield case
    yield from _described(package, chosen)
    if package == "segmentation_models_pytorch":
        yield from _segmentation(chosen)


def accepted(function: Callable[..., object], arguments: tuple[object, ...]) -> bool:
    """Does eager Python take the arguments, and give tensors or numbers?"""
    torch.manual_seed(0)
    try:
        with limited(_LONGEST_CALL), contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
            found = function(*copy.deepcopy(arguments))
    except Exception:
        return False
    return next(tensors_of(found), None) is not None or isinstance(found, int | float)


def _function_case(name: str, function: object) -> Case | None:
    parameters = required_parameters(function)
    if not parameters or not callable(function):
        return None
    for arguments in combinations(parameters):
        if accepted(function, arguments):
            return _call(name, function, arguments)
    return None


def _call(name: str, function: Callable[..., object], arguments: tuple[object, ...]) -> Case:
    """A function of the tensors, which calls the one that is meant with everything else as it is written."""
    given, tensors, declared = [], [], []
    for position, argument in enumerate(arguments):
        if isinstance(argument, torch.Tensor):
            tensors.append(argument)
            given.append(f"a{position}")
            declared.append(f"a{position}: torch.Tensor")
        elif isinstance(argument, list) and isinstance(argument[0], torch.Tensor):
            tensors.append(argument)
            given.append(f"a{position}")
            declared.append(f"a{position}: typing.List[torch.Tensor]")
        else:
            given.append(repr(argument))
    lines = [f"def call({', '.join(declared)}):\n", f"    return function({', '.join(given)})\n"]
    file, namespace = f"<{name}>", {"function": function, "torch": torch, "typing": typing}
    linecache.cache[file] = (0, None, lines, file)
    exec(compile("".join(lines), file, "exec"), namespace)
    made = namespace["call"]
    assert isinstance(made, types.FunctionType)
    return Case(name, made, tuple(tensors))


def _module_case(name: str, cls: type) -> Case | None:
    """A module made and called with arguments that it takes."""
    parameters = required_parameters(cls)
    if parameters is None or inspect.isabstract(cls) or cls is torch.nn.Module:
        return None
    taken = 0
    for given in combinations(parameters):
        torch.manual_seed(0)
        try:
            with limited(_LONGEST_CALL):
                module = cls(*copy.deepcopy(given))
        except Exception:
            continue
        case = _called(name, module.eval())
        taken += 1
        if case is not None or taken == _FEW:
            return case
    return None


def _called(name: str, module: torch.nn.Module) -> Case | None:
    parameters = required_parameters(module.forward)
    if not parameters:
        return None
    with torch.no_grad():
        for arguments in combinations(parameters):
            if accepted(module, arguments):
                return Case(name, module, arguments)
    return None


def _described(package: str, chosen: Callable[[str], bool]) -> Iterator[Case]:
    """The models with arguments of their own."""
    for described in PACKAGES[package]() if package in PACKAGES else ():
        name = f"{package}: {described.name}"
        if chosen(name):
            case = _described_case(name, described.make, described.arguments)
            if case is not None:
                yield case


def _described_case(
    name: str, make: Callable[[], torch.nn.Module], given: Callable[[], tuple[object, ...]]
) -> Case | None:
    torch.manual_seed(0)
    try:
        with limited(5 * _LONGEST_CALL):
            module = make().eval()
    except Exception:
        return None
    if sum(p.numel() for p in module.parameters()) > _LARGEST:
        return None
    arguments = given()
    with torch.no_grad():
        return Case(name, module, arguments) if accepted(module, arguments) else None


def _segmentation(chosen: Callable[[str], bool]) -> Iterator[Case]:
    smp = importlib.import_module("segmentation_models_pytorch")
    for architecture in sorted(smp.MODEL_ARCHITECTURES_MAPPING):
        for encoder in ("mobilenet_v2", "timm-mobilenetv3_small_075"):
            name = f"segmentation_models_pytorch: {architecture} {encoder}"
            if chosen(name):
                case = _described_case(
                    name, lambda a=architecture, e=encoder: smp.create_model(a, encoder_name=e, encoder_weights=None),
                    lambda: (torch.rand(1, 3, 64, 64),),
                )  # fmt: skip
                if case is not None:
                    yield case
