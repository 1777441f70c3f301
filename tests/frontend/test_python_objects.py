"""Python objects as programs have them, beside eager Python: generated methods, exceptions with keywords, subclasses,
partials, autograd functions, and what torch.jit has compiled."""

from __future__ import annotations

import collections
import dataclasses
import functools
import io
import re
import textwrap
from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import jitlite

TORCH_JIT: Any = vars(torch)["jit"]


def saved_and_loaded(module: Any) -> Any:
    buffer = io.BytesIO()
    jitlite.save(module, buffer)
    return jitlite.load(io.BytesIO(buffer.getvalue()))


# -- generated code


class Doubled(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


class HoldsGenerated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), Doubled()))

    def forward(self, x):
        return self.part(x) + 1


def test_modules_that_fx_has_made_compile():
    module, x = HoldsGenerated(), torch.randn(3, 2)
    assert type(module.part).forward.__module__ is None
    for scripted in (jitlite.script(module), saved_and_loaded(jitlite.script(module))):
        torch.testing.assert_close(scripted(x), module(x))


class WithoutModule:
    def __init__(self, k: int) -> None:
        self.k = k


def test_a_class_that_says_no_module_can_be_used(monkeypatch):
    monkeypatch.setattr(WithoutModule, "__module__", None)

    def f(x: int):
        return WithoutModule(x).k

    assert jitlite.script(f)(3) == 3


# -- exceptions


class ShapeError(Exception):
    def __init__(self, message: str, *, actual: Any = None, expected: Any = None) -> None:
        super().__init__(message)
        self.actual, self.expected = actual, expected


@dataclasses.dataclass
class DataError(Exception):
    text: str
    code: int = dataclasses.field(default=3, kw_only=True)


class Plain(Exception):
    pass


def raises_shape(x, k: int):
    if k == 1:
        raise ShapeError("wrong", actual=list(x.shape), expected=["B", "C"])
    if k == 2:
        raise ShapeError("wrong", expected=k)
    if k == 3:
        raise DataError("data", code=k + 4)
    if k == 4:
        raise Plain("a", k)
    return x


@pytest.mark.parametrize("k", range(5))
def test_exceptions_are_made_with_their_keywords(k):
    scripted, x = jitlite.script(raises_shape), torch.ones(2, 3)
    outcomes = []
    for f in (raises_shape, scripted):
        try:
            outcomes.append(f(x, k) is x)
        except (ShapeError, DataError, Plain) as error:
            shown = {k: v for k, v in vars(error).items() if k != "__notes__"}
            outcomes.append((type(error).__name__, error.args, shown))
    assert outcomes[0] == outcomes[1]


def test_in_an_archive_such_an_exception_keeps_its_text():
    loaded = saved_and_loaded(jitlite.script(raises_shape))
    with pytest.raises(ShapeError, match="wrong"):
        loaded(torch.ones(1), 1)
    with pytest.raises(Plain, match=r"\('a', 4\)"):
        loaded(torch.ones(1), 4)


def test_a_keyword_that_the_exception_does_not_take_is_refused_with_the_line():
    def f(x):
        raise ShapeError("wrong", other=1)

    with pytest.raises(jitlite.CompileError, match=r"line \d+[\s\S]*unexpected keyword argument 'other'|other"):
        jitlite.script(f)


# -- type comments of what stays Python


class Commented(nn.Module):
    @torch.jit.unused
    def unused(self, a, b):
        # type: (int, int) -> float
        return float(a + b)

    @torch.jit.ignore
    def ignored(self, a, b):
        # type: (int, List[int]) -> float
        return float(a + b[0])

    @torch.jit.ignore
    def beside(
        self,
        a,  # type: int
        b,  # type: float
    ):
        # type: (...) -> float
        return a + b

    def forward(self, x):
        if x.dim() == 9:
            x = x + self.unused(1, 2)
        return x + self.ignored(1, [2]) + self.beside(1, 2.0)


@torch.jit.ignore
def ignored_function(a, b):
    # type: (int, List[int]) -> float
    return float(a + b[0])


