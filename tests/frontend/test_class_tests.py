"""`type(x) is C` means what it means in eager Python, and refines as isinstance does."""

from __future__ import annotations

import pytest
import torch
from accepted_python import T34, Table, check_case

import jitlite

HEAD = """
class Shape:
    def __init__(self, n: int):
        self.n = n

    def area(self) -> int:
        return 0

class Square(Shape):
    def area(self) -> int:
        return self.n * self.n

class Tall(Square):
    def area(self) -> int:
        return self.n * 10

def area_of(s: Shape, times: int = 1) -> int:
    return s.area() * times

def both(s: Shape, t: Shape) -> int:
    return area_of(s) - area_of(t, times=2) if isinstance(s, Square) else -1

NUMBERS_OF = (int, float)

def kind(x):
    if type(x) is int:
        return "int"
    elif type(x) == list or type(x) == tuple:
        return str(len(x))
    elif type(x) in (str, bytes):
        return x.upper()
    return "other"

def rows(x):
    if type(x) is not list:
        x = [x]
    return torch.stack(x)
"""

CLASSES: Table = {
    "known": (
        "x: int, y: float, b: bool, t: Tuple[int, int], d: Dict[str, int], xs: List[int]",
        "return type(x) is int, type(y) == float, type(b) is int, type(b) is bool, type(t) is tuple, type(xs) == list, "
        "type(d) is dict, type(x) != int, type(x) is not float, type(x) in NUMBERS_OF, type(x) is type(y)",
        [[1, 2.0, True, (1, 2), {"a": 1}, [1]]],
    ),
    "tensors": (
        "x: Tensor, n: int",
        "return type(x) is Tensor, type(x) == torch.Tensor, type(x) is int, type(n) is Tensor, "
        "type(x) in (list, tuple)",
        [[T34, 1]],
    ),
    "unions": (
        "x: Union[int, str, None]",
        "return type(x) is int, type(x) == str, type(x) in (int, float), type(x) not in [int], type(x) is type(None)",
        [[1], ["a"], [None]],
    ),
    "refined": (
        "x: Union[int, List[int], str]",
        "if type(x) is int:\n  return [x, x]\nif type(x) != str:\n  return x\nreturn [len(x)]",
        [[1], [[3]], ["ab"]],
    ),
    "refined by several": (
        "x: Union[int, float, List[int]], y: Optional[int]",
        "n = 0\nif type(x) in (int, float) and type(y) is int:\n  n = y + 1\n"
        "elif type(x) is list:\n  n = len(x)\nreturn n",
        [[1, 2], [[3], 2], [2.5, None]],
    ),
    "without annotation": ("n: int", "return kind(n), kind([n]), kind((n, 2)), kind('a'), kind(1.5)", [[1]]),
    "tensors without annotation": ("x: Tensor", "return rows(x), rows([x, x])", [[T34]]),
    "objects": (
        "n: int",
        "s = Square(n)\np = Point(n)\n"
        "return type(s) is Square, type(s) is Shape, type(s) == Shape, isinstance(s, Shape), type(p) is Point, "
        "type(p) is tuple, type(Color.RED) is Color",
        [[1]],
    ),
    "where a base class is annotated": (
        "n: int",
        "s: Shape = Square(n)\nt: Square = Tall(n)\n"
        "return area_of(s), area_of(t, 2), area_of(Shape(1)), both(s, t), both(Shape(n), t), both(t=s, s=t), s.area(), "
        "type(s) is Shape, isinstance(t, Tall)",
        [[3]],
    ),
    "any": ("x: Any", "return type(x) is int, type(x) in (str, float)", [[1], ["a"], [None], [[1]], [2.5]]),
    "sizes": (
        "x: Tensor",
        "return type(x.shape) is list, type(x.shape) == torch.Size, type(x.shape) is tuple",
        [[T34]],
    ),
    "a name of the program": ("x: int", "type = 3\nreturn type == x", [[3]]),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    check_case(CLASSES, name, head=HEAD)


def test_a_parameter_is_no_plain_tensor():
    def asks(x: torch.Tensor):
        return type(x) is torch.Tensor

    parameter = torch.nn.Parameter(T34)
    assert jitlite.script(asks)(parameter) is False and jitlite.script(asks)(T34) is True


def test_modules():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.ReLU6(), torch.nn.Linear(2, 2)])

        def forward(self, x: torch.Tensor):
            n = 0
            for part in self.parts:
                if type(part) == torch.nn.ReLU:  # noqa: E721
                    n += 1
                elif type(part) in (torch.nn.Linear, torch.nn.Conv2d):
                    n += part.in_features * 10
            return n

    assert jitlite.script(Net())(torch.ones(1)) == Net()(torch.ones(1)) == 21
