"""Regions of a kind of their own: a back end of a few lines, in every tier, and all that it may do."""

from __future__ import annotations

import copy
import operator
import pickle
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Optional

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.executor import implementations
from jitlite.executor.graph_runners import runner_for
from jitlite.ir.graph import Graph, Node, constant_of, is_constant
from jitlite.ir.parser import parse
from jitlite.ir.regions import REGION, Backend, Implementation, PlanContext, Region
from jitlite.ir.verify import VerifyError, verify
from jitlite.objects.function import function_of_graph
from jitlite.passes import registry
from jitlite.passes.form_regions import PlainRun, form_regions

# -- the back end: sums and products are run by a closure

MEANING: dict[str, Callable[..., Any]] = {"aten::add": operator.add, "aten::mul": operator.mul}
calls: list[str] = []


def is_sum(node: Node) -> str | None:
    return None if node.kind in MEANING else f"{node.kind} is no sum"


def run_sums(region: Region, context: PlanContext) -> Callable[..., Any] | str:
    nodes = list(region.body.computations)
    if any(constant_of(v, 1) != 1 for node in nodes for v in node.inputs[2:]):
        return "a term is multiplied with a number"

    def run(*given: Any) -> Any:
        calls.append(context.tier)
        known = dict(zip(region.parameters, given, strict=True))
        for node in nodes:
            terms = [constant_of(v) if is_constant(v) else known[v] for v in node.inputs[:2]]
            known[node.output] = MEANING[node.kind](*terms)
        results = tuple(known[v] for v in region.results)
        return results if region.gives_tuple else results[0]

    return run


def form_sums(graph: Graph, context: PlanContext) -> Any:
    return form_regions(graph, "sums", lambda: PlainRun(is_sum))


SUMS = Backend(run_sums, form_sums)


def _put_first(monkeypatch: pytest.MonkeyPatch, **lines: Backend) -> None:
    """Have more back ends, which are asked before the others."""
    for kind, backend in (lines | {k: b for k, b in implementations.TABLE.items() if k not in lines}).items():
        monkeypatch.delitem(implementations.TABLE, kind, raising=False)
        monkeypatch.setitem(implementations.TABLE, kind, backend)


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The table with a line more, and which tier ran regions."""
    _put_first(monkeypatch, sums=SUMS)
    calls.clear()
    yield calls


def with_kind(monkeypatch: pytest.MonkeyPatch, run: Callable[..., Any] | Implementation | str) -> None:
    _put_first(monkeypatch, sums=Backend(lambda region, context: run, form_sums))


def plan_of(tier: str) -> PlanContext:
    return PlanContext("f", tier, lambda graph, name, within: runner_for(graph, name))


TIERS = pytest.mark.parametrize("tier", ["python", "stack"])
EXECUTORS = pytest.mark.parametrize("mode", ["profiling", "legacy", "simple"])


def polynomial(x: Tensor, n: int) -> Tensor:
    y = x * n + x
    if n > 2:
        y = y.sin()
    for i in range(n):
        y = (y + x) * i + 1
    return y


@TIERS
@EXECUTORS
def test_a_back_end_is_a_line_in_a_table(sums: list[str], tier: str, mode: str) -> None:
    function = jitlite.script(polynomial)
    x = torch.arange(3.0)
    with options.override(tier=tier, executor=mode, specialize_after=1, profiled_runs=1):
        for n in (0, 1, 4, 4, 4):
            assert torch.equal(function(x, n), polynomial(x, n))
    assert set(sums) >= {tier} and len(sums) > 5
    if mode != "legacy":
        assert {r.status for r in function.executor.regions} == {"it is run as one operation"}


def test_the_graph_that_users_see_has_no_regions_that_the_plan_forms(sums: list[str]) -> None:
    function = jitlite.script(polynomial)
    function(torch.ones(2), 2)
    assert sums and REGION not in str(function.executor.optimized_graph)
    assert "_sums(" in function.generated_code


@TIERS
def test_gradients_go_through_a_region(sums: list[str], tier: str) -> None:
    def through(function: Callable[..., Tensor]) -> Tensor:
        x = torch.arange(3.0, requires_grad=True)
        function(x, 4).sum().backward()
        assert x.grad is not None
        return x.grad

    with options.override(tier=tier):
        assert torch.equal(through(jitlite.script(polynomial)), through(polynomial))
    assert sums


@TIERS
def test_a_region_that_is_refused_runs_as_it_is_and_the_reason_is_kept(sums: list[str], tier: str) -> None:
    def scaled(x: Tensor, y: Tensor) -> Tensor:
        return torch.add(x, y, alpha=3) * y

    function = jitlite.script(scaled)
    x, y = torch.arange(3.0), torch.ones(3)
    with options.override(tier=tier):
        assert torch.equal(function(x, y), scaled(x, y))
        (region,) = function.executor.regions
        assert (region.kind, region.status) == ("sums", "a term is multiplied with a number")
        assert "_sums" not in function.generated_code
        assert region.place.startswith(__file__)
        assert function.explain(x, y).sections["Regions"] == [f"sums at {region.place}: {region.status}"]
    assert not sums


def test_a_kind_that_nothing_runs_runs_as_it_is() -> None:
    graph = parse(SQUARE)
    x = torch.arange(3.0)
    for tier in ("python", "stack"):
        with options.override(tier=tier):
            assert torch.equal(runner_for(graph, "square")(x), x * x * x)
    (region,) = implementations.implement(graph, plan_of("python"))
    assert region.status == "nothing runs regions of the kind sums"


SQUARE = """graph(%x : Tensor):
  %y : Tensor = prim::Region[kind="sums"](%x)
    block0(%p : Tensor):
      %a : Tensor = aten::mul(%p, %p)
      %b : Tensor = aten::mul(%a, %p)
      -> (%b)
  return (%y)
