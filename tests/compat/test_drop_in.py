"""drop_in: code that calls torch.jit gets jitlite, and everything is put back."""

from __future__ import annotations

import asyncio
import copy
import io
import pickle
import sys
import threading
import types

import pytest
import torch
from torch import nn

import jitlite

JIT = sys.modules["torch.jit"]
LIBRARY = """
import torch
import torch.jit as J
from torch import jit
from torch.jit import script, ScriptModule, script_method, fork, wait


def early(fn):
    return script(fn)


def late(fn):
    return torch.jit.script(fn), J.script(fn), jit.script(fn)


def make():
    class Old(ScriptModule):
        __constants__ = ["n"]

        def __init__(self, n: int):
            super().__init__()
            self.n = n
            self.seen = torch.jit.Attribute([], list[int])
            self.w = torch.nn.Parameter(torch.ones(2))

        @script_method
        def forward(self, x):
            for i in range(self.n):
                x = x + self.w
            self.seen.append(self.n)
            return x

    return Old
"""


def double(x: int) -> int:
    return 2 * x


class Marked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(2, 2)

    def forward(self, x):
        if JIT.is_scripting():
            x = x + 1
        values = JIT.annotate(list[int], [])
        future = JIT.fork(double, len(values))
        return self.helper(x) + JIT.wait(future)

    @JIT.export
    def other(self, x: int) -> int:
        return x + 1

    @JIT.ignore
    def helper(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Positive(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(min=0)


class Negative(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(max=0)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("lib") / "a_library.py"
    path.write_text(LIBRARY)
    module = types.ModuleType("a_library")
    module.__file__ = str(path)
    sys.modules["a_library"] = module
    exec(compile(LIBRARY, str(path), "exec"), vars(module))
    yield module
    del sys.modules["a_library"]


@pytest.fixture(autouse=True)
def everything_is_put_back(library):
    modules = [JIT, library, torch, torch._C, *(m for name, m in sys.modules.items() if name.startswith("torch.jit."))]

    def held():
        found = [sys.modules.get(m.__name__) for m in modules]
        return [(m, {n: v for n, v in vars(m).items() if not n.startswith("__")}) for m in found]

    before = held()
    yield
    now = held()
    assert [m for m, _ in now] == [m for m, _ in before]
    for (module, names), (_, known) in zip(now, before, strict=True):
        changed = [n for n, value in known.items() if names.get(n) is not value]
        assert not changed, (module, changed)


def is_ours(made):
    return isinstance(made, jitlite.ScriptFunction | jitlite.ScriptModule)


def test_every_way_to_script(library):
    assert not is_ours(library.early(double))
    with jitlite.drop_in():
        for made in (library.early(double), *library.late(double)):
            assert is_ours(made) and made(4) == 8
    assert not is_ours(library.early(double))


def test_modules_with_marks_of_torch_jit():
    with jitlite.drop_in():
        made = JIT.script(Marked())
        assert is_ours(made) and made.other(1) == 2
        x = torch.ones(1, 2)
        assert torch.equal(made(x), (x + 1) * 2)
        assert isinstance(made, JIT.ScriptModule) and isinstance(made.lin, JIT.RecursiveScriptModule)
        assert not isinstance(Marked(), JIT.ScriptModule)
        assert issubclass(type(made), JIT.ScriptModule)
    assert torch.equal(made(x), (x + 1) * 2), "what was made inside goes on working"
    assert torch.equal(copy.deepcopy(made)(x), made(x))


def test_old_style_modules(library):
    with jitlite.drop_in():
        cls = library.make()
        made = cls(3)
        assert made(torch.zeros(2)).tolist() == [3.0, 3.0]
        assert made.seen == [3]
        assert isinstance(made, JIT.ScriptModule) and isinstance(made, jitlite.ScriptModule)
        assert not isinstance(JIT.script(nn.ReLU()), cls), "only torch.jit's own names stand for more than one class"
        with pytest.raises(AttributeError):
            cls.no_such_thing  # noqa: B018


def test_what_torch_jit_made_counts_too():
    traced = torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))
    function = torch.jit.script(double)
    with jitlite.drop_in():
        assert isinstance(traced, JIT.ScriptModule)
        assert isinstance(function, JIT.ScriptFunction)


def test_units_look_names_up_where_they_are_made():
    k = 5  # noqa: F841
    with jitlite.drop_in():
        unit = JIT.CompilationUnit("def f(x: int):\n  return x + k\n")
    assert isinstance(unit, jitlite.CompilationUnit) and unit.f(1) == 6


def test_functions_look_names_up_where_they_are_scripted():
    def caller():
        class Inner:
            def __init__(self, x: int):
                self.x = x

        def f(x: int):
            return Inner(x).x

        return JIT.script(f)

    with jitlite.drop_in():
        assert caller()(3) == 3


def test_fork_wait_and_traced_scripts():
    with jitlite.drop_in():
        scripted = JIT.script(double)
        assert JIT.wait(JIT.fork(scripted, 4)) == 8
        assert JIT._wait(JIT._fork(scripted, 4)) == 8

        @JIT.script_if_tracing
        def halve(x: torch.Tensor):
            return x / 2

        assert halve(torch.ones(1)).item() == 0.5


def test_interfaces():
    with jitlite.drop_in():

        @JIT.interface
        class Layer(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                pass

        class Uses(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = Positive()

            def forward(self, x):
                return self.layer(x)

        Uses.__annotations__ = {"layer": Layer}
        made = JIT.script(Uses())
        assert made(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
        made.layer = JIT.script(Negative())
        assert made(torch.tensor([-1.0, 2.0])).tolist() == [-1.0, 0.0]


def test_errors_of_scripts_are_caught_as_torch_jits():
    def fails(x: int):
        raise ValueError("no")

    with jitlite.drop_in():
        scripted = JIT.script(fails)
        with pytest.raises(JIT.Error):
            scripted(1)


def test_traces_are_jitlites():
    model, x = nn.Linear(2, 2).eval(), torch.ones(3, 2)
    with jitlite.drop_in():
        traced = JIT.trace(model, torch.ones(1, 2))
        assert is_ours(traced) and traced(x).equal(model(x))
        assert is_ours(JIT.trace_module(model, {"forward": x}))
        with pytest.warns(JIT.TracerWarning):
            JIT.trace(lambda t: t * int(t.sum()), x)
        buffer = io.BytesIO()
        JIT.save(traced, buffer)
        buffer.seek(0)
        assert JIT.load(buffer)(x).equal(model(x))


def test_saving_goes_by_what_is_given(tmp_path):
    with jitlite.drop_in():
        for made in (JIT.script(nn.Linear(2, 2)), JIT.script(double)):
            JIT.save(made, tmp_path / "ours.pt")
            buffer = io.BytesIO()
            JIT.save(made, buffer)
            assert buffer.getvalue().startswith(b"PK") and (tmp_path / "ours.pt").read_bytes().startswith(b"PK")


def test_freezing_goes_by_what_is_given():
    model, x = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval(), torch.ones(1, 1, 4, 4)
    with jitlite.drop_in():
        frozen = JIT.freeze(JIT.script(model))
        assert is_ours(frozen) and torch.allclose(frozen(x), model(x), atol=1e-6)
        frozen = JIT.freeze(JIT.trace(model, x))
        assert is_ours(frozen) and torch.allclose(frozen(x), model(x), atol=1e-6)


def test_what_torch_compiles_for_itself_is_left_alone():
    with jitlite.drop_in():
        code = "import torch\ndef get(fn, text): return torch.jit.script(fn), torch.jit.CompilationUnit(text)"
        for name, ours in (("torch._decomp.thing", False), ("torchvision.ops", True), ("torch.testing.x", True)):
            space = {"__name__": name}
            exec(code, space)
            function, unit = space["get"](double, "def f(x):\n  return x\n")
            assert is_ours(function) is ours
            assert (type(unit).__module__ == "jitlite.api.script") is ours


def test_functional_code_of_torch_goes_on_working():
    with jitlite.drop_in():
        x = torch.randn(2, 3, 4)
        assert nn.functional.multi_head_attention_forward is not None
        assert nn.TransformerEncoderLayer(4, 2)(x).shape == x.shape
        assert not torch._jit_internal.is_scripting()
        assert not JIT.is_tracing()


def test_restored_after_an_error():
    original = JIT.script
    with pytest.raises(KeyError), jitlite.drop_in():
        assert JIT.script is not original
        raise KeyError
    assert JIT.script is original


def test_nested_use():
    original = JIT.script
    again = jitlite.drop_in()
    with again:
        ours = JIT.script
        with again, jitlite.drop_in():
            assert JIT.script is ours
        assert JIT.script is ours
    assert JIT.script is original


def test_what_somebody_sets_meanwhile_stays():
    original = JIT.script
    with jitlite.drop_in():
        JIT.script = "something else"
    assert JIT.script == "something else"
    JIT.script = original


def test_decorator():
    @jitlite.drop_in()
    def inside(n: int) -> object:
        """Doc."""
        if n:
            raise KeyError
        return JIT.script(double)

    assert is_ours(inside(0)) and inside.__doc__ == "Doc."
    with pytest.raises(KeyError):
        inside(1)


def test_decorated_generator_is_inside_while_it_runs_only():
    original = JIT.script

    @jitlite.drop_in()
    def steps():
        sent = yield is_ours(JIT.script(double))
        try:
            yield sent, JIT.script is not original
        except ValueError:
            yield JIT.script is not original
        return "end"

    generator = steps()
    assert JIT.script is original
    assert next(generator) is True
    assert JIT.script is original
    assert generator.send(4) == (4, True)
    assert generator.throw(ValueError()) is True
    assert JIT.script is original
    with pytest.raises(StopIteration, match="end"):
        next(generator)
    steps().close()


def test_decorated_coroutine():
    original = JIT.script

    @jitlite.drop_in()
    async def work():
        first = JIT.script is not original
        await asyncio.sleep(0)
        return first, JIT.script is not original

    async def all_of_it():
        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        outside = JIT.script is original
        return outside, await task

    assert asyncio.run(all_of_it()) == (True, (True, True))


def test_async_generators_are_refused():
    with pytest.raises(TypeError, match="async generator"):

        @jitlite.drop_in()
        async def steps():
            yield 1


def test_threads_share_the_exchange():
    original = JIT.script
    entered, leave = threading.Event(), threading.Event()
    seen = []

    def other():
        with jitlite.drop_in():
            entered.set()
            leave.wait(10)
            seen.append(JIT.script is not original)

    thread = threading.Thread(target=other)
    with jitlite.drop_in():
        thread.start()
        assert entered.wait(10)
    assert JIT.script is not original, "the other thread is still inside"
    leave.set()
    thread.join()
    assert seen == [True] and JIT.script is original


def test_pickled_inside_and_loaded_outside():
    with jitlite.drop_in():
        data = pickle.dumps(JIT.script(Marked()))
    assert is_ours(pickle.loads(data))


def test_operators_of_a_program_are_listed():
    with jitlite.drop_in():
        model = torch.jit.script(nn.Linear(2, 2))
        assert torch.jit.export_opnames(model) == jitlite.export_opnames(model) == ["aten::linear"]
        with pytest.raises(TypeError, match="takes a script module"):
            jitlite.export_opnames(nn.Linear(2, 2))


# -- classes and graphs under torch's names


def test_classes_by_every_name():
    made = jitlite.script(nn.Linear(2, 2)), jitlite.trace(nn.Linear(2, 2), torch.ones(1, 2)), jitlite.script(double)
    with jitlite.drop_in():
        scripted, traced, function = made
        assert all(isinstance(m, c) for m in (scripted, traced) for c in (JIT.ScriptModule, JIT._script.ScriptModule))
        assert isinstance(scripted, JIT._script.RecursiveScriptModule)
        assert not isinstance(scripted, JIT.TopLevelTracedModule | JIT._trace.TracedModule)
        for name in ("TracedModule", "TopLevelTracedModule"):
            assert all(isinstance(traced, getattr(m, name)) for m in (JIT, JIT._trace))
        assert all(isinstance(function, c) for c in (torch._C.ScriptFunction, JIT._script.ScriptFunction))
        assert isinstance(scripted._c, torch._C.ScriptModule) and isinstance(scripted.forward, torch._C.ScriptMethod)
        assert not isinstance(nn.Linear(2, 2), JIT.ScriptModule) and not isinstance(double, torch._C.ScriptFunction)


def test_graphs_are_views_inside_only():
    m = jitlite.script(Positive())
    with jitlite.drop_in():
        graph = m.graph
        assert isinstance(graph, torch._C.Graph) and isinstance(graph, torch.Graph)
        node = graph.findNode("aten::clamp")
        assert isinstance(node, torch.Node) and isinstance(node.output(), torch.Value)
        assert isinstance(node.output().type(), torch._C.TensorType) and isinstance(node.output().type(), torch.Type)
        assert [n.kind() for n in graph.nodes()].count("prim::Constant") == 2
        assert isinstance(node.owningBlock(), torch.Block) and node.output().uses()[0].user.kind() == "prim::Return"
    assert isinstance(m.graph, jitlite.ir.graph.Graph)


def test_functions_of_the_compiler_take_what_each_has_made():
    theirs = JIT.script(double)
    ours = jitlite.script(double)
    with jitlite.drop_in():
        for graph in (theirs.graph, ours.graph):
            assert isinstance(graph, torch._C.Graph)
            copy = graph.copy()
            torch._C._jit_pass_dce(copy)
            torch._C._jit_pass_inline(copy)
            assert "aten::mul" in str(copy)
        read = torch._C.parse_ir(str(ours.graph))
        assert read.findNode("aten::mul") is not None and type(read) is type(ours.graph)
        assert torch._C.parse_schema("f(int a=3) -> int").arguments[0].default_value == 3
        assert str(torch._C.ListType(torch._C.IntType.get())) == str(torch._C.ListType.ofInts()) == "List[int]"
        assert JIT._recursive.torch is torch  # what is not exchanged is still there
    with pytest.raises(TypeError):
        torch._C._jit_pass_dce(ours.graph)


def test_what_is_imported_from_submodules_inside():
    with jitlite.drop_in():
        from torch.jit._script import RecursiveScriptModule, script
        from torch.jit._trace import trace
    assert is_ours(script(double)) and isinstance(script(nn.Linear(2, 2)), RecursiveScriptModule)
    assert trace(nn.Linear(2, 2), torch.ones(1, 2)).graph is not None
    assert JIT._state is sys.modules["torch.jit._state"]


def test_torch_compiles_for_itself_inside():
    with jitlite.drop_in():
        theirs = JIT._script.__jitlite_module__._script_impl(Positive())
        assert not is_ours(theirs) and isinstance(theirs, JIT.ScriptModule)
        assert theirs(torch.tensor([-1.0, 2.0])).tolist() == [0, 2]
