"""Packages outside the tree: their passes, operators and engines, by entry points and by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from declarations import restored
from torch import Tensor

import jitlite
from jitlite.executor import implementations
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.ir.ops import Effect, op
from jitlite.ir.regions import Backend
from jitlite.passes import PassError, insertion, registry

GOOD = {
    "good/__init__.py": "",
    "good/passes.py": """
        from jitlite.passes import graph_pass

        @graph_pass(name="merge_relus")
        def merge(graph):
            '''Let the user of `relu(relu(x))` use `relu(x)`.

            More about it.
            '''
            changed = False
            for node in list(graph.all_nodes()):
                inner = node.inputs[0].node if node.kind == "aten::relu" else None
                if inner is not None and inner.kind == "aten::relu":
                    node.output.replace_all_uses_with(inner.output)
                    node.destroy()
                    changed = True
            return changed

        def leave(graph):
            return False
        """,
    "good/operators.py": """
        import torch
        from jitlite.ir.ops import Effect, op

        @op("good::clamped(int self, int low, int high) -> int", Effect.PURE, total=True)
        def clamped(self: int, low: int, high: int) -> int:
            '''The nearest number between two others.'''
            return max(low, min(self, high))

        @torch.library.custom_op("good::thrice", mutates_args=())
        def thrice(x: torch.Tensor) -> torch.Tensor:
            return x * 3

        @thrice.register_fake
        def _(x):
            return torch.empty_like(x)
        """,
    "good/engine.py": """
        import torch
        from jitlite.engines.engine import Engine

        class Negator(Engine):
            name = "negator"
            least = 1

            def supports(self, node):
                return None if node.kind == "aten::neg" else "it knows aten::neg only"

            def compile(self, graph):
                return lambda inputs: [torch.neg(x) for x in inputs]
        """,
    "good-1.5.dist-info/METADATA": "Metadata-Version: 2.1\nName: good\nVersion: 1.5\n",
    "good-1.5.dist-info/entry_points.txt": """
        [jitlite.passes]
        good_passes = good.passes
        leave_alone = good.passes:leave

        [jitlite.operators]
        good = good.operators

        [jitlite.engines]
        negator = good.engine:Negator
        """,
}
BROKEN = {
    "broken.py": "raise RuntimeError('no such machine\\nas this')",
    "broken-0.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n",
    "broken-0.1.dist-info/entry_points.txt": """
        [jitlite.passes]
        cse = good.passes:leave
        raising = broken

        [jitlite.operators]
        absent = nowhere.at_all

        [jitlite.engines]
        negator = good.engine:Negator
        number = broken_number:N
        reference = good.engine:Negator
        """,
    "broken_number.py": "N = 3",
}


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def in_process(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(jitlite.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), root]), "PYTHONWARNINGS": "always"}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=folder)


def run_text(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "script_of_test.py").write_text(textwrap.dedent(text))
    done = in_process(folder, sys.executable, "script_of_test.py")
    assert done.returncode == 0, done.stderr[-3000:]
    return done


# -- an installed package


def test_a_package_adds_a_pass_an_operator_and_an_engine(tmp_path):
    done = run_text(
        written(tmp_path, GOOD),
        """
        import sys, torch, jitlite
        from torch import Tensor

        assert "good" not in sys.modules

        @jitlite.script
        def f(x: Tensor, n: int) -> Tensor:
            return torch.ops.good.thrice(torch.relu(torch.relu(x))) + torch.ops.good.clamped(n, 0, 9)

        assert "good.operators" in sys.modules and "good.passes" not in sys.modules, "loaded at first need"
        x = torch.tensor([-1.0, 2.0])
        assert torch.equal(f(x, 50), torch.relu(x) * 3 + 9)
        graph = f.graph.copy()
        assert jitlite.passes.run(graph, "merge_relus,leave_alone")
        assert [node.kind for node in graph.nodes].count("aten::relu") == 1
        assert {"merge_relus", "leave_alone", "cse"} <= set(jitlite.passes.names())

        def g(x):
            return torch.neg(x * 2) + 1

        fast = jitlite.optimize(g, torch.ones(3), engine="negator")
        assert torch.equal(fast(torch.ones(3)), g(torch.ones(3)))
        assert "engine negator" in fast.explain(), fast.explain()
        """,
    )
    assert done.stderr == ""


def test_what_is_broken_is_left_out_with_a_warning(tmp_path):
    done = run_text(
        written(tmp_path, GOOD | BROKEN),
        """
        import jitlite, torch
        from jitlite.ir import ops

        for _ in range(2):
            assert "merge_relus" in jitlite.passes.names()
            assert ops.lookup("good::clamped")
            try:
                jitlite.optimize(torch.nn.ReLU(), torch.ones(1), engine="number")
            except ValueError as error:
                names = "reference, onnxruntime, iree, negator"
                assert str(error) == f"there is no engine 'number'; there are {names}", error
        assert jitlite.passes.find("cse").__module__ == "jitlite.passes.cse"
        """,
    )
    warnings = [line.partition("UserWarning: ")[2] for line in done.stderr.splitlines() if "UserWarning" in line]
    end = "; `jitlite doctor` lists plugins"
    of = "broken 0.1 is left out as a plugin: its "
    assert warnings == [
        f"{of}cse = good.passes:leave (jitlite.passes) cannot be used: ValueError: 'cse' is the name of a pass of "
        f"jitlite's own; give graph_pass another name{end}",
        f"{of}raising = broken (jitlite.passes) cannot be used: RuntimeError: no such machine{end}",
        f"{of}absent = nowhere.at_all (jitlite.operators) cannot be used: ModuleNotFoundError: No module named "
        f"'nowhere'{end}",
        f"{of}number = broken_number:N (jitlite.engines) cannot be used: TypeError: expected an Engine, or what makes "
        f"one when it is called, got int{end}",
        f"{of}reference = good.engine:Negator (jitlite.engines) cannot be used: ValueError: reference is the name of "
        f"an engine that comes with jitlite{end}",
        "good 1.5 is left out as a plugin: its negator = good.engine:Negator (jitlite.engines) cannot be used: "
        f"broken 0.1 has one of this name{end}",
    ]


def test_a_plugin_may_look_for_passes_while_it_is_imported(tmp_path):
    files = {
        **{name: text for name, text in GOOD.items() if "dist-info/METADATA" in name},
        "good-1.5.dist-info/entry_points.txt": "[jitlite.passes]\ncurious = curious\n",
        "curious.py": """
            from jitlite import passes

            assert "curious_pass" not in passes.names()

            @passes.graph_pass
            def curious_pass(graph):
                return False
            """,
    }
    done = run_text(written(tmp_path, files), 'import jitlite; assert "curious_pass" in jitlite.passes.names()')
    assert done.stderr == ""


def test_the_doctor_lists_plugins(tmp_path):
    written(tmp_path, GOOD | BROKEN)
    done = in_process(tmp_path, sys.executable, "-m", "jitlite", "doctor", "--json")
    found = {(p["group"], p["name"], p["package"]): p["reason"] for p in json.loads(done.stdout)["plugins"]}
    assert found["jitlite.engines", "negator", "broken 0.1"] == ""
    assert found["jitlite.engines", "negator", "good 1.5"] == "broken 0.1 has one of this name"
    assert found["jitlite.passes", "raising", "broken 0.1"] == "RuntimeError: no such machine"
    assert found["jitlite.operators", "good", "good 1.5"] == ""
    assert len(found) == 10


def test_the_command_loads_a_file(tmp_path):
    written(tmp_path, {"mine.py": GOOD["good/passes.py"]})
    graph = "graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  %z : Tensor = aten::relu(%y)\n  return (%z)\n"
    (tmp_path / "graph.txt").write_text(graph)
    jitlite_command = [sys.executable, "-m", "jitlite"]
    done = in_process(tmp_path, *jitlite_command, "opt", "graph.txt", "--load", "mine.py", "-p", "merge_relus")
    assert done.returncode == 0 and done.stdout.count("aten::relu") == 1, done.stderr
    done = in_process(tmp_path, *jitlite_command, "passes", "--load", "mine.py")
    assert "merge_relus" in done.stdout and "Let the user of `relu(relu(x))` use `relu(x)`." in done.stdout
    done = in_process(tmp_path, *jitlite_command, "opt", "graph.txt", "--load", "nothing.py", "-p", "cse")
    assert done.returncode == 2 and "no such file: nothing.py" in done.stderr


# -- passes by hand


def two_relus(x: Tensor) -> Tensor:
    return torch.relu(torch.relu(x)) + 1


def no_second_relu(graph: Graph) -> bool:
    """Let the user of `relu(relu(x))` use `relu(x)`."""
    changed = False
    for node in list(graph.all_nodes()):
        inner = node.inputs[0].node if node.kind == "aten::relu" else None
        if inner is not None and inner.kind == "aten::relu":
            node.output.replace_all_uses_with(inner.output)
            node.destroy()
            changed = True
    return changed


def relus(graph: Graph) -> int:
    return sum(node.kind == "aten::relu" for node in graph.all_nodes())


def test_functions_run_beside_names():
    graph = jitlite.script(two_relus).graph.copy()
    hook = registry.PassHook()
    assert jitlite.passes.run(graph, ["dce", no_second_relu, "cse"], hook)
    assert relus(graph) == 1
    assert [record.name for record in hook.records] == ["dce", "no_second_relu", "cse"]


def test_a_pass_of_others_is_called_as_its_function_or_as_it_is_marked():
    with restored():
        registry.graph_pass(no_second_relu)
        assert registry.find("no_second_relu") is no_second_relu
        assert registry.summary("no_second_relu") == "Let the user of `relu(relu(x))` use `relu(x)`."
        assert "no_second_relu" in registry.names() and "no_second_relu" not in registry.own_names()

        @registry.graph_pass(name="rounding", exact=False)
        def marked(graph: Graph) -> bool:
            return False

        assert not registry.is_exact("rounding") and registry.is_exact("no_second_relu")
        registry.graph_pass(name="no_second_relu")(no_second_relu)  # a module that is loaded again
        with pytest.raises(ValueError, match="two passes are called 'rounding'"):
            registry.graph_pass(name="rounding")(no_second_relu)
        with pytest.raises(ValueError, match="'cse' is the name of a pass of jitlite's own"):
            registry.graph_pass(name="cse")(no_second_relu)
        with pytest.raises(ValueError, match="cannot be called 'a,b'"):
            registry.graph_pass(name="a,b")(no_second_relu)
        with pytest.raises(ValueError, match="a pass cannot be called ''"):
            registry.graph_pass(name="")(no_second_relu)
        with pytest.raises(ValueError, match="cannot be called '<lambda>'"):
            registry.graph_pass(lambda graph: False)


def gives_none(graph: Graph) -> None:
    return None


def breaks_the_graph(graph: Graph) -> bool:
    first, second = [node for node in graph.nodes if node.kind == "aten::relu"]
    second.move_before(first)
    return True


def swaps_inputs(graph: Graph) -> bool:
    graph.block.param_node.permute_outputs([1, 0])
    return True


def swaps_outputs(graph: Graph) -> bool:
    first, second = graph.outputs
    graph.block.return_node.remove_all_inputs()
    graph.block.return_node.add_input(second)
    graph.block.return_node.add_input(first)
    return True


def drops_an_output(graph: Graph) -> bool:
    graph.block.return_node.remove_input(1)
    return True


def adds_an_input(graph: Graph) -> bool:
    graph.add_input(T.TENSOR, "more")
    return True


def returns_a_number(graph: Graph) -> bool:
    graph.block.return_node.replace_input(0, graph.insert_constant(1))
    return True


PAIR = """graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::neg(%y)
  return (%a, %b)