"""


def failing(x: Tensor, n: int) -> Tensor:
    y = x * n
    z = y + x  # this line
    return z.relu()


@TIERS
def test_what_a_region_raises_has_a_line_of_the_script(monkeypatch: pytest.MonkeyPatch, tier: str) -> None:
    def fail(*given: object) -> Any:
        raise ValueError("from the region")

    with_kind(monkeypatch, fail)
    function = jitlite.script(failing)
    with options.override(tier=tier), pytest.raises(ValueError, match="from the region") as caught:
        function(torch.ones(2), 1)
    assert "y = x * n" in "".join(traceback.format_exception(caught.value))


@TIERS
def test_a_region_that_cannot_do_it_runs_as_it_is_with_its_own_lines(
    monkeypatch: pytest.MonkeyPatch, tier: str
) -> None:
    asked: list[int] = []
    with_kind(monkeypatch, lambda *given: asked.append(1))
    function = jitlite.script(failing)
    with options.override(tier=tier):
        assert torch.equal(function(torch.ones(2), 1), failing(torch.ones(2), 1))
        with pytest.raises(RuntimeError) as caught:  # mul cannot write to itself: sizes differ
            jitlite.script(mismatch)(torch.ones(2), torch.ones(3))
    assert len(asked) == 2
    assert "# here" in "".join(traceback.format_exception(caught.value))


def mismatch(x: Tensor, y: Tensor) -> Tensor:
    z = x * x
    return z + y  # here


class _Adaptive(Implementation):
    is_adaptive = True
    seconds: float = 0.0

    def record_run(self, since: float) -> None:
        self.seconds += since
        self.publish(lambda *given: torch.full((1,), 7.0))


@pytest.mark.parametrize("tier", ["python"])
def test_an_implementation_may_come_later(monkeypatch: pytest.MonkeyPatch, tier: str) -> None:
    adaptive = _Adaptive(None)
    with_kind(monkeypatch, adaptive)
    function = jitlite.script(failing)
    with options.override(tier=tier):
        assert function(torch.ones(1), 1).item() == 2.0
        assert adaptive.seconds > 0
        assert function(torch.ones(1), 1).item() == 7.0


# -- results: one, several, none, one that may be None


@TIERS
@pytest.mark.parametrize(
    "outputs, body, given, found",
    [
        ("%r : Tensor", "-> (%a)", lambda x: x + 1, 1),
        ("%r : Tensor, %s : Tensor", "-> (%a, %p)", lambda x: (x + 1, x), 2),
        ("%r : Tensor?", "-> (%a)", lambda x: (None,), None),
    ],
)
def test_results(
    monkeypatch: pytest.MonkeyPatch, tier: str, outputs: str, body: str, given: Callable[..., Any], found: object
) -> None:
    returned = ", ".join(part.split(" ")[0] for part in outputs.split(", "))
    graph = parse(f"""graph(%x : Tensor):
      {outputs} = prim::Region[kind="sums"](%x)
        block0(%p : Tensor):
          %a : Tensor = aten::neg(%p)
          {body}
      return ({returned})""")
    verify(graph)
    with_kind(monkeypatch, given)
    with options.override(tier=tier):
        result = runner_for(graph, "f")(torch.zeros(1))
    if isinstance(found, int):
        results = result if found == 2 else (result,)
        assert [r.item() for r in results] == [1.0, 0.0][:found]
    else:
        assert result is None


@TIERS
def test_a_region_without_results_that_writes(monkeypatch: pytest.MonkeyPatch, tier: str) -> None:
    graph = parse("""graph(%x : Tensor, %y : Tensor):
      %1 : int = prim::Constant[value=1]()
       = prim::Region[kind="sums"](%x, %y)
        block0(%p : Tensor, %q : Tensor):
          %2 : int = prim::Constant[value=1]()
          %a : Tensor = aten::add_(%p, %q, %2)
          -> ()
      return (%x)""")
    for run, times in ((lambda x, y: None, 1), (lambda x, y: x.add_(10) and (), 10)):
        with_kind(monkeypatch, run)
        with options.override(tier=tier):
            x = torch.zeros(1)
            assert runner_for(graph, "f")(x, torch.ones(1)) is x
            assert x.item() == times


# -- a node like others: it copies, prints, parses, and is held to what it is


class Summing(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x + x


def test_a_module_whose_plans_have_regions_copies_and_pickles(sums: list[str]) -> None:
    module = jitlite.script(Summing())
    x = torch.arange(3.0)
    assert torch.equal(module(x), x * x + x)
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        before = len(sums)
        assert torch.equal(copied(x), x * x + x)
        assert len(sums) == before + 1


def test_copies_and_texts() -> None:
    graph = parse(SQUARE)
    for copied in (graph.copy(), copy.deepcopy(graph), parse(str(graph))):
        verify(copied)
        assert copied.to_text(ranges=False) == SQUARE
        assert copied.nodes is not graph.nodes


@pytest.mark.parametrize(
    "old, new, reason",
    [
        ("%a, %p)", "%a, %x)", "reads %x from around it, which is none of its inputs"),
        ("(%x)\n    block0", "(%x, %x)\n    block0", "takes 1 values, but is given 2"),
        ("-> (%b)", "-> (%b, %a)", "returns 2 values for 1 outputs"),
        ('[kind="sums"]', "", "has a name as attribute kind"),
        ('[kind="sums"]', '[kind=""]', "has a name as attribute kind"),
        ("graph(%x : Tensor)", "graph(%x : int)", "input %x is of type int but becomes %p of type Tensor"),
        ("%y : Tensor =", "%y : int =", "result %b is of type Tensor but becomes %y of type int"),
        ("      -> (%b)\n", "      -> (%b)\n    block1(%r : Tensor):\n      -> (%r)\n", "has 1 blocks, not 2"),
    ],
)
def test_the_verifier_refuses_what_is_no_region(old: str, new: str, reason: str) -> None:
    assert old in SQUARE
    with pytest.raises(VerifyError) as caught:
        verify(parse(SQUARE.replace(old, new)))
    assert reason in caught.value.reason


def test_the_kind_of_a_region_is_a_text() -> None:
    with pytest.raises(jitlite.CompileError, match="the attribute kind of prim::Region is a str"):
        parse(SQUARE.replace('"sums"', "3"))


def test_passes_do_not_take_values_across_the_edge_of_a_region() -> None:
    graph = parse("""graph(%x : Tensor):
      %1 : int = prim::Constant[value=1]()
      %a : Tensor = aten::add(%x, %x, %1)
      %y : Tensor = prim::Region[kind="sums"](%x)
        block0(%p : Tensor):
          %2 : int = prim::Constant[value=1]()
          %3 : int = prim::Constant[value=1]()
          %b : Tensor = aten::add(%p, %p, %2)
          %c : Tensor = aten::add(%b, %p, %3)
          -> (%c)
      return (%a, %y)""")
    registry.run(graph, "cse,constant_pooling,dce,constant_propagation,peephole", registry.PassHook(verify=True))
    (region,) = (Region(node) for node in graph.nodes if node.kind == REGION)
    assert [node.kind for node in region.body.nodes] == ["prim::Constant", "aten::add", "aten::add"]


def test_what_nobody_reads_of_a_region_goes() -> None:
    graph = parse("""graph(%x : int):
      %y : int, %z : int = prim::Region[kind="sums"](%x)
        block0(%p : int):
          %a : int = aten::neg(%p)
          %b : int = aten::neg(%a)
          -> (%a, %b)
      return (%y)""")
    registry.run(graph, "dce", registry.PassHook(verify=True))
    (region,) = (Region(node) for node in graph.nodes)
    assert len(region.outputs) == 1 and len(list(region.body.nodes)) == 1


def optional_scale(x: Tensor, scale: Optional[Tensor], n: int) -> Tensor:
    y = x * x + x
    if scale is not None:
        y = y * scale + n
    return y.sum() + n


def test_inlining_gives_the_graph_as_before() -> None:
    for function in (polynomial, failing, optional_scale):
        graph = jitlite.script(function).executor.optimized_graph.copy()
        before = str(graph)
        formed = form_regions(graph, "sums", lambda: PlainRun(is_sum))
        verify(graph)
        assert formed.regions and REGION in str(graph)
        assert all(is_sum(node) for node in formed.refused if node.kind not in MEANING)
        assert parse(str(graph)).to_text(ranges=False) == graph.to_text(ranges=False)
        registry.run(graph, "inline_regions", registry.PassHook(verify=True))
        assert str(graph) == before


# -- loops over ranges


def ranges(x: Tensor, n: int) -> Tensor:
    for i in range(2, n, 3):
        x = x * 2 * i
    for j in range(n, -5, -2):
        x = x + j
    return x


def is_product(node: Node) -> str | None:
    return None if node.kind == "aten::mul" else "it is no product"


def is_any(node: Node) -> str | None:
    return None


@TIERS
@pytest.mark.parametrize("belongs", [is_sum, is_product, is_any])
def test_loops_over_ranges(monkeypatch: pytest.MonkeyPatch, tier: str, belongs: Callable[[Node], str | None]) -> None:
    def form(graph: Graph, context: PlanContext) -> Any:
        return form_regions(graph, "sums", lambda: PlainRun(belongs, least=1))

    cannot = Backend(lambda region, context: lambda *given: None, form)
    _put_first(monkeypatch, sums=cannot)
    function = jitlite.script(ranges)
    with options.override(tier=tier):
        for n in (0, 3, 11):
            assert torch.equal(function(torch.ones(2), n), ranges(torch.ones(2), n))


OVER_RANGE = """graph(%n : int):
  %2 : int = prim::Constant[value=2]()
  %3 : int = prim::Constant[value=3]()
  %true : bool = prim::Constant[value=1]()
  %length : int = aten::__range_length(%2, %n, %3)
  %r : int = prim::Loop[over_range=1](%length, %true, %2)
    block0(%i : int, %last : int):
      %s : int = aten::mul(%last, %i)
      -> (%true, %s)
  return (%r)