@torch.jit.unused
def unused_function(a, b):
    # type: (int, int) -> float
    return float(a + b)


def test_type_comments_of_ignored_and_unused_functions_count():
    def f(x):
        y: float = ignored_function(1, [2])
        if x.dim() == 9:
            y = unused_function(1, 2)
        z = y  # type: ignore - of no interest
        return x + z

    x = torch.ones(1)
    assert jitlite.script(f)(x) == f(x)
    assert jitlite.script(Commented())(x) == Commented()(x)


# -- subclasses


class Matcher:
    def __init__(self, k: int) -> None:
        self.k = k

    def run(self, x: Tensor) -> Tensor:
        return x * self.k


class HigherMatcher(Matcher):
    def run(self, x: Tensor) -> Tensor:
        return x * self.k * 10


class HoldsMatchers(nn.Module):
    one: Matcher
    maybe: Optional[Matcher]
    several: List[Matcher]
    named: Dict[str, Matcher]
    pair: Tuple[Matcher, int]

    def __init__(self) -> None:
        super().__init__()
        self.one, self.maybe, self.several = HigherMatcher(2), HigherMatcher(3), [HigherMatcher(4)]
        self.named, self.pair = {"a": HigherMatcher(5)}, (HigherMatcher(6), 7)

    def forward(self, x):
        maybe = self.maybe
        if maybe is not None:
            x = maybe.run(x)
        return self.one.run(x) + self.several[0].run(x) + self.named["a"].run(x) + self.pair[0].run(x) * self.pair[1]


def test_an_object_under_the_annotation_of_its_base_class_has_its_own_methods():
    module, x = HoldsMatchers(), torch.ones(2)
    assert torch.equal(jitlite.script(module)(x), module(x))


class Closed(tuple):
    """A tuple that shows its elements by index only."""

    def __len__(self):
        raise TypeError("no length")

    def __iter__(self):
        raise TypeError("no iteration")


class HoldsClosed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pair = Closed((1, 2.5))

    def forward(self, x):
        a, b = self.pair
        return x + a + b + len(self.pair)


def test_tuples_are_read_as_tuples():
    def f(p: Tuple[int, int]):
        return p[0] + p[1], len(p)

    assert jitlite.script(f)(Closed((1, 2))) == (3, 2)
    assert jitlite.script(HoldsClosed())(torch.zeros(1)) == 5.5


# -- containers of modules


def parts() -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Hardtanh(-1.0, 1.0), nn.Linear(1, 1), nn.Hardtanh(0.0, 9.0)]


class Dropping(nn.ModuleList):
    def __init__(self, p: float, modules: Any = None) -> None:
        super().__init__(modules)
        self.p = p

    def __iter__(self):
        drawn = torch.empty(len(self)).uniform_()
        for i, m in enumerate(super().__iter__()):
            if not self.training or (drawn[i] > self.p):
                yield m


class Every2(nn.ModuleList):
    def __len__(self):
        return super().__len__() + 10

    def __iter__(self):
        for i, m in enumerate(super().__iter__()):
            if not self.training or i % 2 == 0:
                yield m


class Backwards(nn.ModuleList):
    def __iter__(self):
        return iter(list(self._modules.values())[::-1])


class Twice(nn.Sequential):
    def __iter__(self):
        yield self[1]
        x = 3
        for m in self._modules.values():
            if x > 2:
                yield m


class UsesList(nn.Module):
    def __init__(self, steps: nn.Module) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x):
        count, i = 100, 7
        for step in self.steps:
            x = step(x)
            count = count + 1
        return x + len(self.steps), count + i


class Named(nn.ModuleDict):
    def __iter__(self):
        return super().__iter__()

    def __len__(self):
        return len(self._modules) + 10

    def __contains__(self, key: str) -> bool:
        return super().__contains__("x_" + key)

    def items(self):
        return super().items()


