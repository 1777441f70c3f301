"""torch's own classes for `with`, as an archive declares them.

At run time they are Python's; an archive needs their meaning as text. Their operators are torch's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from jitlite.ir import types as T
from jitlite.ir.code_text import Text, doubled, filled, fixed, joined, literal, quoted
from jitlite.ir.int_codes import int_coded
from jitlite.ir.schema import parse_schema
from jitlite.ir.types import ClassType

_EXIT = fixed("""\
  def __exit__(self: {name},
    exc_type: Any,
    exc_value: Any,
    traceback: Any) -> NoneType:
""")

_GRAD_MODE = joined(
    "",
    [
        fixed("""\
  prev : bool
  def __enter__(self: {{name}}) -> NoneType:
    self.prev = torch.is_grad_enabled()
    torch.set_grad_enabled({mode})
    return None
"""),
        doubled(_EXIT),
        fixed("""\
    prev = self.prev
    torch.set_grad_enabled(prev)
    return None
  def __init__(self: {{name}}) -> NoneType:
    self.prev = False
    return None
"""),
    ],
)

_SET_GRAD_ENABLED = joined(
    "",
    [
        fixed("""\
  prev : bool
  def __enter__(self: {name}) -> NoneType:
    return None
"""),
        _EXIT,
        fixed("""\
    prev = self.prev
    torch.set_grad_enabled(prev)
    return None
  def __init__(self: {name},
    mode: bool) -> NoneType:
    self.prev = torch.is_grad_enabled()
    torch.set_grad_enabled(mode)
    return None
"""),
    ],
)

_AUTOCAST = joined(
    "",
    [
        fixed("""\
  fast_dtype : int
  _enabled : bool
  device : str
  def __enter__(self: {name}) -> {name}:
    return self
"""),
        _EXIT,
        fixed("""\
    return None
  def __init__(self: {name},
    device_type: str,
    dtype: Optional[int]=None,
    enabled: bool=True,
    cache_enabled: Optional[bool]=None) -> NoneType:
    if torch.__is__(dtype, None):
      fast0 = torch.get_autocast_dtype(device_type)
      fast = fast0
    else:
      fast = unchecked_cast(int, dtype)
    self.fast_dtype = fast
    self._enabled = enabled
    self.device = device_type
    return None
"""),
    ],
)

_AUTOCAST_OF_DEVICE = joined(
    "",
    [
        fixed("""\
  _enabled : bool
  device : str
  fast_dtype : int
  def __enter__(self: {{name}}) -> {{name}}:
    return self
"""),
        doubled(_EXIT),
        fixed("""\
    return None
  def __init__(self: {{name}},
    enabled: bool=True,
    dtype: int={dtype},
    cache_enabled: bool=True) -> NoneType:
    self._enabled = enabled
    self.device = {device}
    self.fast_dtype = dtype
    return None
"""),
    ],
)

_RECORD_FUNCTION = joined(
    "",
    [
        fixed("""\
  name : str
  args : Optional[str]
  record : Optional[__torch__.torch.classes.profiler._RecordFunction]
  def __enter__(self: {name}) -> {name}:
    name = self.name
    args = self.args
    _0 = ops.profiler._record_function_enter_new(name, args)
    self.record = _0
    return self
"""),
        _EXIT,
        fixed("""\
    record = self.record
    record0 = torch._unwrap_optional(record)
    ops.profiler._record_function_exit(record0)
    return None
  def __init__(self: {name},
    name: str,
    args: Optional[str]=None) -> NoneType:
    self.name = name
    self.args = args
    self.record = None
    return None
"""),
    ],
)

_NOTHING = joined(
    "",
    [
        fixed("""\
  def __enter__(self: {name}) -> NoneType:
    return None
"""),
        _EXIT,
        fixed("""\
    return None
  def __init__(self: {name}) -> NoneType:
    return None
"""),
    ],
)

BODIES: Mapping[object, Text] = {
    torch.no_grad: filled(_GRAD_MODE, mode=literal(False)),
    torch.enable_grad: filled(_GRAD_MODE, mode=literal(True)),
    torch.set_grad_enabled: _SET_GRAD_ENABLED,
    torch.autocast: _AUTOCAST,
    torch.cuda.amp.autocast: filled(_AUTOCAST_OF_DEVICE, device=quoted("cuda"), dtype=5),
    torch.cpu.amp.autocast_mode.autocast: filled(_AUTOCAST_OF_DEVICE, device=quoted("cpu"), dtype=15),
    torch.autograd.profiler.record_function: _RECORD_FUNCTION,
    torch._C.DisableTorchFunctionSubclass: _NOTHING,
    torch._C.DisableTorchFunction: _NOTHING,
}
"""The body of the declaration of each class; `{name}` is the name that it has in the archive."""


class _Autocast(torch.autocast):
    """`torch.autocast` for programs from archives, in which dtypes are numbers."""

    def __init__(self, device_type: str, dtype: object, enabled: bool, cache_enabled: bool | None) -> None:
        coded: Any = int_coded(T.SCALAR_TYPE, dtype)
        super().__init__(device_type, coded, enabled, cache_enabled)


class _AutocastOfDevice(_Autocast):
    """The classes for one device, which are older."""

    device_type = "cuda"

    def __init__(self, enabled: bool, dtype: object, cache_enabled: bool) -> None:
        super().__init__(self.device_type, dtype, enabled, cache_enabled)


class _AutocastOnCpu(_AutocastOfDevice):
    device_type = "cpu"


_LOADED: dict[type, tuple[type, str]] = {
    torch.autocast: (_Autocast, "str device_type, int? dtype=None, bool enabled=True, bool? cache_enabled=None"),
    torch.cuda.amp.autocast: (_AutocastOfDevice, "bool enabled=True, int dtype=5, bool cache_enabled=True"),
    torch.cpu.amp.autocast_mode.autocast: (_AutocastOnCpu, "bool enabled=True, int dtype=15, bool cache_enabled=True"),
}
"""Classes whose declaration in an archive does not say what they do, what is used for them, and its parameters."""
_BY_QUALIFIED_NAME = {f"__torch__.{cls.__module__}.{cls.__name__}": cls for cls in _LOADED}
_DECLARED_AS = {used: cls for cls, (used, _) in _LOADED.items()}


def loaded_context(name: str) -> ClassType | None:
    """The type of a class for `with` of which an archive has the name only, in effect; None for other names."""
    cls = _BY_QUALIFIED_NAME.get(name)
    if cls is None:
        return None
    used, parameters = _LOADED[cls]
    made = ClassType.new(name, used)
    made.methods["__init__"] = parse_schema(f"__init__(Any self, {parameters}) -> NoneType")
    return made


_BY_NAME: Mapping[str, Text] = {"torch.jit.strict_fusion": _NOTHING}
"""The same for classes that are known by name only."""


def body_of(cls: object) -> Text | None:
    """The body of the declaration of a class, None for one that is not torch's."""
    known = BODIES.get(_DECLARED_AS.get(cls, cls)) if isinstance(cls, type) else None
    return known or _BY_NAME.get(f"{getattr(cls, '__module__', '')}.{getattr(cls, '__qualname__', '')}")


REFUSED: Mapping[object, str] = {
    torch.inference_mode: "use torch.no_grad()",
}
"""Classes that TorchScript has no equal of, and what to use instead."""
