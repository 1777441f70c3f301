"""Script classes: what Python code does with objects, scripts do too."""

from __future__ import annotations

import copy
import dataclasses
import enum
from abc import ABC, abstractmethod
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict, List, NamedTuple, Optional, Tuple, Union

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite.executor.engine import new_program
from jitlite.ir.types import is_subtype, why_not_interface


def outcome(fn: Any, *args: Any) -> Any:
    """What a call gives, or how it fails, and what it has done to its arguments."""
    args = copy.deepcopy(args)
    try:
        result = plain(fn(*args))
    except Exception as error:
        result = type(error), str(error)
    return result, [plain(a) for a in args]


def plain(value: Any) -> Any:
    """Values in a form that can be compared, whatever their classes define."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, tuple):
        return type(value).__name__, [plain(v) for v in value]
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if hasattr(value, "__dict__") and not isinstance(value, enum.Enum | type):
        return type(value).__name__, {k: plain(v) for k, v in vars(value).items() if not k.startswith("__jitlite")}
    return value


def same(fn: Any, *args: Any) -> None:
    eager = outcome(fn, *args)
    assert outcome(jitlite.script(fn), *args) == eager


# -- methods, properties, class members


class Account:
    RATE = 0.5
    NAMES = ("a", "b")

    def __init__(self, owner: str, balance: int = 10):
        self.owner = owner
        self._balance = balance
        self.log: List[str] = []
        self.parent: Optional[Account] = None

    @property
    def balance(self) -> int:
        return self._balance

    @balance.setter
    def balance(self, value: int) -> None:
        self.log.append(f"{self._balance}->{value}")
        self._balance = value

    @property
    def doubled(self) -> int:
        return 2 * self.balance

    def deposit(self, amount: int, times: int = 1) -> int:
        for _ in range(times):
            self.balance += amount
        return self.balance

    def total(self) -> int:
        parent = self.parent
        if parent is None:
            return self.balance
        return self.balance + parent.total()

    @staticmethod
    def describe(n: int) -> str:
        return f"n={n}"

    @classmethod
    def make(cls, n: int) -> Account:
        made = cls("made", n)
        return made

    def interest(self) -> float:
        return self.RATE * self.balance + Account.RATE


def use_methods(n: int):
    a = Account("ann", balance=n)
    b = Account(owner="bob")
    b.parent = a
    a.deposit(5)
    a.deposit(times=2, amount=1)
    b.balance = 7
    b.balance -= 1
    return a, b.total(), a.doubled, b.log, a.interest(), Account.describe(3), a.describe(4), Account.make(9).balance


def use_class_members(a: Account):
    x, y = Account.NAMES
    return x + y + a.NAMES[1], a.RATE, Account.RATE


def test_methods_and_properties():
    same(use_methods, 3)
    same(use_class_members, Account("x"))


def test_class_constant_without_setter_is_no_attribute():
    def assigns(a: Account):
        a.doubled = 3
        return a

    with pytest.raises(jitlite.CompileError, match="doubled"):
        jitlite.script(assigns)


# -- operators


class Vec:
    def __init__(self, x: int, y: int):
        self.x = x
        self.y = y

    def __add__(self, other: Vec) -> Vec:
        return Vec(self.x + other.x, self.y + other.y)

    def __sub__(self, other: Vec) -> Vec:
        return Vec(self.x - other.x, self.y - other.y)

    def __mul__(self, k: int) -> Vec:
        return Vec(self.x * k, self.y * k)

    def __rmul__(self, k: int) -> Vec:
        return Vec(self.x * k, self.y * k + 100)

    def __matmul__(self, other: Vec) -> int:
        return self.x * other.x + self.y * other.y

    def __neg__(self) -> Vec:
        return Vec(-self.x, -self.y)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vec) and self.x == other.x and self.y == other.y

    def __lt__(self, other: Vec) -> bool:
        return self.x < other.x

    def __le__(self, other: Vec) -> bool:
        return self.x <= other.x

    def __hash__(self) -> int:
        return self.x * 31 + self.y

    def __bool__(self) -> bool:
        return self.x != 0 or self.y != 0

    def __int__(self) -> int:
        return self.x

    def __float__(self) -> float:
        return float(self.x) / 2

    def __str__(self) -> str:
        return f"<{self.x}, {self.y}>"

    def __abs__(self) -> int:
        return abs(self.x) + abs(self.y)

    def __call__(self, k: int = 2) -> int:
        return self.x * k

    def __iadd__(self, other: Vec) -> Vec:
        self.x += other.x
        return self


def use_operators(a: Vec, b: Vec):
    c = a
    c += b
    return a + b, a - b, a * 3, 3 * a, a @ b, -a, c, abs(b), int(a), float(a), str(a), a(), a(k=5), bool(a), not a


def use_comparisons(a: Vec, b: Vec):
    return a == b, a != b, a < b, a <= b, a > b, a >= b, a is b, a is not b, hash(a)


def use_truth(a: Vec) -> int:
    if a:
        return 1
    while not a:
        a.x += 1
    return 2 if a and True else 3


class NoTruth:
    def get(self) -> int:
        return 3


def use_truth_without_method(t: Table, x: NoTruth):
    before = bool(t)
    t["k"] = [1]
    return before, bool(t), not t, bool(x), 1 if x else 2


def use_formatting(a: Vec):
    return "{}".format(a), f"{a}!"


def use_sort(vs: List[Vec]):
    vs.sort()
    ranked = sorted(vs)
    vs.sort(reverse=True)
    return vs, ranked


@pytest.mark.parametrize("fn", [use_operators, use_comparisons])
def test_operators(fn):
    same(fn, Vec(1, 2), Vec(3, 4))
    same(fn, Vec(1, 2), Vec(1, 2))


def test_truth_formatting_and_order():
    same(use_truth, Vec(1, 0))
    same(use_truth, Vec(0, 0))
    same(use_truth_without_method, Table(), NoTruth())
    same(use_formatting, Vec(1, 0))
    same(use_sort, [Vec(3, 1), Vec(1, 1), Vec(2, 2)])


# -- containers


class Table:
    def __init__(self):
        self.rows: Dict[str, List[int]] = {}
        self.deleted = 0

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, key: str) -> bool:
        return key in self.rows

    def __getitem__(self, key: str) -> List[int]:
        return self.rows[key]

    def __setitem__(self, key: str, value: List[int]) -> None:
        self.rows[key] = value

    def __delitem__(self, key: str) -> None:
        del self.rows[key]
        self.deleted += 1


class Row:
    def __init__(self, xs: List[int]):
        self.xs = xs

    def __len__(self) -> int:
        return len(self.xs)

    def __getitem__(self, i: int) -> int:
        return self.xs[i]


def use_table(t: Table):
    t["a"] = [1]
    t["b"] = []
    t["a"].append(3)
    t["a"] += [4]
    del t["b"]
    return len(t), "a" in t, "b" not in t, t["a"], t


def use_missing(t: Table):
    return t["zzz"]


def use_iteration(r: Row):
    total = 0
    for x in Row([10, 20]):
        total += x
    for i, x in enumerate(r):
        total += i * x
    for x, y in zip(r, [1, 2, 3]):
        total += x * y
    return total, [x * 2 for x in r]


def test_containers():
    same(use_table, Table())
    same(use_missing, Table())


def test_iteration_by_index():
    same(use_iteration, Row([1, 2, 3]))


def test_not_iterable():
    def loops(t: Vec):
        for x in t:
            print(x)

    with pytest.raises(jitlite.CompileError, match="not iterable"):
        jitlite.script(loops)


# -- inheritance


class Shape:
    KIND = "shape"

    def __init__(self, name: str):
        self.name = name

    def area(self) -> float:
        return 0.0

    def show(self) -> str:
        return f"{self.KIND} {self.name} {self.area()}"


class Named:
    def tag(self) -> str:
        return "tag"


class Square(Shape):
    KIND = "square"

    def __init__(self, side: float):
        super().__init__("sq")
        self.side = side

    def area(self) -> float:
        return self.side**2


class Cube(Square, Named):
    def __init__(self, side: float, depth: int):
        super().__init__(side)
        self.depth = depth

    def area(self) -> float:
        return super().area() * 6 + Square.area(self)

    def show(self) -> str:
        return "cube: " + super().show() + self.tag()


class Abstract(ABC):
    @abstractmethod
    def value(self) -> int: ...

    def twice(self) -> int:
        return 2 * self.value()


class Concrete(Abstract):
    def value(self) -> int:
        return 21


def use_inheritance(c: Cube, s: Square):
    return c.show(), s.show(), Cube(1.0, 2).area(), Shape("x").show(), Concrete().twice()


def use_subclass_checks(c: Cube):
    return isinstance(c, Cube), isinstance(c, Shape), isinstance(c, Vec), isinstance(c, (Named, int))


def test_inheritance():
    same(use_inheritance, Cube(2.0, 1), Square(3.0))
    same(use_subclass_checks, Cube(2.0, 1))


# -- dataclasses


@dataclass
class Base:
    a: int
    b: float = 1.5


@dataclass(order=True)
class Point(Base):
    tags: List[str] = field(default_factory=list, compare=False)
    scale: dataclasses.InitVar[int] = 3
    hidden: int = field(default=4, repr=False, compare=False)
    late: int = field(init=False)

    def __post_init__(self, scale: int):
        self.late = self.a * scale


@dataclass(frozen=True)
class Frozen:
    x: int
    y: Optional[int] = None

    def moved(self, by: int) -> Frozen:
        return Frozen(self.x + by, self.y)


@dataclass(kw_only=True)
class Options:
    size: int
    name: str = "n"
    LIMIT: ClassVar[int] = 5


def use_points(a: int):
    p, q = Point(a), Point(1, b=2.5, tags=["t"], scale=2)
    p.tags.append("x")
    return p, q, p < q, p <= q, p > q, p == q, p != q, p.late, Point(a).tags, f"{p!r}"


def use_frozen(x: int):
    f = Frozen(x).moved(2)
    return f, f == Frozen(x + 2), f == Frozen(x + 2, 1), hash(f) == hash(Frozen(x + 2)), str(f)


def use_options(n: int):
    o = Options(size=n)
    o.size += Options.LIMIT
    return o, Options(name="q", size=2), f"{o}"


def take_dataclass(p: Point) -> Point:
    p.a += 1
    p.tags = p.tags + ["more"]
    return p


def test_dataclasses():
    same(use_points, 1)
    same(use_points, 0)
    same(use_frozen, 1)
    same(use_options, 3)
    same(take_dataclass, Point(3))


def test_frozen_stays_frozen():
    def assigns(f: Frozen):
        f.x = 3
        return f

    with pytest.raises((jitlite.CompileError, dataclasses.FrozenInstanceError)):
        jitlite.script(assigns)(Frozen(1))


# -- named tuples, enums


class Pair(NamedTuple):
    x: int
    y: Tensor
    z: str = "z"


Plain = namedtuple("Plain", ["u", "v"])


class Color(enum.Enum):
    RED = 1
    BLUE = 5


class Mode(str, enum.Enum):
    FAST = "fast"
    SLOW = "slow"


def use_tuples(p: Pair, q: Plain):
    made = Pair(y=p.y, x=2)
    x, y, z = made
    return made, made.z, x, y, q.u + q.v, made[0], Plain(p.y, q.u), p._replace(x=4).x if False else p.x


def use_enums(c: Color, m: Mode):
    names = ""
    for member in Color:
        names += member.name
    found = {"c": c}
    return c, c == Color.RED, c.value + 1, c.name, names, found["c"] is Color.BLUE, m == Mode.FAST, m.value, Color.RED


def test_named_tuples():
    same(use_tuples, Pair(1, torch.ones(2)), Plain(torch.ones(1), torch.zeros(1)))


@pytest.mark.parametrize("color", Color)
def test_enums(color):
    same(use_enums, color, Mode.SLOW)


# -- interfaces


@jitlite.interface
class Source:
    def read(self, n: int) -> int:
        pass

    def name(self) -> str:
        pass


class Zeros:
    def read(self, n: int) -> int:
        return 0

    def name(self) -> str:
        return "zeros"


class Counter:
    def __init__(self, start: int):
        self.at = start

    def read(self, n: int) -> int:
        self.at += n
        return self.at

    def name(self) -> str:
        return "counter"


def read_twice(s: Source) -> int:
    return s.read(1) + s.read(2)


def use_interfaces(start: int, flag: bool):
    sources: List[Source] = [Zeros(), Counter(start)]
    total = 0
    for s in sources:
        total += read_twice(s)
    chosen: Source = Zeros()
    if flag:
        chosen = Counter(100)
    return total, chosen.name(), read_twice(Counter(1))


def test_interfaces():
    same(use_interfaces, 3, True)
    same(use_interfaces, 3, False)


def test_class_without_the_methods_is_no_implementation():
    def passes(v: Vec) -> int:
        return read_twice(v)

    with pytest.raises(jitlite.CompileError, match="read"):
        jitlite.script(passes)


class Ones:
    """A source without annotations of results."""

    def read(self, n: int):
        return 1

    def name(self):
        return "ones"


class Holder(NamedTuple):
    source: Source


def as_source() -> Source:
    return Ones()


def use_inferred(flag: bool):
    sources: List[Source] = [Ones(), Zeros()]
    more: Dict[str, Source] = {"ones": Ones()}
    made: List[Source] = [Ones() for _ in range(2)]
    total = Holder(Ones()).source.read(1) + more["ones"].read(1) + made[1].read(1) + as_source().read(1)
    for s in sources:
        total += read_twice(s)
    chosen: Source = Zeros()
    if flag:
        chosen = Ones()
    return total, chosen.name(), read_twice(Ones())


def test_results_of_methods_are_inferred_where_a_class_meets_an_interface():
    same(use_inferred, True)
    same(use_inferred, False)
    assert jitlite.script(read_twice)(Ones()) == 2


def test_types_are_compared_by_signatures_and_nothing_is_compiled():
    class Fresh:
        def read(self, n: int):
            return 1

        def name(self) -> str:
            return "fresh"

    fresh, source = new_program().type_of_class(Fresh), new_program().type_of_class(Source)
    assert not is_subtype(fresh, source) and not any(method.is_compiled for method in fresh.methods.values())
    assert "annotate it" in why_not_interface(fresh, source)
    fresh.definition.infer_results(source)
    assert is_subtype(fresh, source) and fresh.methods["read"].is_compiled and not fresh.methods["name"].is_compiled


def test_a_body_that_tells_no_result_is_the_error_of_the_call():
    class Bad:
        def read(self, n: int):
            return n.no_such_method()

        def name(self) -> str:
            return "bad"

    def passes(b: Bad) -> int:
        return read_twice(b)

    with pytest.raises(jitlite.CompileError, match="no_such_method"):
        jitlite.script(passes)
    with pytest.raises(jitlite.CompileError, match="no_such_method"):
        jitlite.script(read_twice)(Bad())


# -- context managers


class Recorder:
    def __init__(self, log: List[str], name: str):
        self.log = log
        self.name = name

    def __enter__(self) -> Recorder:
        self.log.append("enter " + self.name)
        return self

    def __exit__(self, type: Any, value: Any, trace: Any) -> None:
        self.log.append("exit " + self.name)


def use_with(log: List[str], n: int):
    with Recorder(log, "a") as r, Recorder(log, "b"):
        r.log.append("in")
        if n > 2:
            raise ValueError(f"n is {n}")
        if n > 1:
            return "early"
    for i in range(3):
        with Recorder(log, "loop"):
            if i == n:
                break
    return "end"


@pytest.mark.parametrize("n", range(4))
def test_context_managers(n):
    same(use_with, [], n)


class Swallower:
    def __init__(self, log: List[str], eats: bool):
        self.log = log
        self.eats = eats

    def __enter__(self) -> Swallower:
        return self

    def __exit__(self, type: Any, value: Any, trace: Any) -> bool:
        self.log.append("end" if type is None else "error")
        return self.eats


class FailsToLeave:
    def __enter__(self):
        pass

    def __exit__(self, type: Any, value: Any, trace: Any):
        raise KeyError("from exit")


class NeverSwallows:
    def __enter__(self) -> int:
        return 1

    def __exit__(self, type: Any, value: Any, trace: Any) -> bool:
        return False


def use_swallower(log: List[str], n: int, eats: bool):
    r = 0
    with Swallower(log, eats):
        r = 1
        if n == 0:
            raise ValueError("x")
        if n == 1:
            return 10
        r = 2
    for i in range(3):
        with Swallower(log, eats) as a, Swallower(a.log, not eats):
            if i == n - 2:
                break
            if i == 1:
                continue
            if n == 9:
                raise KeyError("k")
            r += 10
    return r


def use_failing_exit(n: int):
    try:
        with FailsToLeave():
            if n:
                raise ValueError("inner")
    except KeyError as e:
        return str(e)
    return "not reached"


def use_failing_exit_uncaught(n: int):
    with FailsToLeave():
        if n:
            raise ValueError("inner")


def use_names_of_the_body(n: int):
    with NeverSwallows() as one:
        y = one + n
        if n == 2:
            raise ValueError("n")
    return y


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("eats", [True, False])
def test_managers_that_swallow_exceptions(n, eats):
    same(use_swallower, [], n, eats)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_exit_is_told_of_exceptions_and_may_raise(n):
    same(use_failing_exit, n)
    same(use_failing_exit_uncaught, n)
    same(use_names_of_the_body, n)


def test_error_of_exit_knows_what_it_replaced():
    with pytest.raises(KeyError) as caught:
        jitlite.script(use_failing_exit_uncaught)(1)
    assert isinstance(caught.value.__context__, ValueError)


# -- exceptions


class Problem(Exception):
    pass


class CodedProblem(Problem):
    def __init__(self, code: int, text: str):
        super().__init__(code, text)
        self.code = code


def use_exceptions(n: int):
    if n == 0:
        raise Problem("plain", n)
    if n == 1:
        raise CodedProblem(n, "coded")
    if n == 2:
        raise Problem
    try:
        raise Problem("inner")
    except Problem as e:
        return str(e)


@pytest.mark.parametrize("n", range(4))
def test_exceptions(n):
    same(use_exceptions, n)


def test_exception_keeps_its_class():
    with pytest.raises(CodedProblem) as caught:
        jitlite.script(use_exceptions)(1)
    assert caught.value.code == 1


# -- objects going in and out


class Node:
    def __init__(self, value: int):
        self.value = value
        self.next: Optional[Node] = None
        self.children: List[Node] = []
        self.by_name: Dict[str, Node] = {}
        self.pair: Tuple[int, Optional[Node]] = (0, None)

    def count(self) -> int:
        total = 1
        for child in self.children:
            total += child.count()
        return total


def link(a: Node, b: Node) -> Node:
    a.next = b
    a.children.append(b)
    b.by_name["a"] = a
    a.pair = (1, b)
    a.value += b.value
    return a


def test_objects_are_shared_with_python():
    a, b = Node(1), Node(2)
    result = jitlite.script(link)(a, b)
    assert result is a
    assert a.next is b and a.children == [b] and b.by_name["a"] is a and a.pair == (1, b) and a.value == 3
    assert jitlite.script(link)(b, a) is b, "objects that lead back to themselves are arguments, too"


def test_one_object_as_two_arguments():
    a = Node(1)
    jitlite.script(link)(a, a)
    assert a.next is a and a.value == 2


def grow(n: int):
    root = Node(n)
    for i in range(n):
        root.children.append(Node(i))
        root.children[i].children.append(Node(-i))
    root.children[0].children[0].value = 77
    first = root.children[0]
    nxt = first.next
    found = 5
    if nxt is not None:
        found = nxt.value
    return root.count(), root, found


def test_recursion_in_methods():
    same(grow, 3)


def refine(n: Node) -> int:
    if n.next is not None:
        return n.next.value
    value, other = n.pair
    if other is not None:
        return other.value
    return -value


def test_refined_attributes():
    same(refine, Node(1))
    linked = Node(1)
    linked.next = Node(2)
    same(refine, linked)
    linked.next, linked.pair = None, (3, Node(4))
    same(refine, linked)


def either(x: Union[Vec, Node, int]) -> int:
    if isinstance(x, Vec):
        return x.x
    elif isinstance(x, Node):
        return x.value
    return x


def test_unions_of_classes():
    for value in (Vec(3, 4), Node(5), 6):
        same(either, value)


def optional_result(flag: bool) -> Optional[Vec]:
    return Vec(1, 1) if flag else None


def test_optional_objects():
    same(optional_result, True)
    same(optional_result, False)


def test_wrong_object():
    scripted = jitlite.script(refine)
    with pytest.raises(RuntimeError, match="Node"):
        scripted(Vec(1, 2))
    broken = Node(1)
    del broken.value
    with pytest.raises(RuntimeError, match="missing attribute value"):
        scripted(broken)


def holder(k: int) -> Any:
    class Local:
        def __init__(self, x: int):
            self.x = x

        def value(self) -> int:
            return self.x * k

    def run(n: int) -> int:
        return Local(n).value()

    return run


def test_two_classes_of_one_name():
    first, second = holder(2), holder(3)
    assert jitlite.script(first)(5) == 10
    assert jitlite.script(second)(5) == 15
    assert jitlite.script(first)(5) == 10


# -- marks


class Marked:
    def __init__(self, x: int):
        self.x = x

    @jitlite.ignore
    def python_only(self, k: int) -> int:
        return sum(x * k for x in [self.x, self.x])

    @jitlite.unused
    def never(self, k: int) -> int:
        raise NotImplementedError(k)

    def run(self, go: bool) -> int:
        return self.python_only(2) if go else self.never(3)


def use_marks(go: bool):
    return Marked(4).run(go)


def test_ignored_methods_are_pythons():
    assert jitlite.script(use_marks)(True) == use_marks(True) == 16


def test_unused_methods_raise():
    with pytest.raises(Exception, match="never"):
        jitlite.script(use_marks)(False)


# -- attributes


class Lazy:
    x: Optional[Tensor]
    sizes: List[int]

    def __init__(self, n: int):
        self.x = None
        self.sizes = []
        self.n = n
        n2 = self.n + 1
        self.t = (n2, str(n2))
        self.setup()

    def setup(self) -> None:
        self.sizes.append(self.n)

    def get(self) -> Tensor:
        x = self.x
        if x is None:
            x = torch.full([2], float(self.n))
            self.x = x
        return x


def use_lazy(n: int):
    lazy = Lazy(n)
    a, b = lazy.get(), lazy.get()
    return a is b, a, lazy.sizes, lazy.t, hasattr(lazy, "n"), hasattr(lazy, "nope")


def test_attributes_declared_in_the_class():
    same(use_lazy, 3)


def test_attribute_first_set_elsewhere_is_refused():
    class Bad:
        def __init__(self, x: int):
            if x > 1:
                self.x = x

    def run(n: int):
        return Bad(n)

    with pytest.raises(jitlite.CompileError, match="control-flow"):
        jitlite.script(run)


def test_unknown_attribute_is_suggested():
    def run(v: Vec):
        return v.xx

    with pytest.raises(jitlite.CompileError, match="no attribute or method 'xx'"):
        jitlite.script(run)


def test_script_of_a_class_compiles_all_methods():
    class Broken:
        def __init__(self):
            self.x = 1

        def bad(self):
            return undefined_name  # noqa: F821

    with pytest.raises(jitlite.CompileError, match="undefined_name"):
        jitlite.script(Broken)
    assert jitlite.script(Vec) is Vec


def test_deep_copies_and_gradients_pass_through_objects():
    class Holder:
        def __init__(self, w: Tensor):
            self.w = w

        def apply(self, x: Tensor) -> Tensor:
            return (x * self.w).sum()

    def run(h: Holder, x: Tensor):
        return h.apply(x) + Holder(h.w * 2).apply(x)

    w = torch.ones(3, requires_grad=True)
    jitlite.script(run)(Holder(w), torch.arange(3.0)).backward()
    assert w.grad.tolist() == [0.0, 3.0, 6.0]


def test_a_class_may_take_arguments_in_new_alone():
    class Single:
        def __new__(cls, *args):
            return object.__new__(cls)

    class Derived(Single):
        def __init__(self, n: int):
            self.n = n

    def f(n: int) -> int:
        return 1 if Single(n) is not None else 0

    assert jitlite.script(f)(3) == 1

    def g(n: int) -> int:
        return Derived(n).n

    assert jitlite.script(g)(3) == 3
