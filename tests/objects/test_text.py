"""Programs given as text: CompilationUnit, define, and what TorchScript's text accepts."""

from __future__ import annotations

import math

import pytest
import torch

import jitlite
from jitlite.executor.engine import new_program
from jitlite.objects.text import define_text


def unit(text: str) -> jitlite.CompilationUnit:
    return jitlite.CompilationUnit(text)


SPELLINGS = {
    "indented": ("\n    def f(x: int):\n        return x + 1\n", (1,), 2),
    "tabs": ("\tdef f(x: int):\n\t\treturn x + 1\n", (1,), 2),
    "indented twice": ("  def f(x: int):\n    return g(x)\n  def g(x: int) -> int:\n    return x + 1\n", (1,), 2),
    "blanks at the end": ("def f(x: int):\n  return x\n     ", (1,), 1),
    "no line end": ("def f(x: int): return x", (1,), 1),
    "other line ends": ("def f(x: int):\r\n  return x\r\n", (1,), 1),
    "comments": ("# a\ndef f(x: int): # b\n      y = x\n # c\n      return y\n", (1,), 1),
    "a comment before indentation": ("# a\n    def f(x: int):\n      return x\n", (1,), 1),
    "a line that goes on": ("def f(x: int):\n  return x + \\\n    1\n", (1,), 2),
    "type comment": ("def f(x, y):\n  # type: (int, float) -> float\n  return x * y\n", (2, 1.5), 3.0),
    "type comment of a variable": ("def f():\n  x = [] # type: List[int]\n  return x\n", (), []),
    "type comment for each": ("def f(x, # type: int\n  y # type: str\n ):\n # type: (...) -> str\n return y + str(x)\n",
                              (2, "a"), "a2"),
    "types without import": ("def f(x: Optional[List[Tuple[int, str]]], d: Dict[str, Any]) -> int:\n  return 1\n",
                             (None, {}), 1),
    "None as result type": ("def f(x: int) -> NoneType:\n  return None\n", (1,), None),
    "a type as a string": ("def f(x: 'List[int]'):\n  return x\n", ([1],), [1]),
    "union of types": ("def f(x: int | None):\n  return x\n", (None,), None),
    "a list for one": ("def f(x: BroadcastingList2[int]):\n  return x\n", (3,), [3, 3]),
    "adjacent strings": ("def f():\n  return 'a' \"b\" '\\101\\n'\n", (), "abA\n"),
    "numbers": ("def f():\n  return 1. + .5 + 1e2 + 0x1F, 2j\n", (), (132.5, 2j)),
    "nothing returned": ("def f(x: int):\n  pass\n", (1,), None),
    "forward reference": ("def f(x: int):\n  return g(x)\ndef g(x: int):\n  return x * 2\n", (4,), 8),
    "recursion": ("def f(x: int) -> int:\n  if x < 2:\n    return 1\n  return x * f(x - 1)\n", (5,), 120),
    "mutual recursion": ("def f(x: int) -> bool:\n  return True if x == 0 else g(x - 1)\n"
                         "def g(x: int) -> bool:\n  return False if x == 0 else f(x - 1)\n", (5,), False),
    "the last of a name": ("def f(x: int):\n  return x\ndef f(x: int):\n  return x + 1\n", (1,), 2),
    "precedence is Python's": ("def f(a: bool, b: bool):\n  return a or b and b\n", (True, False), True),
    "chains are Python's": ("def f(a: int):\n  return 3 > a > 1\n", (2,), True),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name):
    text, arguments, expected = SPELLINGS[name]
    assert unit(text).f(*arguments) == expected


DEFAULTS = {
    "int": "-3", "float": "1e5", "Optional[int]": "None", "str": "'a'", "bool": "True", "complex": "2j",
    "List[int]": "[1, -2]", "Tuple[int, str]": "(1, 'a')", "Dict[str, int]": "{'a': 1}", "List[List[int]]": "[[1], []]",
    "Optional[float]": ".5", "Any": "0x10",
}  # fmt: skip


@pytest.mark.parametrize("type", DEFAULTS)
def test_defaults(type):
    text = DEFAULTS[type]
    made = unit(f"def f(x: {type} = {text}):\n  return x\ndef g(*, x: {type} = {text}):\n  return x\n")
    assert made.f() == eval(text) and made.g() == eval(text)
    assert made.g(x=made.f()) == eval(text)


def test_defaults_that_are_computed():
    base = 4  # noqa: F841
    made = jitlite.CompilationUnit("def f(x: int = 1 + 2 * base, y: float = float('inf')):\n  return x, y\n")
    assert made.f() == (9, math.inf)
    assert [f.name for f in made.get_functions()] == ["f"]
    with pytest.raises(jitlite.CompileError, match="nope"):
        unit("def f(x: int = nope):\n  return x\n")
    with pytest.raises(jitlite.CompileError, match="cannot be computed: ZeroDivisionError"):
        unit("def f(x: int = 1 // 0):\n  return x\n")