"""


@TIERS
@pytest.mark.parametrize("native", ["off", "now"])
def test_a_text_may_have_loops_over_ranges(tier: str, native: str) -> None:
    graph = parse(OVER_RANGE)
    verify(graph)
    with options.override(tier=tier, native=native):
        assert runner_for(graph, "f")(11) == 2 * 2 * 5 * 8


@TIERS
@pytest.mark.parametrize("mode", ["profiling", "legacy", "off"])
def test_functions_of_such_texts(tier: str, mode: str) -> None:
    """Optimizing folds the length of the range, by which alone the loop would know its elements."""
    with options.override(tier=tier, executor=mode, background=False):
        function = function_of_graph("f", parse(OVER_RANGE))
        folded = function_of_graph("g", parse(OVER_RANGE.replace("(%2, %n, %3)", "(%2, %e, %3)").replace(
            "  %length", "  %e : int = prim::Constant[value=11]()\n  %length")))  # fmt: skip
        for _ in range(4):
            assert function(11) == folded(0) == 2 * 2 * 5 * 8


@pytest.mark.parametrize("name", registry.names())
def test_passes_count_the_loops_of_such_texts_first(name: str) -> None:
    graph = parse(OVER_RANGE)
    registry.run(graph, name)
    assert not any(node.attributes.get("over_range") for node in graph.all_nodes())
    assert runner_for(graph, "f")(11) == 2 * 2 * 5 * 8


# -- texts with regions of the kind `native` that could not have been formed


def refused_text(inputs: str, parameters: str, output: str, body: str) -> str:
    names = ", ".join(part.split(" ")[0] for part in inputs.split(", "))
    result = f"%r : {output} =" if output else ""
    return f"""graph({inputs}):
  {result} prim::Region[kind="native"]({names})
    block0({parameters}):
      {body}
  return ({"%r" if output else names})
