"""What a handler may ask a caught exception: its class, the class's name, its arguments. And names of other classes."""

from __future__ import annotations

import pytest
import torch
from accepted_python import T34, Table, check_case, source_of
from strategies import compile_source
from torch import nn

import jitlite
from jitlite.base.source import CompileError

HEAD = """
class MyError(ValueError):
    pass

class Square:
    def __init__(self, n: int):
        self.n = n

class Unit(Square):
    pass
"""

RAISING = """try:
    if n > 1:
        raise ValueError("big", n)
    if n > 0:
        raise MyError("my")
    raise KeyError("k")
except Exception as e:
"""

EXCEPTIONS: Table = {
    "name of the class": ("n: int", RAISING + " return type(e).__name__ + ': ' + str(e)", [[0], [1], [2]]),
    "arguments": (
        "n: int",
        RAISING + " return e.args[0], len(e.args), str(e.args[-1]), f'{e.args}', [str(a) for a in e.args]",
        [[0], [1], [2]],
    ),
    "arguments, unpacked": ("n: int", RAISING + " a, b = e.args\n return a, b", [[2], [1]]),
    "isinstance": (
        "n: int",
        RAISING + " if isinstance(e, ValueError):\n  return 'V' + str(isinstance(e, MyError))\n"
        " if isinstance(e, (IndexError, AttributeError)):\n  return 'I'\n raise",
        [[0], [1], [2]],
    ),
    "errors of tensors": (
        "x: Tensor",
        "try:\n y = x.view(5)\nexcept RuntimeError as e:\n if 'invalid for input' in str(e.args[0]):\n"
        "  return type(e).__name__, e.args[0]\n raise\nreturn 'a', 'b'",
        [[T34], [torch.ones(5)]],
    ),
    "kept": (
        "n: int",
        "names = []\nfor i in range(n):\n try:\n  if i % 2 == 0:\n   raise ValueError('no')\n  raise KeyError(i)\n"
        " except (ValueError, KeyError) as e:\n  names.append(type(e).__name__)\nreturn names",
        [[0], [3]],
    ),
}

CLASSES: Table = {
    "values": (
        "n: int, x: Tensor, xs: List[int], y: Union[int, str], z: float, o: Optional[int]",
        "return [type(v).__name__ for v in (n, x, 'a', xs, (n, 1), y, z, o, x.dtype, x > 1, None, {1: 2}, {n})]",
        [[1, T34, [1], 1, 1.0, None], [1, nn.Parameter(T34), [1], "a", 1, 3]],
    ),
    "objects": (
        "n: int",
        "a, b = Square(n), Unit(n)\n"
        "return type(a).__name__, type(b).__name__, type(Point(n)).__name__, type(Color.RED).__name__",
        [[1]],
    ),
    "sizes": (
        "x: Tensor",
        "s = x.shape\nreturn type(x.shape).__name__, type(s).__name__, type(x.split(1)).__name__",
        [[T34]],
    ),
}


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_what_a_handler_asks(name):
    check_case(EXCEPTIONS, name, dict.fromkeys(EXCEPTIONS, "has no try"), HEAD)


@pytest.mark.parametrize("name", CLASSES)
def test_names_of_classes(name):
    check_case(CLASSES, name, dict.fromkeys(CLASSES, "no classes as values"), HEAD)


def test_the_name_of_the_class_of_a_module():
    class Net(nn.Module):
        def forward(self, x):
            return f"{type(self).__name__}: {type(x).__name__}"

    assert jitlite.script(Net())(T34) == "Net: Tensor"


@pytest.mark.parametrize(
    "body",
    [
        "return isinstance(e, 5)",
        "return isinstance(e, int)",
        "return e.errno",
        "return type(e).no_such",
        "return e.args",
    ],
)
def test_what_is_refused(body):
    function = compile_source(source_of("n: int", f"{RAISING} {body}", HEAD))["f"]
    with pytest.raises(CompileError) as caught:
        jitlite.script(function)
    assert "HERE" in str(caught.value)
