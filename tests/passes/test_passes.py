"""The runner of passes, its hook, the switches, the pipelines, and what golden text cannot show of single passes."""

from __future__ import annotations

import importlib
import io
import sys
import time
from pathlib import Path

import pytest
import torch
from faults import FAULTS, RARE_FAULTS

import jitlite
from jitlite.analysis import alias
from jitlite.base import options
from jitlite.ir.compiling import compiling
from jitlite.ir.graph import Graph
from jitlite.ir.parser import parse
from jitlite.ir.value_keys import value_key
from jitlite.passes import registry
from jitlite.passes.pipelines import CLEANUP, OPTIMIZE, Pipeline
from jitlite.passes.registry import PassError, PassHook, run

DOUBLED = """graph(%n : int):
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=1]()
  %3 : int = aten::mul(%n, %1)
  %4 : int = aten::mul(%n, %2)
  %5 : int = aten::add(%3, %4)
  return (%5)
"""


# -- the runner


def test_a_pass_is_named_after_its_file():
    files = {path.stem for path in Path(registry.__file__).parent.glob("*.py")}
    assert set(registry.names()) < files
    assert registry.find("dce").__module__ == "jitlite.passes.dce"


def test_an_unknown_pass_is_answered_with_the_nearest_name():
    with pytest.raises(ValueError, match=r"no pass 'inlin'; did you mean 'inline'"):
        run(Graph(), "inlin")
    with pytest.raises(ValueError, match="no pass 'alias'"):
        registry.find("alias")


def test_run_takes_a_text_or_a_sequence_and_says_whether_anything_changed():
    for passes in ("cse, dce", ["cse", "dce"]):
        graph = parse(DOUBLED)
        assert run(graph, passes)
        assert not run(graph, passes)
        assert str(graph).count("aten::mul") == 1


def _broken_after(pass_name: str, monkeypatch: pytest.MonkeyPatch, function) -> None:
    registry.find(pass_name)
    monkeypatch.setitem(registry._passes, pass_name, function)


def test_a_failing_pass_is_named_with_the_ones_before_it_and_the_users_line(monkeypatch):
    @jitlite.script
    def f(n: int) -> int:
        return n // 2

    def broken(graph: Graph) -> bool:
        for node in graph.nodes:
            if node.kind == "aten::floordiv":
                raise KeyError("it")
        return False

    broken.__module__ = registry.find("cse").__module__  # it is one of jitlite's own
    _broken_after("cse", monkeypatch, broken)
    with pytest.raises(PassError) as caught:
        run(f.graph.copy(), "dce,inline,cse,dce")
    text = str(caught.value)
    assert "pass 'cse' failed: KeyError" in text and "passes before it: dce, inline" in text
    assert "test_passes.py" in text and "n // 2" in text and "report" in text
    assert caught.value.name == "cse" and caught.value.before == ("dce", "inline")


def test_verify_finds_the_pass_that_breaks_the_graph(monkeypatch):
    def broken(graph: Graph) -> bool:
        node = next(n for n in graph.nodes if n.kind == "aten::add")
        node.move_before(next(iter(graph.nodes)))
        return True

    broken.__module__ = registry.find("cse").__module__  # it is one of jitlite's own
    _broken_after("cse", monkeypatch, broken)
    run(parse(DOUBLED), "cse", PassHook())
    with pytest.raises(PassError, match="'cse'"):
        run(parse(DOUBLED), "cse", PassHook(verify=True))
    with options.override(verify=True), pytest.raises(PassError, match="'cse'"):
        run(parse(DOUBLED), "cse")


def test_the_hook_prints_what_changed_and_keeps_records():
    printed = io.StringIO()
    hook = PassHook(print_changed=printed)
    run(parse(DOUBLED), "cse,cse", hook)
    assert "--- before cse" in printed.getvalue() and "-  %4 : int = aten::mul(%n, %2)" in printed.getvalue()
    assert printed.getvalue().count("before cse") == 1, "the second time nothing changed"
    first, second = hook.records
    assert (first.name, first.changed, first.nodes_before, first.nodes_after) == ("cse", True, 5, 3)
    assert not second.changed and first.seconds >= 0