"""


LIST = ("%x : int[], %n : int", "%p : int[], %q : int")
NATIVE_TEXTS: dict[str, tuple[str, Callable[[], tuple[Any, ...]]]] = {
    "a list from outside": (refused_text(*LIST, "int[]", "-> (%p)"), lambda: ([1, 2, 3], 4)),
    "a write to it": (
        refused_text(*LIST, "int", "%l : int[] = aten::append(%p, %q)\n      -> (%q)"),
        lambda: ([1, 2], 4),
    ),
    "a tensor": (refused_text("%x : Tensor", "%p : Tensor", "Tensor", "-> (%p)"), lambda: (3,)),
    "no results": (refused_text("%x : Tensor", "%p : Tensor", "", "-> ()"), lambda: (3,)),
    "an optional": (refused_text("%x : int?", "%p : int?", "int?", "-> (%p)"), lambda: (None,)),
    "a wider output": (refused_text("%x : int", "%p : int", "int?", "-> (%p)"), lambda: (5,)),
    "lists in a list": (
        refused_text(
            "%x : int[][], %n : int",
            "%p : int[][], %q : int",
            "int[]",
            "%z : int[] = aten::__getitem__(%p, %q)\n      -> (%z)",
        ),
        lambda: ([[1], [2]], 1),
    ),
    "a constant list": (
        refused_text("%n : int", "%q : int", "int[]", "%z : int[] = prim::Constant[value=[1, 2]]()\n      -> (%z)"),
        lambda: (1,),
    ),
    "a print": (refused_text("%n : int", "%q : int", "int", " = prim::Print(%q)\n      -> (%q)"), lambda: (2**70,)),
}


@TIERS
@pytest.mark.parametrize("case", NATIVE_TEXTS)
def test_a_text_cannot_make_machine_code_of_what_is_none(tier: str, case: str) -> None:
    text, given = NATIVE_TEXTS[case]
    graph = parse(text)
    verify(graph)
    (plan,) = implementations.implement(graph, plan_of(tier))
    assert plan.implementation is None and plan.status != "not compiled yet, for it has run only a little"
    with options.override(tier=tier, native="off"):
        expected = (runner_for(parse(text.replace('"native"', '"none"')), "f")(*given()), given())
    with options.override(tier=tier, native="now"):
        for _ in range(3):
            arguments = given()
            found = runner_for(graph, "f")(*arguments)
            assert (found, type(found)) == (expected[0], type(expected[0]))


@TIERS
def test_a_text_may_have_regions_that_are_machine_code(tier: str) -> None:
    body = "%a : int = aten::mul(%q, %q)\n      -> (%a)"
    graph = parse(refused_text("%n : int", "%q : int", "int", body))
    (plan,) = implementations.implement(graph, plan_of(tier))
    assert plan.implementation is not None
    with options.override(tier=tier, native="now"):
        assert [runner_for(graph, "f")(n) for n in (3, 2**40)] == [9, 2**80]


# -- constants as inputs, and regions within regions

INPUTS = {
    "a constant": """graph(%n : int):
  %c : int = prim::Constant[value=-5]()
  %s : str = prim::Constant[value="t"]()
  %r : int = prim::Region[kind="KIND"](%c, %n, %s)
    block0(%p : int, %q : int, %t : str):
      %a : int = aten::mul(%p, %q)
      -> (%a)
  return (%r)