def test_defaults_are_checked():
    with pytest.raises(jitlite.CompileError, match="default"):
        unit("def f(x: int = 'a'):\n  return x\n")


def test_names_of_the_caller():
    k = 5  # noqa: F841

    def helper(x: int) -> int:
        return x * 10

    assert jitlite.CompilationUnit("def f(x: int):\n  return helper(x) + k\n").f(1) == 15

    def made(text: str):
        return jitlite.CompilationUnit(text, _frames_up=1)

    assert made("def f(x: int):\n  return x + k\n").f(1) == 6


def test_names_from_a_callback():
    made = jitlite.CompilationUnit()
    made.define("def f(x: int):\n  return x + z\n", rcb={"z": 7}.get)
    assert made.f(1) == 8
    with pytest.raises(jitlite.CompileError, match="undefined value zz"):
        made.define("def g(x: int):\n  return x + zz\n", rcb={"z": 7}.get)


def test_a_unit_grows():
    made = unit("def f(x: int):\n  return x\n")
    made.define("def g(x: int):\n  return f(x) + 1\n")
    assert made.g(1) == 2
    made.define("def f(x: int):\n  return x * 100\n")
    assert made.f(1) == 100 and made.g(1) == 2, "what was compiled before keeps what it called"
    assert sorted(f.name for f in made.get_functions()) == ["f", "g"]
    assert made.find_function("nope") is None
    with pytest.raises(AttributeError, match="no function or class 'nope'"):
        made.nope  # noqa: B018


def test_a_text_with_an_error_leaves_nothing():
    made = unit("def f(x: int):\n  return x\n")
    with pytest.raises(jitlite.CompileError):
        made.define("class C:\n  a: int\ndef g(x: int):\n  return x\ndef f(x: int):\n  return undefined_name\n")
    assert [f.name for f in made.get_functions()] == ["f"] and made.f(3) == 3
    made.define("class C:\n  def get(self):\n    return 1\ndef h():\n  return C().get()\n")
    assert made.h() == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "expected a function or class definition"),
        ("import torch\n", "expected a function or class definition"),
        ("def f(x: int)\n  return x\n", "invalid Python"),
        ("def f(x):\n    return x\n  def g(y): return y\n", "invalid Python"),
        ("def f(x: Nope):\n  return x\n", "Unknown type name 'Nope'"),
        ("def f():\n  return inf\n", "undefined value inf"),
    ],
)
def test_errors(text, message):
    with pytest.raises(jitlite.CompileError, match=message):
        unit(text)


def test_places_are_those_of_the_text():
    with pytest.raises(jitlite.CompileError, match=r"given\.py:3:9"):
        jitlite.CompilationUnit("\ndef f(x: int):\n  return nope\n", filename="given.py")


def test_empty_text():
    assert unit("").get_functions() == unit("\n# nothing\n").get_functions() == []


# -- classes

CLASSES = '''
class Pair(NamedTuple):
    x: int
    inner: Inner
    y: Optional[Tensor] = None

class Inner(NamedTuple):
    color: Color
    n: int = 3

class Color(Enum):
    """A doc string."""
    RED = 1
    BLUE = -2

class Reader(Interface):
    def read(self, k: int = 2) -> int:
        pass

class Tree:
    LIMIT = 10
    value: int
    children: List[Tree]

    def __init__(self, value: int, scale: float = 2):
        self.value = value
        self.children = []
        self.scale = scale
        self.owner = None  # type: Optional[Owner]

    def read(self, k: int = 2) -> int:
        return self.value + k + Tree.LIMIT

    def add(self, child):
        # type: (Tree) -> None
        self.children.append(child)

    def total(self) -> int:
        found = self.value
        for c in self.children:
            found += c.total()
        return found

    def __len__(self) -> int:
        return len(self.children)

    def __eq__(self, other: Tree) -> bool:
        return self.value == other.value

    def __lt__(self, other: Tree) -> bool:
        return self.value < other.value

class Owner:
    def __init__(self, tree: Tree):
        self.tree = tree

def grow(n: int) -> Tree:
    root = Tree(n)
    root.add(Tree(1, scale=4.))
    root.owner = Owner(root)
    return root

def read(r: Reader) -> int:
    return r.read() + r.read(5)

def read_tree(t: Tree):
    return read(t)

def ordered(ts: List[Tree]):
    ts.sort()
    return [t.value for t in ts]

def pair(c: Color) -> Pair:
    return Pair(1, Inner(c))

def is_red(c: Color) -> bool:
    return c == Color.RED

def direct(t: Tree):
    return Tree.read(t, 1)
'''


