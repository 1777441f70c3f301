"""The engines that come with jitlite, by name."""

from __future__ import annotations

import importlib.util

from jitlite.base.source import did_you_mean
from jitlite.engines import onnx
from jitlite.engines.engine import Engine
from jitlite.engines.reference import ReferenceEngine

_NAMES = ("reference", "onnxruntime")


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
    hint = did_you_mean(engine, _NAMES) or f"there are {', '.join(_NAMES)}"
    raise ValueError(f"there is no engine {engine!r}; {hint}")


def need(what: str, extra: str, *packages: str) -> None:
    """See that packages are installed.

    Raises:
        ImportError: one is not; the text says how to install the extra that has it.
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f"{what} needs {' and '.join(missing)}: pip install 'jitlite[{extra}]'")