class UsesNamed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = Named({"x_a": nn.Hardtanh(0.0, 1.0), "b": nn.Linear(1, 1)})

    def forward(self, x, k: str):
        for name in self.steps:
            x = self.steps[name](x)
        for _, step in self.steps.items():
            x = step(x)
        return x + len(self.steps), k in self.steps


@pytest.mark.parametrize("make", [Every2, functools.partial(Dropping, 0.5), Backwards, lambda p: Twice(*p)])
@pytest.mark.parametrize("training", [True, False])
def test_containers_with_their_own_iteration(make, training):
    module, x = UsesList(make(parts())).train(training), torch.tensor([[3.0]])
    scripted = jitlite.script(module)
    for one in (scripted, saved_and_loaded(scripted)):
        for seed in range(4):
            torch.manual_seed(seed)
            expected = module(x)
            torch.manual_seed(seed)
            torch.testing.assert_close(one(x), expected)


def test_a_dict_of_modules_with_its_own_special_methods():
    module, x = UsesNamed(), torch.ones(2, 1)
    for key in ("a", "b"):
        torch.testing.assert_close(jitlite.script(module)(x, key), module(x, key))


class OddNumbers:
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self):
        for i in range(self.n):
            if i % 2:
                yield i


def test_objects_with_a_generator_for_iter():
    def f(n: int):
        total, i = 0, 5
        for k in OddNumbers(n):
            for m in OddNumbers(k):
                total += k * m
        return total, [x * i for x in OddNumbers(n)], i

    assert jitlite.script(f)(8) == f(8)


class Breaks(UsesList):
    def forward(self, x):
        for step in self.steps:
            x = step(x)
            break
        return x


def test_a_break_out_of_such_a_loop_is_refused_with_the_line():
    with pytest.raises(jitlite.NotSupportedError, match=r"break and continue[\s\S]*for step in self.steps"):
        jitlite.script(Breaks(Every2(parts())))


class Choosing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.named = nn.ModuleDict({"up": nn.Hardtanh(0.0, 9.0), "down": nn.Hardtanh(-9.0, 0.0), "on": nn.Linear(2, 2)})
        self.listed = nn.ModuleList([nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Hardtanh()])

    def forward(self, x, name: str, i: int):
        chosen = self.listed[i]
        y = chosen(self.named[name](x))
        for k in range(len(self.listed)):
            y = self.listed[-k - 1](self.listed[k](y))
        return y


@pytest.mark.parametrize("name", ["up", "down", "on", "sideways"])
@pytest.mark.parametrize("i", [0, 2, -3, 3, -4])
def test_a_submodule_by_a_name_or_index_known_at_run_time(name, i):
    module, x = Choosing(), torch.randn(1, 2)
    scripted = jitlite.script(module)
    try:
        expected = module(x, name, i)
    except (KeyError, IndexError) as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            scripted(x, name, i)
        return
    for one in (scripted, saved_and_loaded(scripted), jitlite.freeze(scripted.eval())):
        torch.testing.assert_close(one(x, name, i), expected)


class Unequal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.named = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.LSTM(2, 2)})

    def forward(self, x, name: str):
        return self.named[name](x)


def test_chosen_submodules_with_results_of_several_types_are_refused():
    with pytest.raises(
        jitlite.CompileError, match=r"if-expression's true branch has type T[\s\S]*self.named\[name\]\(x\)"
    ):
        jitlite.script(Unequal())


class Borrowed(nn.Module):
    def __init__(self, other: nn.Module) -> None:
        super().__init__()
        self.k, self.other = 1, other
        self.run = other.scaled  # type: ignore[operator]

    def forward(self, x):
        return x * self.k


class Lender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.k = 5

    def scaled(self, x):
        return x * self.k


def test_a_method_of_another_module_is_no_method_of_this_one():
    class Calls(Borrowed):
        def forward(self, x):
            return self.run(x)

    with pytest.raises(jitlite.CompileError, match="no attribute 'run'"):
        jitlite.script(Calls(Lender()))


# -- what torch.jit has compiled