"""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (swaps_inputs, r"it changed the graph's inputs: \(%x, %y\) became \(%y, %x\)"),
        (adds_an_input, "it changed the graph's inputs"),
        (swaps_outputs, r"the order of the graph's outputs: \(%a, %b\) became \(%b, %a\)"),
        (drops_an_output, "the number of the graph's outputs: 2 became 1"),
        (returns_a_number, "the type of output 0: Tensor became int"),
    ],
    ids=["swaps_inputs", "adds_an_input", "swaps_outputs", "drops_an_output", "returns_a_number"],
)
def test_a_pass_keeps_what_callers_pass_and_get(wrong, message):
    with pytest.raises(PassError, match=message):
        jitlite.passes.run(jitlite.ir.parse(PAIR), ["dce", wrong])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [(gives_none, "it returned None; a pass returns True"), (breaks_the_graph, "before")],
    ids=["gives_none", "breaks_the_graph"],
)
def test_a_wrong_pass_is_named(wrong, message):
    graph = jitlite.script(two_relus).graph.copy()
    with pytest.raises(PassError, match=message) as caught:
        jitlite.passes.run(graph, ["dce", wrong])
    assert "The pass is no part of jitlite; it is " in str(caught.value)
    assert f"{__file__}:{wrong.__code__.co_firstlineno}" in str(caught.value)
    assert "passes before it: dce" in str(caught.value)


@pytest.mark.parametrize("executor", ["profiling", "legacy", "simple"])
@pytest.mark.parametrize("place", [{"after": "peephole"}, {"before": "dce"}, {"before": "constant_pooling"}], ids=str)
def test_a_pass_in_plans(executor, place):
    x = torch.tensor([-1.0, 2.0, float("nan")])
    with jitlite.options.override(executor=executor):
        handle = jitlite.passes.insert(no_second_relu, **place)
        try:
            inside = jitlite.script(two_relus)
            torch.testing.assert_close(inside(x), two_relus(x), equal_nan=True)
            assert relus(jitlite.last_executed_optimized_graph()) <= relus(inside.graph) == 2
            assert relus(plan_of(inside, x)) == 1
        finally:
            handle.remove()
        outside = jitlite.script(two_relus)
        outside(x)
        assert relus(plan_of(outside, x)) == 2
    assert not insertion._inserted


def plan_of(function: jitlite.ScriptFunction, x: Tensor) -> Graph:
    function(x)
    found = jitlite.last_executed_optimized_graph()
    assert found is not None
    return found


def test_a_pass_in_plans_that_is_wrong_is_found():
    def drops_the_sum(graph: Graph) -> bool:
        for node in graph.all_nodes():
            if node.kind == "aten::add":
                node.output.replace_all_uses_with(node.inputs[0])
                return True
        return False

    with jitlite.passes.insert(drops_the_sum, after="cse"):
        found = jitlite.bisect(two_relus, torch.ones(2))
        assert found is not None and found.pass_name == "drops_the_sum"
    with jitlite.passes.insert(no_second_relu, after="cse"):
        said = str(jitlite.script(two_relus).explain(torch.ones(2)))
        assert "no_second_relu took out aten::relu" in said


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give one of before= and after="),
        ({"before": "cse", "after": "cse"}, "give one of before= and after="),
        ({"after": "csee"}, "did you mean 'cse'"),
        ({"after": "fold_conv_bn"}, "'fold_conv_bn' does not run in plans; those that do are constant_pooling"),
    ],
    ids=["neither", "both", "misspelt", "not in plans"],
)
def test_a_place_that_is_none(given, message):
    with pytest.raises(ValueError, match=message):
        jitlite.passes.insert(no_second_relu, **given)
    assert not insertion._inserted


# -- operators by hand


def test_operators_of_others_are_called_as_those_of_torch():
    def f(n: int, text: str):
        return torch.ops.example.doubled(n), torch.ops.example.doubled.text(text)

    with restored():

        @op("example::doubled(int n) -> int", Effect.PURE)
        @op("example::doubled.text(str n) -> str", Effect.PURE)
        def doubled(n):
            """Twice."""
            return n + n

        assert jitlite.script(f)(4, "ab") == (8, "abab")
        with jitlite.options.override(tier="stack"):
            assert jitlite.script(f)(4, "ab") == (8, "abab")

        def misspelt(n: int):
            return torch.ops.example.doubledd(n)

        with pytest.raises(jitlite.CompileError, match="did you mean 'doubled'"):
            jitlite.script(misspelt)

        def other_overload(n: int):
            return torch.ops.example.doubled.number(n)

        with pytest.raises(jitlite.CompileError, match="no overload 'number'"):
            jitlite.script(other_overload)

    def far(n: int):
        return torch.ops.not_there.at_all(n)

    with pytest.raises(jitlite.CompileError, match="import the package that defines the operator first"):
        jitlite.script(far)


@torch.library.custom_op("jitlite_tests::halved", mutates_args=())
def halved(x: Tensor) -> Tensor:
    return x / 2


def test_a_custom_operator_of_torch_is_called_by_its_function():
    def f(x: Tensor) -> Tensor:
        return halved(x) + torch.ops.jitlite_tests.halved(x)

    compiled = jitlite.script(f)
    assert [node.kind for node in compiled.graph.nodes].count("jitlite_tests::halved") == 2
    assert torch.equal(compiled(torch.ones(3)), torch.ones(3))


def test_an_operator_that_is_defined_later_is_found():
    def f(x: Tensor) -> Tensor:
        return torch.ops.jitlite_tests.defined_later(x)

    with pytest.raises(jitlite.CompileError):
        jitlite.script(f)
    library = torch.library.Library("jitlite_tests", "FRAGMENT")
    library.define("defined_later(Tensor x) -> Tensor")
    library.impl("defined_later", lambda x: x + 1, "CompositeExplicitAutograd")
    assert torch.equal(jitlite.script(f)(torch.zeros(1)), torch.ones(1))


# -- back ends by hand


def test_a_kind_of_regions_has_one_back_end():
    none = Backend(lambda region, context: "none")
    with implementations.add_backend("of_test", none):
        with pytest.raises(ValueError, match="there is a back end for regions of the kind 'of_test'"):
            implementations.add_backend("of_test", none)
        with pytest.raises(ValueError, match="there is a back end for regions of the kind 'native'"):
            implementations.add_backend("native", none)
        for name in ("", "two words", 3):
            with pytest.raises(ValueError, match="cannot be called"):
                implementations.add_backend(name, none)
        for wrong in (3, None, none.implement, Backend):
            with pytest.raises(TypeError, match="add_backend takes a jitlite.ir.regions.Backend"):
                implementations.add_backend("of_test_too", wrong)
        for parts in ((3,), (None,), (none.implement, "form")):
            with pytest.raises(TypeError, match="a Backend is made of functions"):
                implementations.add_backend("of_test_too", Backend(*parts))
        assert "of_test" in implementations._backends()
    assert "of_test" not in implementations._backends()
