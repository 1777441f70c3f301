"""Engines by name: those that come with jitlite, and those of installed packages."""

from __future__ import annotations

import importlib.util

from jitlite.base import plugins
from jitlite.base.source import did_you_mean
from jitlite.engines import onnx, stablehlo
from jitlite.engines.engine import Engine
from jitlite.engines.reference import ReferenceEngine

_NAMES = ("reference", "onnxruntime", "iree")


def engine_of(engine: str | Engine) -> Engine:
    """The engine of this name; an engine is given back as it is.

    Raises:
        ValueError: there is none of this name.
        ImportError: a package is missing.
    """
    if isinstance(engine, Engine):
        return engine
    if engine == "reference":
        return ReferenceEngine()
    if engine == "onnxruntime":
        need(f"the engine {engine}", "onnx", "onnx", "onnxruntime")
        return onnx.runtime.OnnxRuntime()
    if engine == "iree":
        need(f"the engine {engine}", "iree", "iree.compiler", "iree.runtime")
        return stablehlo.runtime.Iree()
    for plugin in plugins.load("jitlite.engines", _accept):
        if plugin.name == engine and not plugin.reason:
            return _made(plugin.found)
    names = engine_names()
    hint = did_you_mean(engine, names) or f"there are {', '.join(names)}"
    raise ValueError(f"there is no engine {engine!r}; {hint}")


def engine_names() -> list[str]:
    """The names of all engines; those of packages are imported."""
    others = plugins.load("jitlite.engines", _accept)
    return [*_NAMES, *(plugin.name for plugin in others if not plugin.reason)]


def _accept(plugin: plugins.Plugin) -> None:
    """See that an entry point names an engine, or what makes one, and that its name is none of jitlite's."""
    if plugin.name in _NAMES:
        raise ValueError(f"{plugin.name} is the name of an engine that comes with jitlite")
    _made(plugin.found)


def _made(found: object) -> Engine:
    made = found() if callable(found) and not isinstance(found, Engine) else found
    if not isinstance(made, Engine):
        raise TypeError(f"expected an Engine, or what makes one when it is called, got {type(made).__name__}")
    return made


def need(what: str, extra: str, *packages: str) -> None:
    """See that packages are installed.

    Raises:
        ImportError: one is not; the text says how to install the extra that has it.
    """
    missing = [name for name in packages if not is_installed(name)]
    if missing:
        raise ImportError(f"{what} needs {' and '.join(missing)}: pip install 'jitlite[{extra}]'")


def is_installed(name: str) -> bool:
    """Can a module be found? Those that it lies in are imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # what it lies in is missing
        return False