def branchy(x, k: int = 3):
    if x.sum() > 0:
        return x + k
    return x - 1


def looped(x):
    for i in range(x.size(0)):
        x = x + i
    return x


UNIT = """
def g(x: int, y: int = 5) -> int:
    return x * y
"""


@pytest.mark.filterwarnings("ignore")
def test_functions_of_torch_jit_are_converted():
    scripted, traced = TORCH_JIT.script(branchy), TORCH_JIT.trace(looped, torch.ones(2))
    from_text = TORCH_JIT.CompilationUnit(UNIT).g
    for theirs in (scripted, traced):
        ours = jitlite.script(theirs)
        assert isinstance(ours, jitlite.ScriptFunction)
        for x in (torch.ones(4), -torch.ones(2)):
            assert torch.equal(ours(x), theirs(x))
    ours = jitlite.script(from_text)
    assert (ours(3), ours(3, 2), str(ours.schema)) == (15, 6, "g(int x, int y=5) -> int")

    def f(x, n: int):
        return scripted(x) * traced(x) + scripted(x, k=9) + from_text(n)

    assert torch.equal(jitlite.script(f)(torch.ones(4), 3), f(torch.ones(4), 3))


class HoldsForeign(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = TORCH_JIT.script(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
        self.b = TORCH_JIT.trace(nn.Linear(2, 2), torch.ones(1, 2))
        self.several = nn.ModuleList([self.a, self.b])
        self.function = TORCH_JIT.script(branchy)

    def forward(self, x):
        for part in self.several:
            x = part(x)
        return self.function(self.a(x) + self.b(x))


@pytest.mark.filterwarnings("ignore")
def test_modules_of_torch_jit_are_converted_and_keep_their_parameters():
    module, x = HoldsForeign(), torch.randn(3, 2)
    scripted = jitlite.script(module)
    assert isinstance(module.a, TORCH_JIT.ScriptModule)  # as before
    assert list(scripted.state_dict()) == list(module.state_dict())
    assert all(a is b for a, b in zip(scripted.parameters(), module.parameters(), strict=True))
    assert scripted.several[0] is scripted.a
    torch.testing.assert_close(scripted.eval()(x), module.eval()(x))
    torch.testing.assert_close(saved_and_loaded(scripted)(x), module(x))
    scripted.train()(x)
    torch.testing.assert_close(scripted.eval()(x), module.eval()(x))  # the statistics are the same buffers
    alone = jitlite.script(module.a)
    assert isinstance(alone, jitlite.ScriptModule) and not alone.training
    torch.testing.assert_close(alone(x), module.a(x))


class KeepsPython(nn.Module):
    @torch.jit.ignore
    def kept(self, x):
        return x

    def forward(self, x):
        return self.kept(x)


@pytest.mark.filterwarnings("ignore")
def test_what_torch_jit_cannot_save_is_refused():
    with pytest.raises(jitlite.NotSupportedError, match=r"cannot save it: Could not export Python function call"):
        jitlite.script(TORCH_JIT.script(KeepsPython()))


# -- autograd functions


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 30 * x * x


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(x, y, k: float, name="a", *rest):
        return x * k, y * len(rest)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[2]

    @staticmethod
    def backward(ctx, a, b):
        return a * ctx.k * 100, b * 0, None, None, None, None


cube = Cube.apply


class AppliesAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cube = Cube.apply

    def forward(self, x):
        return self.cube(x)


def applies(x):
    a, b = Scaled.apply(x, x, 2.0, "n", 1, 2)
    if x.sum() > 100:
        a = a + 1
    return Cube.apply(x) * 2 + cube(x) + a + b


class Halved(torch.autograd.Function):
    """As libraries write them that are to run in scripts, where `apply` cannot be saved."""

    @staticmethod
    def forward(ctx, x):
        if not torch.jit.is_scripting():
            ctx.save_for_backward(x)
        return x / 2

    @staticmethod
    def backward(ctx, g):
        return g * 500

    @staticmethod
    def in_scripts(x):
        if torch.jit.is_scripting():
            return Halved.forward(torch.empty(0), x)
        else:
            return Halved.apply(x)


def test_static_methods_of_autograd_functions_are_compiled():
    def f(x):
        return Halved.in_scripts(x) * 3

    compiled, x = jitlite.script(f), torch.tensor([1.0], requires_grad=True)
    again = jitlite.load(io.BytesIO(compiled.save_to_buffer()))
    for ours in (compiled, again):
        assert ours(x) == 1.5 and torch.autograd.grad(ours(x), x)[0] == 1.5
    assert torch.autograd.grad(f(x), x)[0] == 1500

    def wrong(x):
        return Halved.missing(x)

    with pytest.raises(jitlite.CompileError, match="has `apply` and static methods in scripts, and no 'missing'"):
        jitlite.script(wrong)


@pytest.mark.parametrize("f", [applies, AppliesAttribute()])
def test_autograd_functions_keep_their_backward(f):
    scripted = jitlite.script(f)
    for i in range(70):  # also by the plan that is specialized
        x, y = (torch.full((2,), 0.5 + i, requires_grad=True) for _ in range(2))
        ours, expected = scripted(x), f(y)
        ours.sum().backward()
        expected.sum().backward()
        assert torch.equal(ours, expected) and torch.equal(x.grad, y.grad)
    with pytest.raises(jitlite.NotSupportedError, match=r"line \d+[\s\S]*(apply|cube)\("):
        jitlite.save(scripted, io.BytesIO())


def test_wrong_calls_of_autograd_functions_are_refused():
    def by_keyword(x):
        return Cube.apply(x=x)

    def made(x):
        return Cube(x)

    def too_few(x):
        return Scaled.apply(x)

    for f, text in ((by_keyword, "no keyword"), (made, r"write Cube\.apply"), (too_few, "missing the argument 'y'")):
        with pytest.raises(jitlite.CompileError, match=text):
            jitlite.script(f)


# -- partials and the standard library


def clamped(x, low: float = 0.0, high: float = 9.0):
    return torch.clamp(x, low, high)


at_least_2 = functools.partial(clamped, low=2.0)
of_a_list = functools.partial(clamped, [1])


class Activates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = functools.partial(F.leaky_relu, negative_slope=0.5)

    def forward(self, x):
        return self.act(x)


def partials(x, n: int):
    one = functools.partial(clamped, low=1.0)

    def local(a: int, b: int):
        return a * 10 + b

    other = functools.partial(local, n)
    if n > 2:
        x = one(x)
    return one(x, high=1.5), one(x, low=3.0), at_least_2(x), other(4), functools.partial(one, high=0.5)(x)


def test_partials():
    for n in (1, 3):
        assert jitlite.script(partials)(torch.zeros(1), n) == partials(torch.zeros(1), n)
    assert torch.equal(jitlite.script(Activates())(-torch.ones(1)), Activates()(-torch.ones(1)))


@dataclasses.dataclass
class Record:
    a: int


def shortens(x):
    return x + len(textwrap.shorten("a b c", 3))


def compiles_pattern(x):
    return re.compile("a")


def makes_deque(x):
    d = collections.deque([1])
    return x + len(d)


def returns_partial(x):
    return functools.partial(clamped)


def calls_partial_of_a_list(x):
    return of_a_list(x)


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (shortens, "'shorten' of Python's library cannot be compiled"),
        (compiles_pattern, "'compile' of Python's library cannot be compiled"),
        (makes_deque, "'deque' inherits from 'deque', which is not written in Python"),
        (returns_partial, "cannot be used as a value"),
        (calls_partial_of_a_list, "numbers, strings and the like"),
    ],
)
def test_what_is_refused_is_told_at_the_users_line(f, text):
    with pytest.raises(jitlite.CompileError, match=text) as error:
        jitlite.script(f)
    assert str(error.value).startswith(f"{__file__}:")