def test_classes_and_their_objects():
    made = unit(CLASSES)
    root = made.grow(3)
    assert isinstance(root, made.Tree) and (root.value, root.scale, len(root), root.total()) == (3, 2, 1, 4)
    assert root.owner.tree is root
    assert root.read() == 15 and root.read(k=3) == 16 and made.Tree.read(root, 1) == made.direct(root) == 14
    assert made.read_tree(root) == 15 + 18
    assert made.ordered([made.Tree(3), made.Tree(1)]) == [1, 3]
    assert made.Tree(3) == root and made.Tree(4).scale == 2.0 and made.Tree.LIMIT == 10
    with pytest.raises(TypeError, match="unhashable"):
        hash(root)
    with pytest.raises(RuntimeError, match="argument 'value'"):
        made.Tree("a")
    with pytest.raises(TypeError, match="object of Tree"):
        made.Tree.read(3)


def test_named_tuples_and_enums():
    made = unit(CLASSES)
    result = made.pair(made.Color.BLUE)
    assert isinstance(result, made.Pair) and result == (1, (made.Color.BLUE, 3), None)
    assert made.is_red(made.Color.RED) and not made.is_red(made.Color.BLUE)
    assert made.Color.BLUE.value == -2
    with pytest.raises(RuntimeError, match="Color"):
        made.is_red(1)


def test_units_share_no_classes():
    first, second = unit(CLASSES), unit(CLASSES)
    assert first.Tree is not second.Tree
    with pytest.raises(RuntimeError, match="argument 't'"):
        second.read_tree(first.grow(1))
    assert second.is_red(first.Color.RED), "members of an Enum of one name, with one value, are the unit's own"


def test_classes_of_earlier_texts_and_of_python():
    made = unit(CLASSES)
    made.define("def twice(t: Tree) -> int:\n  return 2 * t.total()\n")
    assert made.twice(made.grow(3)) == 8
    tree = made.Tree  # noqa: F841
    assert jitlite.CompilationUnit("def f(t: tree) -> int:\n  return t.total()\n").f(made.grow(3)) == 4

    def scripted(t: tree) -> int:
        return t.read(1) + tree(5).total()

    scripted.__annotations__ = {}
    assert jitlite.script(scripted)(made.grow(3)) == 19


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class X(Y):\n  pass", "cannot inherit from 'Y'"),
        ("@x\nclass X:\n  pass", "decorators aren't supported in a text: '@x' of 'X'"),
        ("class X:\n  @property\n  def f(self): return 1", "decorators aren't supported in a text: '@property' of 'f'"),
        ("class X(A, B):\n  pass", "one base at most"),
        ("class X:\n  if 1:\n    pass", "expected a method or an attribute"),
        ("class X:\n  a.b = 1", "assigned to one name"),
        ("class X:\n  def f():\n    pass", "self"),
        ("class X:\n  def f(self):\n    return self.y", "'y'"),
        ("class X(NamedTuple):\n  a = 1", "needs a type"),
        ("class X(NamedTuple):\n  a: int = 1\n  b: int", "without default"),
        ("class X(NamedTuple):\n  a: X", "Unknown type name 'X'"),
        ("class X(Enum):\n  A: int", "needs a value"),
        ("class X(Enum):\n  A = 1\n  def f(self): return 1", "methods of named tuples and enums"),
        ("class X(Interface):\n  def f(self, x):\n    pass", "parameter without a type"),
    ],
)
def test_errors_in_classes(text, message):
    with pytest.raises(jitlite.CompileError, match=message):
        unit(text)


def test_qualified_names():
    program = new_program()
    found = define_text(
        program,
        "class A:\n  def f(self) -> int:\n    return 1\ndef g(a: A): return a.f()\n",
        prefix="__torch__.some.module",
    )
    assert found.functions["g"].qualified_name == "__torch__.some.module.g"
    assert found.classes["A"].__module__ == "some.module"
    assert str(found.functions["g"].schema) == "g(__torch__.some.module.A a) -> int"
    assert "__torch__.some.module.A.f" in program.unit


# -- methods


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.k = 3

    def forward(self, x):
        return x * self.k


def test_define_adds_methods_to_a_module():
    m = jitlite.script(Scale())
    offset = 1.5  # noqa: F841
    m.define(
        """
        def shifted(self, x, by: float = offset):
            # type: (Tensor, float) -> Tensor
            return self.forward(x) + by + self.twice(self.k)
        def twice(self, n: int) -> int: return 2 * n
        """
    )
    assert m.shifted(torch.ones(1)).item() == 10.5 and m.twice(4) == 8
    m.define("def thrice(self, n: int):\n  return n + self.twice(n)\n")
    assert m.thrice(2) == 6


def test_define_that_fails_adds_nothing():
    m = jitlite.script(Scale())
    with pytest.raises(jitlite.CompileError, match="nope"):
        m.define("def good(self):\n  return 1\ndef bad(self):\n  return nope\n")
    assert not hasattr(m, "good") and not hasattr(m, "bad")
    assert m(torch.ones(1)).item() == 3
