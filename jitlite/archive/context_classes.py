"""torch's own classes for `with`, as an archive declares them.

At run time they are Python's; an archive needs their meaning as text. Their operators are torch's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

_EXIT = """\
  def __exit__(self: {name},
    exc_type: Any,
    exc_value: Any,
    traceback: Any) -> NoneType:
"""

_GRAD_MODE = (
    """\
  prev : bool
  def __enter__(self: {{name}}) -> NoneType:
    self.prev = torch.is_grad_enabled()
    torch.set_grad_enabled({mode})
    return None
"""
    + _EXIT.replace("{name}", "{{name}}")
    + """\
    prev = self.prev
    torch.set_grad_enabled(prev)
    return None
  def __init__(self: {{name}}) -> NoneType:
    self.prev = False
    return None
"""
)

_SET_GRAD_ENABLED = (
    """\
  prev : bool
  def __enter__(self: {name}) -> NoneType:
    return None
"""
    + _EXIT
    + """\
    prev = self.prev
    torch.set_grad_enabled(prev)
    return None
  def __init__(self: {name},
    mode: bool) -> NoneType:
    self.prev = torch.is_grad_enabled()
    torch.set_grad_enabled(mode)
    return None
"""
)

_AUTOCAST = (
    """\
  fast_dtype : int
  _enabled : bool
  device : str
  def __enter__(self: {name}) -> {name}:
    return self
"""
    + _EXIT
    + """\
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
"""
)

_RECORD_FUNCTION = (
    """\
  name : str
  args : Optional[str]
  record : Optional[__torch__.torch.classes.profiler._RecordFunction]
  def __enter__(self: {name}) -> {name}:
    name = self.name
    args = self.args
    _0 = ops.profiler._record_function_enter_new(name, args)
    self.record = _0
    return self
"""
    + _EXIT
    + """\
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
"""
)

_NOTHING = (
    """\
  def __enter__(self: {name}) -> NoneType:
    return None
"""
    + _EXIT
    + """\
    return None
  def __init__(self: {name}) -> NoneType:
    return None
"""
)

BODIES: Mapping[Any, str] = {
    torch.no_grad: _GRAD_MODE.format(mode="False"),
    torch.enable_grad: _GRAD_MODE.format(mode="True"),
    torch.set_grad_enabled: _SET_GRAD_ENABLED,
    torch.autocast: _AUTOCAST,
    torch.autograd.profiler.record_function: _RECORD_FUNCTION,
    torch._C.DisableTorchFunctionSubclass: _NOTHING,
    torch._C.DisableTorchFunction: _NOTHING,
}
"""The body of the declaration of each class; `{name}` is the name that it has in the archive."""

REFUSED: Mapping[Any, str] = {
    torch.inference_mode: "use torch.no_grad()",
    torch.cuda.amp.autocast: "use torch.autocast('cuda')",
    torch.cpu.amp.autocast_mode.autocast: "use torch.autocast('cpu')",
}
"""Classes that TorchScript has no equal of, and what to use instead."""