# -- defaults and arguments


def defaults(x, d: List[int] = (1, 2), o: Optional[List[int]] = (4,), t: Tuple[List[int], int] = ((7,), 1)):
    return [d[0], len(d), 0 if o is None else o[0], t[0][0]]


def test_defaults_are_of_the_declared_type():
    def f(x):
        return defaults(x) + defaults(x, [5], None)

    assert jitlite.script(f)(torch.ones(1)) == f(torch.ones(1))
    scripted = jitlite.script(defaults)
    assert scripted(torch.ones(1)) == defaults(torch.ones(1))
    assert "int[] d=[1, 2]" in str(scripted.schema)


def which(by: Union[float, List[float]]) -> str:
    if isinstance(by, float):
        return str(by)
    return f"list {len(by)}"


def which_of_two_lists(by: Union[List[int], List[float], int]) -> str:
    if isinstance(by, List[int]):
        return "ints"
    return "int" if isinstance(by, int) else "floats"


def pair_or_int(p: Union[Tuple[int, int], int]):
    return p if isinstance(p, int) else p[1]


@pytest.mark.parametrize(
    ("f", "argument", "expected"),
    [
        (which, (1.0, 2.0), "list 2"),
        (which_of_two_lists, (1, 2), "ints"),
        (which_of_two_lists, (1.0, 2.0), "floats"),
        (which_of_two_lists, 3, "int"),
        (which, [1, 2], "list 2"),
        (pair_or_int, [1, 2], 2),
        (pair_or_int, torch.Size((3, 4)), 4),
    ],
)
def test_values_for_unions_become_a_member(f, argument, expected):
    assert jitlite.script(f)(argument) == expected