def test_the_bisect_limit_stops_after_so_many_passes(monkeypatch, capsys):
    monkeypatch.setattr(registry, "_executions", iter(range(1, 100)))
    graph = parse(DOUBLED)
    assert not run(graph, "dce,cse", PassHook(bisect_limit=1))
    assert str(graph) == str(parse(DOUBLED))
    assert "NOT running pass (2) cse" in capsys.readouterr().err
    assert run(graph, "cse", PassHook(bisect_limit=3))


def test_the_differential_callback_gets_both_graphs():
    seen = []
    hook = PassHook(differential=lambda name, before, after: seen.append((name, str(before), str(after))))
    run(parse(DOUBLED), "dce,cse", hook)
    assert [name for name, _, _ in seen] == ["cse"]
    assert seen[0][1] == str(parse(DOUBLED)) != seen[0][2]


def test_the_reference_page_is_up_to_date():
    page = Path(__file__).parents[2] / "docs" / "passes.md"
    assert page.read_text() == registry.passes_markdown(), "run: make docs"


# -- switches


def test_switches_are_read_from_the_environment():
    read = options.Options.from_environment
    assert read({}) == options.Options()
    assert read({"JITLITE_VERIFY": "1", "JITLITE_OPT_BISECT_LIMIT": "7"}) == options.Options(
        verify=True, opt_bisect_limit=7
    )
    with pytest.raises(ValueError, match="JITLITE_VERIFY='maybe'"):
        read({"JITLITE_VERIFY": "maybe"})
    assert all(variable.startswith("JITLITE_") and doc for _, variable, doc in options.describe())


def test_an_override_lasts_as_long_as_its_block():
    before = options.current()
    with options.override(verify=True) as inner:
        assert options.current() is inner and inner.verify
    assert options.current() is before


# -- pipelines


def test_pipelines_name_passes():
    for pipeline in (CLEANUP, OPTIMIZE):
        assert set(pipeline.passes) <= set(registry.names())


def test_a_pipeline_repeats_until_nothing_changes():
    graph = parse(DOUBLED)
    hook = PassHook(verify=True)
    assert Pipeline(repeated=("cse", "dce"))(graph, hook)
    assert [record.name for record in hook.records] == ["cse", "dce"]  # after cse, which alone changed something
    assert not Pipeline(repeated=("cse", "dce"))(graph)


def test_optimizing_again_only_turns_the_constants_round():
    @jitlite.script
    def f(x: torch.Tensor, n: int):
        xs = [x, x + 1]
        total = xs[0] * 1
        for i in range(n):
            if 2 > 1:
                total = total + xs[1] + i * 1
        return total, len(xs)

    graph = f.graph.copy()
    OPTIMIZE(graph, PassHook(verify=True))
    text = str(graph)
    for _ in range(2):
        OPTIMIZE(graph, PassHook(verify=True))
    assert str(graph) == text
    assert "aten::len" not in text and "prim::If" not in text


def test_ten_thousand_statements_take_seconds():
    lines = ["graph(%x0 : Tensor, %n : int):", "  %1 : int = prim::Constant[value=1]()"]
    for i in range(10_000):
        kind = ("aten::add", "aten::add_")[i % 2]
        lines.append(f"  %x{i + 1} : Tensor = {kind}(%x{i}, %n, %1)")
    graph = parse("\n".join([*lines, "  return (%x10000)"]))
    start = time.perf_counter()
    OPTIMIZE(graph)
    assert time.perf_counter() - start < 20


# -- single passes


def test_inlined_nodes_remember_the_calls():
    def inner(n: int) -> int:
        if n > 0:
            n = n * 3
        return n

    def middle(n: int) -> int:
        return inner(n) + 1

    @jitlite.script
    def outer(n: int) -> int:
        return middle(n)

    graph = outer.graph.copy()
    run(graph, "inline", PassHook(verify=True))
    node = next(n for n in graph.all_nodes() if n.kind == "aten::mul")
    names = [name for name, _ in node.call_stack]
    assert names == ["middle", "inner"]
    assert all(called_at.text.startswith(f"{name}(n") for name, called_at in node.call_stack)
    assert not any(n.kind == "prim::CallFunction" for n in graph.all_nodes())


def test_keys_tell_values_apart():
    values = [0, 0.0, -0.0, False, None, "0", 0j, torch.float32, torch.float64, (0,), [0], (0.0,), {0: 0}, float("nan")]
    keys = [value_key(v) for v in values]
    assert len(set(keys)) == len(values)
    assert value_key(float("nan")) == value_key(float("nan")) and value_key([1, (2,)]) == value_key([1, (2,)])
    assert value_key(torch.ones(1)) != value_key(torch.zeros(1))