""",
    "only constants": """graph(%n : int):
  %c : int = prim::Constant[value=5]()
  %r : int, %k : int = prim::Region[kind="KIND"](%c)
    block0(%p : int):
      %a : int = aten::mul(%p, %p)
      -> (%a, %p)
  %s : int = aten::sub(%r, %k)
  return (%s)
""",
    "a region within it": """graph(%n : int):
  %r : int, %k : int = prim::Region[kind="KIND"](%n)
    block0(%p : int):
      %z : int, %w : int = prim::Region[kind="KIND"](%p)
        block0(%pp : int):
          %a : int = aten::mul(%pp, %pp)
          -> (%a, %pp)
      %zz : int = aten::add(%z, %z)
      -> (%zz, %w)
  %s : int = aten::mul(%r, %k)
  return (%s)
""",
    "a region within it that hands on": """graph(%n : int):
  %r : int, %k : int = prim::Region[kind="KIND"](%n)
    block0(%p : int):
      %o : int = aten::neg(%p)
      %w : int, %q : int = prim::Region[kind="none"](%o)
        block0(%pp : int):
          %b : int = prim::Region[kind="KIND"](%pp)
            block0(%ppp : int):
              %a : int = aten::mul(%ppp, %ppp)
              -> (%a)
          -> (%pp, %b)
      %zz : int = aten::add(%w, %q)
      -> (%zz, %q)
  %s : int = aten::mul(%r, %k)
  return (%s)
