"""Classes whose methods have no annotation of the result meet interfaces wherever annotated ones do."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from typing import Any
from unittest import mock

import pytest

import jitlite
from jitlite.ir.unit import Function

CLASSES = """
import torch
import jitlite
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

@jitlite.interface
class I(object):
    def run(self, x: int) -> int: pass

class A:
    def __init__(self, k: int) -> None: self.k = k
    def run(self, x: int){result}: return self.twice(x) + self.k
    def twice(self, x: int){result}: return x * 2

class B:
    def __init__(self, k: int) -> None: self.k = k
    def run(self, x: int){result}: return x - self.k

class H:
    i: Optional[I]
    l: List[I]
    def __init__(self) -> None:
        self.i = None
        self.l = []

class S(NamedTuple):
    i: I
    n: int

def same(i: I) -> I: return i
def call(x: int, i: Optional[I] = None) -> int: return x if i is None else i.run(x)
def is_one(a: Any) -> int: return 1 if isinstance(a, I) else 0
def make() -> Any: return A(1)
def is_made() -> int: return is_one(make())
"""

PLACES = {
    "variable": "a: I = A(3)\nreturn a.run(x)",
    "optional": "a: Optional[I] = A(3)\nassert a is not None\nreturn a.run(x)",
    "tuple": "a: Tuple[I, int] = (A(3), 2)\nreturn a[0].run(x)",
    "union": "a: Union[I, int] = A(1)\nif isinstance(a, int):\n    return x\nreturn a.run(x)",
    "variable, one after another": "a: I = A(3)\nb: I = a\na = B(1)\nreturn a.run(x) + b.run(x)",
    "branch": "a: I = A(1)\nif x > 0:\n    a = B(2)\nreturn a.run(x)",
    "branches": "if x > 0:\n    a = same(A(1))\nelse:\n    a = B(2)\nreturn a.run(x)",
    "branches, the class first": "if x > 0:\n    a: I = A(1)\nelse:\n    a = B(2)\nreturn a.run(x)",
    "loop": "a: I = same(A(1))\nfor i in range(3):\n    a = B(i)\nreturn a.run(x)",
    "while": "a: I = same(A(1))\nn = 0\nwhile n < 2:\n    n += 1\n    a = B(n)\nreturn a.run(x)",
    "try": "a: I = A(1)\ntry:\n    a = B(7)\nfinally:\n    n = 1\nreturn a.run(x)",
    "conditional": "i = same(A(1))\na = B(1) if x > 0 else i\nb = i if x > 0 else B(1)\nreturn a.run(x) + b.run(x)",
    "unpacking": "a: I = A(1)\na, b = B(2), 3\nreturn a.run(x) + b",
    "list": "a: List[I] = [A(1), B(2)]\nreturn a[0].run(x) + a[1].run(x)",
    "list of tuples": "a: List[Tuple[I, int]] = [(A(1), 2)]\nreturn a[0][0].run(x)",
    "mixed list": "a = [B(2), same(A(1))]\nreturn a[0].run(x)",
    "list element": "a = [same(A(1))]\na[0] = B(2)\na.insert(0, B(3))\nreturn a[0].run(x) + a[1].run(x)",
    "list comprehension": "a: List[I] = [B(i) for i in range(3)]\nreturn a[1].run(x)",
    "append": "a: List[I] = []\nfor b in [A(1), A(2)]:\n    a.append(b)\nreturn a[1].run(x)",
    "dict": "d: Dict[int, I] = {1: A(1), 2: B(2)}\nreturn d[2].run(x)",
    "dict comprehension": "d: Dict[int, I] = {i: B(i) for i in range(3)}\nreturn d[1].run(x)",
    "dict element": "d: Dict[int, I] = {}\nd[1] = B(2)\nreturn d[1].run(x)",
    "setdefault": "d: Dict[int, I] = {}\nd.setdefault(1, B(2))\nreturn d[1].run(x)",
    "get": "d: Dict[int, I] = {}\nreturn d.get(1, B(2)).run(x)",
    "annotate": "a = torch.jit.annotate(Optional[I], A(3))\nassert a is not None\nreturn a.run(x)",
    "attribute": "h = H()\nh.i = B(2)\ni = h.i\nassert i is not None\nreturn i.run(x)",
    "list in an attribute": "h = H()\nh.l.append(B(2))\nreturn h.l[0].run(x)",
    "named tuple": "return S(A(2), 3).i.run(x)",
    "argument": "return call(x, A(2)) + call(x, i=B(2))",
    "starred argument": "t = (x, A(1))\nreturn call(*t)",
    "nested function": "def g(i: I) -> int: return i.run(x)\nreturn g(A(2))",
    "lambda": "g = lambda i: call(x, i)\nreturn g(A(3))",
    "result": "def g() -> I: return A(2)\nreturn g().run(x)",
    "result in a tuple": "def g() -> Tuple[I, int]: return A(2), 3\nreturn g()[0].run(x)",
    "fork": "return torch.jit.wait(torch.jit.fork(call, x, A(1)))",
}

_numbers = itertools.count()


def run_source(scope: dict[str, Any], source: str) -> None:
    """Run source in a scope, such that its lines are known."""
    name = f"<interfaces {next(_numbers)}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    exec(compile(source, name, "exec", dont_inherit=True), scope)


def program(body: str, result: str = "") -> dict[str, Any]:
    """Fresh classes, and a function `f` of an int with this body."""
    source = CLASSES.format(result=result) + "\ndef f(x: int) -> int:\n" + textwrap.indent(body, "    ") + "\n"
    scope: dict[str, Any] = {"__name__": f"interfaces{next(_numbers)}"}
    run_source(scope, source)
    return scope


@pytest.mark.parametrize("result", ["", " -> int"], ids=["inferred", "annotated"])
@pytest.mark.parametrize("place", PLACES)
def test_a_class_meets_an_interface(place: str, result: str):
    scope = program(PLACES[place], result)
    assert jitlite.script(scope["f"])(5) == scope["f"](5)


@pytest.mark.parametrize("first", ["f", "is_made", "call", "make"])
@pytest.mark.parametrize("result", ["", " -> int"], ids=["inferred", "annotated"])
def test_isinstance_finds_the_same_whatever_was_compiled_before(result: str, first: str):
    scope = program("a: Any = A(1)\nreturn 1 if isinstance(a, I) else 0", result)
    jitlite.script(scope[first])
    assert jitlite.script(scope["f"])(5) == 1
    assert jitlite.script(scope["is_made"])() == 1
    assert jitlite.script(scope["is_one"])(scope["B"](1)) == 1
    assert jitlite.script(scope["is_one"])(scope["H"]()) == 0


BAD = """
class Bad:
    def run(self, x: int): return x.no_such_method()
    def other(self) -> int: return 3
