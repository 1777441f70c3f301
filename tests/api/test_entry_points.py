"""Every public name does once what it is for. Short, because it is run on several versions of torch."""

import contextlib
import importlib.util
import io
from collections.abc import Callable
from typing import List, Optional

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite import cli
from jitlite.api.torch_compile import backend
from jitlite.base import options
from jitlite.cli.commands import COMMANDS


def steps(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        if bool(x.sum() > 3.0):
            x = x - i
        else:
            x = x * 2
    return x


class Layer(nn.Module):
    limit: jitlite.Final[int]

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.limit = 3

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu() * self.limit

    @jitlite.export
    def twice(self, x: Tensor) -> Tensor:
        return self.forward(self.forward(x))

    @jitlite.unused
    def not_compiled(self, x):
        return open(x)

    @jitlite.ignore
    def in_python(self, x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy())


@jitlite.interface
class Scaler:
    def scale(self, x: Tensor) -> Tensor:
        pass


@jitlite.script
class Doubler:
    def scale(self, x: Tensor) -> Tensor:
        return x * 2


def scaled(s: Scaler, x: Tensor) -> Tensor:
    return s.scale(x)


def optional(x: Optional[Tensor]) -> Tensor:
    return jitlite._unwrap_optional(x) + 1


def empty_list(n: int) -> List[int]:
    found = jitlite.annotate(List[int], [])
    found.append(n)
    return found


def kind(x: Tensor) -> str:
    if jitlite.isinstance(x, Tensor):
        return "script" if jitlite.is_scripting() else "eager"
    return "other"


def forked(x: Tensor) -> Tensor:
    return jitlite.wait(jitlite.fork(helper, x))


def helper(x: Tensor) -> Tensor:
    return x + 1


def fails(x: Tensor) -> Tensor:
    return torch.no_such_function(x)


@jitlite.script_if_tracing
def loops(x: Tensor) -> Tensor:
    for i in range(x.size(0)):
        x = x + i
    return x


class WithMethod(jitlite.ScriptModule):
    @jitlite.script_method
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


X = torch.ones(2, 2)
V = torch.arange(3.0)


def same(got, expected):
    torch.testing.assert_close(got, expected)
    return True


def archived(module):
    file = io.BytesIO()
    jitlite.save(module, file)
    file.seek(0)
    return jitlite.load(file)


def refused(function, kind):
    with pytest.raises(kind):
        function()
    return True


@contextlib.contextmanager
def kept(read, write):
    before = read()
    yield
    write(before)


def fused():
    with kept(jitlite.onednn_fusion_enabled, jitlite.enable_onednn_fusion):
        jitlite.enable_onednn_fusion(True)
        return jitlite.onednn_fusion_enabled()


def fusion():
    before = jitlite.set_fusion_strategy([("STATIC", 2)])
    return jitlite.set_fusion_strategy(before) == [("STATIC", 2)]


def last_graph():
    function = jitlite.script(steps)
    function(X, 3)
    return "aten::" in str(jitlite.last_executed_optimized_graph())


def dropped_in():
    with jitlite.drop_in():
        return isinstance(torch.jit.script(steps), jitlite.ScriptFunction)


def trace_of_loops():
    traced = jitlite.trace(lambda x: loops(x), V)
    return same(traced(torch.ones(5)), torch.ones(5) + 10)


def exported():
    program = jitlite.to_exported(jitlite.script(Layer()), (X,))
    return "aten.linear" in str(program.graph) or "aten.relu" in str(program.graph)


def differing():
    calls = []

    def unsteady(x):
        calls.append(x)
        return x + len(calls)

    return refused(lambda: jitlite.trace(unsteady, X), jitlite.TracingCheckError)


def frozen(how):
    model = Layer().eval()
    return same(how(jitlite.script(model))(X), model(X))


def overloads():
    return jitlite._overload is not None and callable(jitlite._overload_method)


def casts():
    return isinstance(jitlite.autocast, type)


def awaited():
    return same(jitlite._awaitable_wait(jitlite._awaitable(helper, X)), X + 1)


def ignored_block(n: int) -> int:
    with jitlite._IgnoreContextManager(n="inp:int", m="out:int"):
        m = eval("n + 1")
    return m


def of_program():
    program = jitlite.to_python(jitlite.script(steps))
    return isinstance(program, jitlite.PythonProgram) and "def steps" in program.source


def moved_to_fx():
    model = jitlite.script(Layer())
    return same(jitlite.to_fx(model)(X), model(X))


def to_onnx():
    if importlib.util.find_spec("onnx") is None:
        return refused(lambda: jitlite.to_onnx(helper, X), ImportError)
    return b"Add" in jitlite.to_onnx(helper, X).SerializeToString()


def typed(line: str, call: Callable[[], object]) -> object:
    """What a call gives while somebody types a line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO(f"{line}\n"))
        return call()


def looked_at() -> bool:
    try:
        jitlite.script(Layer())(torch.ones(3, 3))
    except RuntimeError as error:
        jitlite.post_mortem(error, ["where"])
        return True
    return False


def run_passes():
    graph = jitlite.script(steps).graph
    jitlite.passes.run(graph, "inline,cse,dce")
    return "aten::" in str(graph)


def read_text():
    text = jitlite.script(steps).graph.to_text(ranges=False)
    return jitlite.ir.parse(text).to_text(ranges=False) == text


def optimized(module):
    jitlite.run_frozen_optimizations(module)
    return module


def unoptimized():
    with jitlite.optimized_execution(False):
        return same(jitlite.script(steps)(X, 3), steps(X, 3))


USES = {
    "ArchiveError": lambda: refused(lambda: jitlite.load(io.BytesIO(b"no archive")), jitlite.ArchiveError),
    "Attribute": lambda: jitlite.Attribute(1, int).value == 1,
    "CompilationUnit": lambda: jitlite.CompilationUnit("def f(x: int) -> int:\n    return x + 1").f(1) == 2,
    "CompileError": lambda: refused(lambda: jitlite.script(fails), jitlite.CompileError),
    "Error": lambda: issubclass(jitlite.Error, Exception),
    "Final": lambda: jitlite.script(Layer()).limit == 3,
    "Future": lambda: isinstance(jitlite.fork(helper, X), torch.futures.Future | jitlite.Future),
    "NotSupportedError": lambda: issubclass(jitlite.NotSupportedError, jitlite.CompileError),
    "PythonProgram": of_program,
    "RecursiveScriptModule": lambda: isinstance(jitlite.script(Layer()), jitlite.RecursiveScriptModule),
    "ScriptDict": lambda: isinstance(jitlite.script({"a": 1}), jitlite.ScriptDict),
    "ScriptFunction": lambda: same(jitlite.script(steps)(X, 3), steps(X, 3)),
    "ScriptList": lambda: isinstance(jitlite.script([1]), jitlite.ScriptList),
    "ScriptModule": lambda: same(WithMethod()(X), X + 1),
    "TopLevelTracedModule": lambda: isinstance(jitlite.trace(Layer(), X), jitlite.TopLevelTracedModule),
    "TracedModule": lambda: isinstance(jitlite.trace(Layer(), X).linear, jitlite.TracedModule),
    "TracerWarning": lambda: issubclass(jitlite.TracerWarning, Warning),
    "TracingCheckError": differing,
    "_IgnoreContextManager": lambda: jitlite.script(ignored_block)(1) == 2,
    "_awaitable": awaited,
    "_awaitable_nowait": lambda: jitlite._awaitable_wait(jitlite._awaitable_nowait(3)) == 3,
    "_awaitable_wait": awaited,
    "_drop": lambda: callable(jitlite._drop(lambda x: x)),
    "_overload": overloads,
    "_overload_method": overloads,
    "_unique_state_dict": lambda: set(jitlite._unique_state_dict(Layer())) == {"linear.weight", "linear.bias"},
    "_unwrap_optional": lambda: same(jitlite.script(optional)(X), X + 1),
    "annotate": lambda: jitlite.script(empty_list)(3) == [3],
    "autocast": casts,
    "bisect": lambda: jitlite.bisect(steps, X, 3) is None,
    "debug": lambda: same(typed("continue", lambda: jitlite.debug(steps, X, 3)), steps(X, 3)),
    "debug_with": lambda: same(jitlite.debug_with(["continue"], steps, X, 3), steps(X, 3)),
    "drop_in": dropped_in,
    "enable_onednn_fusion": fused,
    "export": lambda: jitlite.script(Layer()).twice(X).shape == (2, 2),
    "export_opnames": lambda: "aten::linear" in jitlite.export_opnames(jitlite.script(Layer())),
    "fork": lambda: same(jitlite.script(forked)(X), X + 1),
    "freeze": lambda: frozen(jitlite.freeze),
    "ignore": lambda: same(jitlite.script(Layer()).in_python(X), X) if hasattr(X, "numpy") else True,
    "interface": lambda: same(jitlite.script(scaled)(Doubler(), X), X * 2),
    "ir": read_text,
    "is_scripting": lambda: (jitlite.script(kind)(X), kind(X)) == ("script", "eager"),
    "is_tracing": lambda: not jitlite.is_tracing(),
    "isinstance": lambda: jitlite.isinstance([1], List[int]) and not jitlite.isinstance({}, List[int]),
    "from_exported": lambda: same(jitlite.from_exported(torch.export.export(layer := Layer(), (X,)))(X), layer(X)),
    "report": lambda: all("optimized" in jitlite.report(f, *a).html for f, a in ((steps, (X, 3)), (Layer(), ()))),
    "last_executed_gradient_graph": lambda: last_graph() and "backward" in str(jitlite.last_executed_gradient_graph()),
    "last_executed_optimized_graph": last_graph,
    "compare": lambda: jitlite.compare(jitlite.optimize(helper, X), X).first_beyond is None,
    "load": lambda: same(archived(jitlite.script(layer := Layer()))(X), layer(X)),
    "onednn_fusion_enabled": fused,
    "optimize_for_inference": lambda: frozen(jitlite.optimize_for_inference),
    "optimized_execution": unoptimized,
    "passes": run_passes,
    "post_mortem": looked_at,
    "run_frozen_optimizations": lambda: frozen(lambda m: optimized(jitlite.freeze(m))),
    "save": lambda: archived(jitlite.script(Layer())).linear.weight.shape == (2, 2),
    "script": lambda: "def" not in str(jitlite.script(steps).graph),
    "script_if_tracing": trace_of_loops,
    "script_method": lambda: same(WithMethod()(X), X + 1),
    "set_fusion_strategy": fusion,
    "to_exported": exported,
    "to_fx": moved_to_fx,
    "to_onnx": to_onnx,
    "to_stablehlo": lambda: "stablehlo.add" in jitlite.to_stablehlo(helper, X),
    "to_python": of_program,
    "trace": lambda: same(jitlite.trace(helper, X)(V), V + 1),
    "trace_module": lambda: same(jitlite.trace_module(layer := Layer(), {"forward": X}).forward(X), layer(X)),
    "unused": lambda: refused(lambda: jitlite.script(Layer()).not_compiled("x"), Exception),
    "wait": lambda: same(jitlite.wait(jitlite.fork(helper, X)), X + 1),
}


@pytest.mark.parametrize("name", sorted(jitlite.__all__))
def test_public_name(name):
    """Its use, or for other names of what has one, that it is there."""
    assert USES.get(name, lambda: getattr(jitlite, name) is not None)()


def test_uses_are_of_public_names():
    assert set(USES) <= set(jitlite.__all__)


MODEL = """
import torch
from torch import Tensor


def scaled(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        x = x * i
    return x
"""
WORDS = {
    "show": ["model.py:scaled", "--stage", "all"],
    "run": ["model.py:scaled", "ones(2)", "3", "--check"],
    "opt": ["model.py:scaled", "-p", "inline,cse,dce"],
    "explain": ["model.py:scaled", "ones(2)", "3"],
    "report": ["model.py:scaled", "--example", "ones(2)", "--example", "3"],
    "bisect": ["model.py:scaled", "--input", "ones(2)", "3"],
    "profile": ["model.py:scaled", "ones(2)", "3"],
    "debug": ["model.py:scaled", "ones(2)", "3", "-c", "where", "-c", "continue"],
    "cache": ["show"],
    "passes": [],
    "options": [],
    "completion": ["bash"],
    "dis": ["model.py:scaled"],
    "convert": ["model.pt", "--to", "python", "-o", "made.py"],
    "migrate": ["old.py", "--diff"],
    "demo": [],
    "list": ["model.py"],
}
"""What each command is called with; `doctor` has tests of its own."""


def test_every_command_has_a_use():
    assert set(WORDS) | {"doctor"} == set(COMMANDS)


@pytest.mark.parametrize("command", list(WORDS))
def test_command(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "old.py").write_text("import torch\n\n\n@torch.jit.script\ndef f(x):\n    return x\n")
    jitlite.save(jitlite.script(Layer()), tmp_path / "model.pt")
    with options.override(cache_dir=str(tmp_path / "cache")):
        status = cli.main([command, *WORDS[command]])
    out = capsys.readouterr()
    assert status == 0, out.err
    assert out.out


def test_torch_compile():
    layer = Layer()
    assert same(torch.compile(layer, backend=backend, fullgraph=True)(X), layer(X))