""",
}


def cannot_run(region: Region, context: PlanContext) -> Callable[..., Any]:
    return lambda *given: None


def run_as_graph(region: Region, context: PlanContext) -> Callable[..., Any]:
    run = context.run_graph(region.graph(), context.name)

    def called(*given: object) -> Any:
        calls.append(context.tier)
        return run(*given)

    return called


@TIERS
@pytest.mark.parametrize("case", INPUTS)
@pytest.mark.parametrize("kind", ["native", "sums", "graphs"])
def test_inputs_and_nested_regions(monkeypatch: pytest.MonkeyPatch, tier: str, case: str, kind: str) -> None:
    _put_first(monkeypatch, sums=Backend(cannot_run), graphs=Backend(run_as_graph))
    graph = parse(INPUTS[case].replace("KIND", kind))
    verify(graph)
    expected = {"a constant": -15, "only constants": 20, "a region within it": 54}.get(case, (-3 + 9) * 9)
    with options.override(tier=tier, native="now"):
        run = runner_for(graph, "f")
        assert [run(3), run(3)] == [expected, expected]


# -- a back end that runs the graphs of what it forms


@TIERS
@EXECUTORS
@pytest.mark.parametrize("native", ["off", "now"])
@pytest.mark.parametrize("function", [polynomial, ranges])
def test_a_back_end_may_run_the_graphs_of_its_regions(
    monkeypatch: pytest.MonkeyPatch, tier: str, mode: str, native: str, function: Callable[..., Tensor]
) -> None:
    for kind, belongs in (("products", is_product), ("all", is_any)):
        forms = Backend(run_as_graph, lambda g, c, k=kind, b=belongs: form_regions(g, k, lambda: PlainRun(b)))
        monkeypatch.setitem(implementations.TABLE, kind, forms)
    monkeypatch.delitem(implementations.TABLE, "tensors")
    calls.clear()
    with options.override(tier=tier, executor=mode, native=native):
        scripted = jitlite.script(function)
        for n in (0, 3, 11):
            assert torch.equal(scripted(torch.ones(2), n), function(torch.ones(2), n))
    assert calls


# -- texts with loops over ranges that are none


@pytest.mark.parametrize(
    "old, new",
    [
        ("(%length, %true, %2)", "(%n, %true, %2)"),
        ("(%length, %true, %2)", "(%2, %true, %2)"),
        ("aten::__range_length(%2, %n, %3)", "aten::mul(%2, %n)"),
        ("  %r : int = prim::Loop", "  %m : int = aten::neg(%n)\n  %r : int = prim::Loop"),
    ],
)
def test_the_verifier_refuses_loops_over_no_range(old: str, new: str) -> None:
    assert old in OVER_RANGE
    with pytest.raises(VerifyError, match="stands behind the aten::__range_length that is its iteration count"):
        verify(parse(OVER_RANGE.replace(old, new)))