"""


def test_a_method_that_does_not_compile_is_no_error_where_nothing_needs_it():
    scope = program("a: Any = Bad()\ni: I = A(1)\nreturn Bad().other() + (100 if isinstance(a, I) else i.run(x))")
    run_source(scope, BAD)
    assert jitlite.script(scope["f"])(5) == 14


@pytest.mark.parametrize("body", ["a: I = Bad()\nreturn a.run(x)", "def g() -> I: return Bad()\nreturn g().run(x)"])
def test_a_method_that_does_not_compile_is_the_reason_why_its_class_is_of_no_interface(body: str):
    scope = program(body)
    run_source(scope, BAD)
    with pytest.raises(jitlite.CompileError, match="no_such_method"):
        jitlite.script(scope["f"])


LINKED = """
@jitlite.interface
class Link(object):
    def next(self) -> "Link": pass
    def value(self, other: "Link") -> int: pass

class Chain:
    def __init__(self, k: int) -> None: self.k = k
    def next(self): return Chain(self.k + 1)
    def value(self, other: Link): return self.k

def third(x: int) -> int:
    link: Link = Chain(x)
    return link.next().next().value(link)
"""


def test_an_interface_may_mention_itself():
    scope = program("return x")
    run_source(scope, LINKED)
    assert jitlite.script(scope["third"])(5) == 7


MAKERS = """
@jitlite.interface
class Maker(object):
    def make(self) -> I: pass

class MakesA:
    def make(self): return A(1)

def made(x: int) -> int:
    maker: Maker = MakesA()
    return maker.make().run(x)
"""


def test_results_that_are_of_an_interface_themselves():
    scope = program("return x")
    run_source(scope, MAKERS)
    assert jitlite.script(scope["made"])(5) == 11


RECURSIVE = """
class Back:
    def run(self, x: int): return use(x - 1) + 1

def use(x: int):
    i: I = A(1)
    back = Back()
    return i.run(x) if x >= 0 else 0

def both(x: int) -> int: return use(x) + Back().run(x)
"""


def test_a_method_that_calls_the_function_being_compiled_is_compiled_when_it_is_reached():
    scope = program("return x")
    run_source(scope, RECURSIVE)
    assert jitlite.script(scope["both"])(5) == scope["both"](5)


def test_classes_that_mention_each_other_and_do_not_compile_are_tried_a_few_times_only():
    names = [f"C{i}" for i in range(6)]
    body = f"i: I = A(1); {'; '.join(f'{name}()' for name in names)}; return fail(x)"
    classes = "\n".join(f"class {name}:\n    def run(self, x: int): {body}" for name in names)
    scope = program("i: I = A(1)\na = C0()\nreturn a.run(x)")
    run_source(scope, "def fail(x: int): return x.no_such_method()\n" + classes)
    counted = mock.patch.object(Function, "ensure_compiled", autospec=True, side_effect=Function.ensure_compiled)
    with counted as compile_body, pytest.raises(jitlite.CompileError, match="no_such_method"):
        jitlite.script(scope["f"])
    assert compile_body.call_count < 500