@pytest.mark.parametrize("argument", ["x", None, True, 1, b"x", {"a": 1}])
def test_values_that_are_no_member_are_refused(argument):
    with pytest.raises(RuntimeError, match="instead found type"):
        jitlite.script(which)(argument)


def test_a_tuple_in_a_script_goes_where_a_union_with_a_list_is_declared():
    def f(t: Tuple[float, float]):
        return which(t)

    assert jitlite.script(f)((1.0, 2.0)) == "list 2"


def test_bytes_are_their_text():
    def f(s: str, d: Dict[str, int], o: Optional[str], xs: List[str]):
        return s == "é", d["a"], o is not None and o == "b", xs + ["d"]

    assert jitlite.script(f)("é".encode(), {b"a": 1}, b"b", [b"c"]) == (True, 1, True, ["c", "d"])
    with pytest.raises(RuntimeError, match="no text in UTF-8"):
        jitlite.script(f)(b"\xff", {}, None, [])


class Refuses:
    """An object that says in its own way that it has no attributes."""

    def __getattr__(self, name):
        raise RuntimeError(f"there is no {name}")

    def __hash__(self):
        raise ValueError("no hash")

    __eq__ = None


REFUSES = Refuses()


def reads_it(x: torch.Tensor):
    return REFUSES.value


def calls_it(x: torch.Tensor):
    return REFUSES(x)


def takes_it(x: REFUSES):
    return x


def asks_for_it(x: torch.Tensor):
    return isinstance(x, REFUSES)


@pytest.mark.parametrize("function", [reads_it, calls_it, takes_it, asks_for_it])
def test_objects_that_answer_with_errors_of_their_own_are_refused_with_the_line(function):
    with pytest.raises(jitlite.CompileError, match="Refuses") as caught:
        jitlite.script(function)
    assert caught.value.range is not None


def test_classes_of_libraries_in_cpp_are_refused_with_the_line():
    def makes(x: torch.Tensor):
        return torch.classes.quantized.LinearPackedParamsBase(x)

    def unknown(x: torch.Tensor):
        return torch.classes.no_library.Nothing(x)

    with pytest.raises(jitlite.CompileError, match=r"C\+\+ class cannot be made in a script") as caught:
        jitlite.script(makes)
    assert caught.value.range is not None
    with pytest.raises(jitlite.CompileError, match="no_library.Nothing.*does not exist") as caught:
        jitlite.script(unknown)
    assert caught.value.range is not None
