"""Ways out of what operators raise for the values of a call.

The text of an exception is torch's and stays as it is, since programs compare it; a line below the script's traceback
says what to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from jitlite.base.source import did_you_mean

_OF_TORCH = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)
"""What operators raise. Classes of a program's own say what their authors want said."""
_LONGEST_TEXT = 2000
"""Characters of a text that is looked through."""
_DEVICES = ("cpu", "cuda", "mps", "xpu", "meta")
_OTHER_NAMES = {"gpu": "cuda", "nvidia": "cuda", "metal": "mps", "host": "cpu"}


def _unknown_device(found: re.Match[str]) -> str:
    name = found.group(1).partition(":")[0]
    other = _OTHER_NAMES.get(name.lower())
    near = f"did you mean '{other}'?" if other else did_you_mean(name, _DEVICES)
    return near or "a device is 'cpu', 'cuda', 'cuda:1', ..."


def _unlike_matrices(found: re.Match[str]) -> str:
    _, columns, rows, _ = found.groups()
    return (
        f"the first has {columns} columns, the second {rows} rows: the two have to be equal. The last size of what a "
        "Linear is given is its in_features"
    )


_ONE_NUMBER = (
    "only a tensor of one element is a number: reduce it (`x.mean()`, `x.max()`), take an element (`x[0]`), or take "
    "all as a list (`xs: List[float] = x.tolist()`)"
)
_INDICES = "indices are whole numbers: convert them with `.long()`"
_SAME_DTYPE = (
    "convert one of them: `x.to(w.dtype)` or `x.float()`; `module.double()` converts the parameters of a module"
)
_LEAF = "make a new tensor (`w = w + 1` for `w += 1`), or change the old one within `with torch.no_grad():`"

_HINTS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"Boolean value of Tensor with more than one value is ambiguous",
     "a condition is one bool: ask `.all()` or `.any()` of the tensor, or choose for each element with "
     "`torch.where(condition, a, b)`"),
    (r"a Tensor with \d+ elements cannot be converted to Scalar|only one element tensors can be converted",
     _ONE_NUMBER),
    (r"a (?:view of a )?leaf Variable that requires grad is being used in an in-place operation", _LEAF),
    (r"device type at start of device string: ([\w:]+)$", _unknown_device),
    (r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)", _unlike_matrices),
    (r"mat1 and mat2 must have the same dtype|expected m1 and m2 to have the same dtype"
     r"|Input type \(.*\) and (?:bias|weight) type \(.*\) should be the same", _SAME_DTYPE),
    (r"'indices' to have one of the following scalar types: Long|tensors used as indices must be long"
     r"|Expected dtype int(?:32/int)?64 for index|expected target dtype to be Long"
     r"|expected scalar type Long but found", _INDICES),
    (r"index out of range in self",
     "an index is negative, or not below the number of rows (num_embeddings): look at `x.min()` and `x.max()`"),
    (r"The size of tensor a \(\d+\) must match the size of tensor b \(\d+\)",
     "sizes are compared from the last one on, and have to be equal or 1; `x.unsqueeze(dim)` adds a size of 1"),
    (r"result type \w+ can't be cast to the desired output type",
     "what is changed in place keeps its dtype: make a new tensor (`x = x + 0.5`), or convert it before (`x.float()`)"),
    (r'^"\w+" not implemented for \'(?:Long|Int|Short|Char|Byte|Bool)\'|could not infer output dtype\. Input dtype '
     r"must be either a floating point", "the operator is for tensors of floats: `x.float()`"),
    (r"Expected all tensors to be on the same device", "move one of them: `x.to(y.device)`"),
    (r"unsupported format string passed to Tensor\.__format__",
     "a format such as .3f is for one number: `{x.mean():.3f}`; without a format, `{x}`, a tensor is shown whole"),
    (r"Unknown format code '\w' for object of type",
     "s is for texts, d for ints, e, f and g for numbers; `{str(n):>5s}` shows a number as a text"),
    (r"^incomplete format", "a percent sign that is to be shown is written %%"),
    (r"unsupported operand type\(s\) for .*NoneType",
     "one of them is None: annotate it as Optional, and test it with `is not None` before"),
)  # fmt: skip
"""What a text says, and what to do about it."""
_ANY = re.compile("|".join(f"(?:{pattern})" for pattern, _ in _HINTS))


def hint_for_failure(error: BaseException) -> str | None:
    """What to do about an exception that an operator has raised, None where nothing better than its text is known."""
    if type(error) not in _OF_TORCH or not error.args or type(error.args[0]) is not str:
        return None
    text = error.args[0][:_LONGEST_TEXT]
    for pattern, hint in _HINTS if _ANY.search(text) else ():
        if found := re.search(pattern, text):
            return hint if isinstance(hint, str) else hint(found)
    return None