def test_folding_is_quiet_about_warnings_and_leaves_grad_mode_alone(recwarn):
    graph = parse(DOUBLED)
    assert torch.is_grad_enabled()
    run(graph, "constant_propagation")
    assert torch.is_grad_enabled() and not recwarn.list


@pytest.mark.parametrize("plant", [p for _, p in FAULTS + RARE_FAULTS], ids=[n for n, _ in FAULTS + RARE_FAULTS])
def test_planted_faults_go_away_again(plant):
    """That they are found is for `test_faults.py` and `test_golden.py`."""
    wanted = str(_cleaned())
    with plant():
        _cleaned()
    assert str(_cleaned()) == wanted


def _cleaned() -> Graph:
    graph = parse(DOUBLED)
    OPTIMIZE(graph)
    return graph


def test_passes_go_down_into_deeply_nested_blocks():
    depth, limit = 400, sys.getrecursionlimit()
    lines = ["graph(%c : bool, %x : Tensor):"]
    for level in range(depth):
        margin = "  " * (level + 1)
        lines += [f"{margin}%r{level} : Tensor = prim::If(%c)", f"{margin} block0():", f"{margin}   -> (%x)"]
        lines += [f"{margin} block1():"]
    lines += [f"{'  ' * (depth + 1)}%y : Tensor = aten::relu(%x)"]
    for level in reversed(range(depth)):
        inner = "%y" if level == depth - 1 else f"%r{level + 1}"
        lines += [f"{'  ' * (level + 1)}   -> ({inner})"]
    with compiling():  # reading the text, too, goes down into the blocks
        graph = parse("\n".join([*lines, "  return (%r0)"]) + "\n")
    registry.run(graph, "cse,peephole,create_autodiff,dce")
    assert sys.getrecursionlimit() == limit


def test_inlining_looks_at_each_function_once(monkeypatch):
    module = importlib.import_module("jitlite.passes.inline")
    looked, original = [], module._called
    monkeypatch.setattr(module, "_called", lambda function: looked.append(function) or original(function))
    text = "def f0(x):\n    return x + 1\n"
    text += "".join(f"def f{i}(x):\n    return f{i - 1}(x) + f{i // 2}(x)\n" for i in range(1, 9))
    unit = jitlite.CompilationUnit(text)
    graph = unit.f8.graph.copy()
    assert module.inline_calls(graph)
    assert len(looked) == len(set(looked)) == 8
    assert not [n for n in graph.all_nodes() if n.kind == "prim::CallFunction"]


def test_inlining_leaves_functions_that_call_themselves_by_way_of_others():
    def even(n: int) -> bool:
        return True if n == 0 else odd(n - 1)

    def odd(n: int) -> bool:
        return False if n == 0 else even(n - 1)

    def f(n: int) -> bool:
        return uses(n) and not odd(n)

    def uses(n: int) -> bool:
        return even(n)

    scripted = jitlite.script(f)
    called = [n.inputs[0].node.attributes["name"] for n in scripted.optimized_graph.all_nodes() if "Call" in n.kind]
    assert sorted(called) == ["even", "odd"]
    assert [scripted(n) for n in range(5)] == [f(n) for n in range(5)]


def test_the_analysis_of_aliases_serves_the_passes_until_one_changes_something(monkeypatch):
    analyzed, original = [], alias.AliasDb.__init__

    def count(self, graph):
        analyzed.append(sum(1 for _ in graph.all_nodes()))
        original(self, graph)

    monkeypatch.setattr(alias.AliasDb, "__init__", count)
    text = """graph(%l : int[], %i : int):
  %a : int = aten::__getitem__(%l, %i)
  %b : int = aten::__getitem__(%l, %i)
  %c : int = aten::add(%a, %b)
  return (%c)
"""
    Pipeline(once=("cse", "load_elimination", "hoist_loop_invariants", "cse", "load_elimination"))(parse(text))
    assert analyzed == [3, 2]  # the first pass merges the two reads; the others find nothing to do
    analyzed.clear()
    graph = parse(text)
    assert run(graph, "cse") and not run(graph, "load_elimination")
    assert analyzed == [3, 2]  # between runs anybody may change the graph
    assert graph.analyses is None
