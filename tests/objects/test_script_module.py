"""ScriptModule as a base class, and what users expect of compiled modules."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from typing import Dict, Final, List, Optional

import pytest
import torch
from torch import nn

import jitlite
from jitlite import Attribute, ScriptModule, script_method
from jitlite.objects.module_attributes import _OF_FORWARD


class Chain(ScriptModule):
    __constants__ = ["n", "names"]
    offset: Final[int]

    def __init__(self, n: int = 3):
        super().__init__()
        self.n = n
        self.names = ["a", "b"]
        self.offset = 4
        self.w = nn.Parameter(torch.ones(2))
        self.register_buffer("b", torch.zeros(2))
        self.lin = nn.Linear(2, 2)
        self.seen = Attribute({}, Dict[str, int])
        self.scale = Attribute(0.5, float)
        self.maybe = Attribute(None, Optional[int])
        self.calls = 0

    @script_method
    def forward(self, x):
        """Doc."""
        for i in range(self.n):
            x = x + self.w
        self.seen["k"] = self.offset
        self.calls += 1
        return self.helper(x) + self.b

    @script_method
    def helper(self, x):
        # type: (Tensor) -> Tensor
        return x * self.scale

    def python_only(self, *args):
        return len(args), self.n

    @property
    def shown(self):
        return f"n={self.n}"

    @staticmethod
    def fixed():
        return 5


class Longer(Chain):
    def __init__(self):
        super().__init__(2)
        self.more = 4

    @script_method
    def helper(self, x):
        return x * 100

    @script_method
    def extended(self, x, k: int = 2):
        return self.forward(x) + k + self.more


class FromText(ScriptModule):
    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(torch.ones(1))
        self.define(
            """
            def forward(self, x):
                return self.times(x) + self.p
            def times(self, x, k: float = 1.5):
                # type: (Tensor, float) -> Tensor
                return torch.mul(x, k)
            """
        )

    @script_method
    def twice(self, x):
        return self.forward(x) * 2


X = torch.ones(2)


def test_methods_constants_and_attributes():
    m = Chain()
    assert m(X).tolist() == [2.0, 2.0] and m.helper(X).tolist() == [0.5, 0.5]
    assert m.seen == {"k": 4} and m.calls == 1 and m.n == 3 and m.names == ["a", "b"]
    assert m.python_only(1, 2) == (2, 3) and m.shown == "n=3" and m.fixed() == 5
    assert m.maybe is None
    m.maybe = 3
    m.scale = 2
    assert m.maybe == 3 and m(X).tolist() == [8.0, 8.0]


def test_what_assignments_are_checked_for():
    m = Chain()
    with pytest.raises(AttributeError, match="constant value: 'n'"):
        m.n = 4
    with pytest.raises(RuntimeError, match="attribute 'scale' of 'Chain'"):
        m.scale = "text"
    with pytest.raises(RuntimeError, match="non-scripted module"):
        m.lin = nn.Linear(2, 2)
    m.lin = jitlite.script(nn.Linear(2, 2))
    m.unknown_to_scripts = object()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        m.nothing  # noqa: B018


def test_inheritance():
    m = Longer()
    assert m(X).tolist() == [300.0, 300.0]
    assert m.extended(X, k=5).tolist() == [309.0, 309.0]
    assert isinstance(m, Chain) and m.original_name == "Longer"


def test_methods_from_text():
    m = FromText()
    assert m(X).tolist() == [2.5, 2.5] and m.times(X, 2.0).tolist() == [2.0, 2.0] and m.twice(X).tolist() == [5.0, 5.0]
    m.define("def later(self, n: int) -> int:\n  return n + 1\n")
    assert m.later(1) == 2


@pytest.mark.parametrize("make", [Chain, Longer, FromText])
def test_copies_and_pickles(make):
    m = make()
    m(X)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert type(other) is make and torch.equal(other(X), m(X))
        with torch.no_grad():
            next(other.parameters()).add_(1)
        assert not torch.equal(other(X), m(X))
    assert next(copy.copy(m).parameters()) is next(m.parameters())


def test_parameters_train():
    m = FromText()
    optimizer = torch.optim.SGD(m.parameters(), lr=0.5)
    m(X).sum().backward()
    optimizer.step()
    assert m.p.item() == 0.0 and m(X).tolist() == [1.5, 1.5]


def test_state_and_mode():
    m = Chain()
    assert sorted(m.state_dict()) == ["b", "lin.bias", "lin.weight", "w"]
    assert [n for n, _ in m.named_modules()] == ["", "lin"]
    assert not m.eval().training and m.train().training
    m.load_state_dict({**m.state_dict(), "w": torch.full((2,), 3.0)})
    assert m(X).tolist() == [5.0, 5.0]
    assert m.double().w.dtype == torch.float64


def test_nesting():
    class Outer(ScriptModule):
        def __init__(self):
            super().__init__()
            self.first = Chain(1)
            self.rest = nn.ModuleList([Chain(1), FromText()])
            self.seq = nn.Sequential(nn.Identity(), nn.ReLU())

        @script_method
        def forward(self, x):
            x = self.first(x)
            for m in self.rest:
                x = m(x)
            return self.seq(x)

    class Eager(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Outer()

        def forward(self, x):
            return self.inner(x)

    expected = FromText()(Chain(1)(Chain(1)(X))).relu()
    assert torch.equal(Outer()(X), expected)
    assert torch.equal(jitlite.script(Eager())(X), expected)


def test_before_init_is_done():
    class Early(ScriptModule):
        def __init__(self):
            super().__init__()
            self.forward(X)

        @script_method
        def forward(self, x):
            return x

    class NoSuper(ScriptModule):
        def __init__(self):
            pass

    with pytest.raises(RuntimeError, match="before __init__ is done"):
        Early()
    with pytest.raises(RuntimeError, match="super"):
        NoSuper()


def test_errors_are_those_of_the_method():
    class Wrong(ScriptModule):
        @script_method
        def forward(self, x):
            return undefined_name  # noqa: F821

    with pytest.raises(jitlite.CompileError, match="undefined_name"):
        Wrong()


def test_without_compiled_forward():
    class Plain(ScriptModule):
        def forward(self, x):
            return x + 1

    assert Plain()(X).tolist() == [2.0, 2.0]


def test_shared_parameters():
    class Tied(ScriptModule):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.ones(1))
            self.b = self.a

        @script_method
        def forward(self, x):
            return x * self.a + self.b

    m = Tied()
    assert len(list(m.parameters())) == 1
    m(torch.ones(1)).backward()
    assert m.a.grad.item() == 2.0


def test_marks_left_by_torch_jit():
    mark = torch.jit.script_method

    class Marked(ScriptModule):
        @mark
        def forward(self, x):
            return x + 1

        @torch.jit.ignore
        def left(self):
            return 7

    m = Marked()
    assert m(X).tolist() == [2.0, 2.0] and m.left() == 7
    assert "aten::add" in str(m.graph)


def test_inspection():
    m = Chain()
    assert "return x * self.scale" in m.helper.code and "def forward" in m.code
    assert str(m.schema).startswith("forward(") and "prim::Loop" in str(m.graph)
    assert "prim::CallMethod" in str(m.graph) and "prim::CallMethod" not in str(m.inlined_graph)
    assert str(m.graph_for(X)) == str(m.optimized_graph)
    assert m.forward.name == "forward" and "forward" in m.bytecode
    assert repr(m) == "Chain(\n  (lin): RecursiveScriptModule(original_name=Linear)\n)"
    assert {"forward", "helper", "w", "lin", "python_only"} <= set(dir(m))


def test_containers_behave_like_what_they_were():
    seq = jitlite.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert len(seq) == 2 and [m.original_name for m in seq] == ["Linear", "ReLU"] and seq[-1].original_name == "ReLU"
    by_name = jitlite.script(nn.ModuleDict({"a": nn.ReLU()}))
    assert "a" in by_name and list(by_name) == ["a"] and by_name["a"].original_name == "ReLU"
    assert list(by_name.keys()) == ["a"] and [k for k, _ in by_name.items()] == ["a"]
    many = jitlite.script(nn.ModuleList([nn.ReLU()]))
    assert len(many) == 1 and many[0].original_name == "ReLU"
    assert repr(seq).startswith("RecursiveScriptModule(\n  original_name=Sequential")
    single = jitlite.script(nn.ReLU())
    assert bool(single)
    for wrong in (lambda: len(single), lambda: list(single), lambda: single[0], lambda: "a" in single):
        with pytest.raises(NotImplementedError):
            wrong()


def test_what_was_compiled_keeps_its_shape():
    m = jitlite.script(nn.Sequential(nn.Linear(2, 2)))
    for change in (
        lambda: m.append(nn.ReLU()),
        lambda: m.add_module("late", nn.ReLU()),
        lambda: m[0].register_parameter("late", nn.Parameter(X)),
        lambda: m[0].register_buffer("late", X),
        lambda: setattr(m, "late", jitlite.script(nn.ReLU())),
        lambda: setattr(m[0], "late", nn.Parameter(X)),
    ):
        with pytest.raises(RuntimeError, match="after ScriptModule construction"):
            change()
    for remove in (lambda: delattr(m[0], "weight"), lambda: delattr(m, "0")):
        with pytest.raises(RuntimeError, match="cannot delete"):
            remove()
    m[0].weight = nn.Parameter(torch.zeros(2, 2))
    m[0].bias = nn.Parameter(torch.full((2,), 3.0))
    assert m(torch.ones(1, 2)).tolist() == [[3.0, 3.0]]


def test_attributes_typed_by_their_annotation():
    class Typed(ScriptModule):
        xs: List[int]

        def __init__(self):
            super().__init__()
            self.xs = []
            self.table = torch.jit.annotate(Dict[str, int], {"a": 1})

        @script_method
        def forward(self, n: int):
            self.xs.append(n)
            return self.xs, self.table

    m = Typed()
    assert m(3) == ([3], {"a": 1}) and m.xs == [3]


# -- what a user's module has comes before what script modules have of their own

_OF_THE_CLASS = [n for n in vars(jitlite.ScriptModule) if n[0] != "_" and not hasattr(nn.Module, n)]
OWN = sorted({"_c", "original_name", "_define", "_bound", "_checked", "_special", *_OF_FORWARD, *_OF_THE_CLASS})


@pytest.mark.parametrize("name", OWN)
def test_names_of_the_user_come_first(name):
    class Attribute(nn.Module):
        def __init__(self):
            super().__init__()
            setattr(self, name, 3)

        def forward(self, x):
            return x

    class Buffer(nn.Module):
        def __init__(self):
            super().__init__()
            self._buffers[name] = torch.tensor(3)
            self.w = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return x + self.w

    scripted = jitlite.script(Attribute())
    assert getattr(scripted, name) == 3
    jitlite.ScriptModule.define(scripted, f"def read(self) -> int:\n    return self.{name} + 1\n")
    assert scripted.read() == 4
    scripted = jitlite.script(Buffer())
    assert getattr(scripted, name) == 3
    file = io.BytesIO()
    jitlite.save(scripted, file)
    file.seek(0)
    assert getattr(jitlite.load(file), name) == 3
    setattr(scripted, name, torch.tensor(5))
    assert getattr(scripted, name) == 5 == scripted.state_dict()[name]


def test_methods_of_the_user_come_first():
    class Saves(nn.Module):
        def forward(self, x):
            return x

        @jitlite.export
        def save(self, x: int) -> int:
            return x + 1

        @jitlite.export
        def graph(self, x: int) -> int:
            return x + 2

    scripted = jitlite.script(Saves())
    assert scripted.save(1) == 2 and scripted.graph(1) == 3
    assert "aten::add" not in str(scripted.forward.graph)
    file = io.BytesIO()
    jitlite.save(scripted, file)
    file.seek(0)
    assert jitlite.load(file).save(1) == 2


def test_what_a_module_tells_of_its_forward():
    scripted = jitlite.script(nn.Linear(2, 2))
    assert "linear" in scripted.generated_code and list(scripted.stages)[0] == "tree"
    assert scripted.get_debug_state() == scripted.forward.get_debug_state()
    assert str(scripted.explain(torch.ones(1, 2)))
    traced = jitlite.trace(nn.Linear(2, 2), torch.ones(1, 2))
    assert "linear" in traced.generated_code and not hasattr(traced, "tree")
    with pytest.raises(AttributeError, match="was not compiled from source"):
        _ = traced.forward.tree


def test_the_constants_of_the_code():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.full((2,), 3.0)

        def forward(self, x):
            return x + self.w

    frozen = jitlite.freeze(jitlite.script(M().eval()))
    text, constants = frozen.code_with_constants
    assert text == frozen.archive_code and "CONSTANTS.c0" in text and constants.c0.tolist() == [3, 3]
    text, constants = jitlite.script(nn.Linear(2, 2)).code_with_constants
    assert not vars(constants) and "CONSTANTS" not in text


@pytest.mark.parametrize("kind", ["forward_hook", "forward_pre_hook", "full_backward_hook"])
def test_hooks_that_come_too_late_are_warned_of(kind):
    eager = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    scripted = jitlite.script(eager)
    with pytest.warns(UserWarning, match=f"register_{kind} on a submodule"):
        getattr(scripted[0], f"register_{kind}")(lambda *a: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(scripted, f"register_{kind}")(lambda *a: None)
        getattr(eager[0], f"register_{kind}")(lambda *a: None)
        copy.deepcopy(scripted)
    assert scripted(torch.ones(1, 2)).shape == (1, 2)


def test_a_module_becomes_another_one():
    first, second = jitlite.script(nn.Linear(2, 3)), jitlite.script(nn.Sequential(nn.Linear(2, 4), nn.ReLU()))
    first._reconstruct(second._c)
    x = torch.ones(1, 2)
    assert torch.equal(first(x), second(x)) and first.original_name == "Sequential"
    assert first[0].weight is second[0].weight


def test_a_tensor_of_a_script_module_is_never_none():
    scripted = jitlite.script(nn.Linear(2, 3))
    with pytest.raises(RuntimeError, match="Could not cast attribute 'bias' to type Tensor"):
        scripted.bias = None
    assert scripted(torch.ones(1, 2)).shape == (1, 3)
    without = jitlite.script(nn.Linear(2, 3, bias=False))
    without.bias = None
    assert without.bias is None
