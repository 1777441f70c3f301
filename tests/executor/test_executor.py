"""Plans: which one a call takes, when a new one is made, and that all of them give the same."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from typing import List, Optional, Tuple

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

import jitlite
from jitlite import cli
from jitlite.analysis import probe_result_types
from jitlite.base import options
from jitlite.compat import executor_switches as switches
from jitlite.executor import executor as executor_module
from jitlite.executor import last_run
from jitlite.executor.executor import Executor
from jitlite.executor.explain import explain
from jitlite.executor.last_run import last_executed_optimized_graph
from jitlite.executor.plans import Counter, get_num_profiled_runs, optimized_execution, set_fusion_strategy
from jitlite.interpreter import vm
from jitlite.interpreter.bytecode import lower
from jitlite.interpreter.guards import dispatcher, spec_of, spec_reader
from jitlite.ir import types as T
from jitlite.ir.parser import parse
from jitlite.ir.unit import called_functions
from jitlite.ir.verify import verify

OPTIONAL = T.OptionalType.of(T.TENSOR)


def executor_for(function) -> Executor:
    scripted = jitlite.script(function)
    return Executor(scripted.graph, scripted.name)


@pytest.fixture(autouse=True)
def nobody_asks_for_the_last_graph(monkeypatch):
    """Once somebody has, calls go by way of what notes it."""
    monkeypatch.setattr(last_run, "_following", False)


@pytest.fixture(autouse=True)
def plans_are_made_at_once():
    """In threads, too."""
    before = options.current().background
    options.set_globally(background=False)
    yield
    options.set_globally(background=before)


@pytest.fixture
def hot():
    """A function counts as hot in its second call; the third one is profiled."""
    with options.override(executor="profiling", specialize_after=2, profiled_runs=1):
        yield


def by_rank(x: Tensor, scale: Optional[Tensor] = None):
    """Asks for the rank in a loop: to know it is worth a guard."""
    total = 0
    for i in range(5):
        if x.dim() == 2:
            total += i
        elif x.dim() == 3:
            total += i * i
        if scale is not None and i > 2:
            x = x * scale
    return x + total


# -- keys


def test_a_key_has_what_a_plan_may_depend_on():
    read = spec_reader([T.TENSOR])
    x = torch.ones(2, 3)
    assert read(x) == read(torch.zeros(5, 7)), "sizes and values do not matter"
    others = [x[0], x.double(), x.to("meta"), torch.ones(2, 3, requires_grad=True)]
    keys = [read(other) for other in (x, *others)]
    with torch.no_grad():
        keys.append(read(x))
    assert len(set(keys)) == len(keys)
    assert len({hash(key) for key in keys}) > 1


def test_a_key_looks_into_tuples_and_at_what_is_none():
    inner = T.TupleType.of([T.TENSOR, T.INT])
    read = spec_reader([T.TupleType.of([inner, OPTIONAL]), T.INT, T.OptionalType.of(T.INT)])
    x = torch.ones(2)
    base = read(((x, 1), None), 1, None)
    assert read(((x, 2), None), 7, None) == base, "numbers do not matter"
    assert base not in (read(((x[None], 1), None), 1, None), read(((x, 1), x), 1, None), read(((x, 1), None), 1, 3))
    spec = spec_of([T.TupleType.of([inner, OPTIONAL]), T.INT, T.OptionalType.of(T.INT)], read(((x, 1), x), 1, 3))
    assert str(spec.types[0]) == (
        "((Float(*, requires_grad=0, device=cpu), int), Float(*, requires_grad=0, device=cpu))"
    )
    assert spec.types[1:] == (T.INT, T.INT) and spec.grad_mode


@pytest.mark.filterwarnings("ignore:.*nested tensors")
def test_of_tensors_that_are_more_than_tensors_nothing_is_asked():
    class Loud(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise AssertionError(f"{func} was called")

    loud = torch.ones(2).as_subclass(Loud)
    read = spec_reader([T.TENSOR])
    assert spec_of([T.TENSOR], read(loud)).types == (T.TENSOR,)
    refined = [T.TensorType.of(torch.float32, (2,), None, torch.device("cpu"), False)]
    run = dispatcher([T.TENSOR], refined, lambda x: "fast", lambda x: "other", lambda: None)
    assert (run(loud), run(torch.ones(2)), run(None)) == ("other", "fast", "other")
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    assert run(nested) == "other" and read(nested)
    assert run(torch.ones(2).to_sparse()) == "other"


# -- a plan for each kind of arguments


def test_legacy_calls_of_one_kind_share_a_plan():
    with options.override(executor="legacy"):
        run = executor_for(by_rank)
        for x in (torch.ones(2, 3), torch.ones(4, 5), torch.ones(3), torch.ones(6)):
            assert torch.equal(run.run([x, None]), by_rank(x))
        counts = run.state().counters
        assert (counts["misses"], counts["hits"], counts["specializations"]) == (2, 2, 2)
        graph = run.graph_for([torch.ones(1, 1), None])
        assert "prim::If" not in str(graph) and str(graph.inputs[0].type).startswith("Float(")
        assert {str(spec) for spec in run.state().execution_plans} == {
            "(Float(*, *, requires_grad=0, device=cpu), NoneType)",
            "(Float(*, requires_grad=0, device=cpu), NoneType)",
        }


def test_legacy_refines_tensors_in_tuples():
    def f(pair: Tuple[Tensor, int]):
        x, n = pair
        return x * n if x.dim() == 1 else x

    with options.override(executor="legacy"):
        run = executor_for(f)
        assert run.run([(torch.ones(2), 3)]).tolist() == [3, 3]
        assert "prim::If" not in str(run.graph_for([(torch.ones(2), 3)]))


def test_plans_are_forgotten_those_first_that_do_not_run():
    with options.override(executor="legacy", cached_plans=3):
        run = executor_for(by_rank)
        favourite = torch.ones(2, 2)
        for rank in range(4, 12):
            run.run([favourite, None])
            run.run([torch.ones([1] * rank), None])
            assert len(run.state().execution_plans) <= 3
        before = run.state().counters["misses"]
        run.run([favourite, None])
        assert run.state().counters["misses"] == before, "what runs all the time stays"
        assert run.state().counters["evictions"] == 6


# -- profiling and specializing


def test_a_hot_function_is_specialized_and_others_fall_back(hot):
    run = executor_for(by_rank)
    x = torch.ones(2, 3)
    decisions = []
    for _ in range(5):
        assert torch.equal(run.run([x, None]), by_rank(x))
        decisions.append(run.decision)
    assert decisions[1] == "being profiled"
    assert decisions[2] == decisions[4] and decisions[4].startswith("specialized for x.1 : Tensor(*, *)")
    counts = run.state().counters
    assert (counts["profiled"], counts["specializations"], counts["hits"]) == (1, 1, 2)
    for other in (torch.ones(3), torch.ones(2, 3).double(), torch.ones(2, 3, requires_grad=True)):
        assert torch.equal(run.run([other, None]), by_rank(other))
    assert torch.equal(run.run([x, x]), by_rank(x, x))
    assert run.counters.guard_failures.value == 2, "of another rank, and with a scale; dtype and grad do not matter"


def test_the_guard_asks_no_more_than_the_gain_needs(hot):
    def f(x: Tensor, y: Tensor, flag: Optional[int]):
        if flag is None:
            return x + y
        return x * flag + y

    run = executor_for(f)
    for _ in range(4):
        run.run([torch.ones(1), torch.ones(1), None])
    assert "TypeCheck" not in str(run.graph_for([torch.ones(1), torch.ones(1), None]))
    assert run.run([torch.ones(1), torch.ones(1), 4]).tolist() == [5]


def test_a_function_without_gain_runs_its_general_plan_without_any_check(hot):
    def no_question(x: Tensor):
        return x * 2 + 1

    def question_of_no_use(x: Tensor):
        return (x * 2).dim()

    for function in (no_question, question_of_no_use):
        run = executor_for(function)
        for _ in range(4):
            run.run([torch.ones(2)])
        assert run.decision.startswith("general plan")
        assert run._committed is run.general.run


def test_the_entry_of_a_settled_function_is_the_plan_itself():
    def f(x: Tensor):
        return x * 2 + 1

    before = options.set_globally(specialize_after=2)
    try:
        run = executor_for(f)
        for _ in range(4):
            run.run([torch.ones(2)])
        assert run.entry is run.general.run
        with optimized_execution(False):
            run.run([torch.ones(2)])
            assert run.entry != run.general.run
        run.run([torch.ones(2)])
        assert run.entry is run.general.run
    finally:
        options.set_globally(specialize_after=before.specialize_after)


def test_what_may_be_written_is_not_taken_to_be_known(hot):
    def f(x: Tensor):
        before = x.dim()
        x.unsqueeze_(0)
        return before, x.dim(), x.size(0)

    run = executor_for(f)
    for _ in range(5):
        assert run.run([torch.ones(2, 3)]) == (2, 3, 1)


def first_size(x: Tensor):
    total = 0
    for i in range(4):
        if x.size(0) == 2:
            total += i
        elif x.size(0) == 3:
            total -= i
    return x * total


@pytest.fixture
def strategy():
    before = set_fusion_strategy([("STATIC", 2), ("DYNAMIC", 10)])
    yield set_fusion_strategy
    set_fusion_strategy(before)


def test_respecializing_is_bounded_by_the_strategy(hot, strategy):
    assert strategy([("STATIC", 2)]) == [("STATIC", 2), ("DYNAMIC", 10)]
    run = executor_for(first_size)
    for size in range(2, 8):
        for _ in range(6):
            x = torch.ones(size)
            assert torch.equal(run.run([x]), first_size(x))
    state = run.state()
    assert state.counters["specializations"] == 2 == len(state.execution_plans)
    assert state.counters["fallbacks"] > 0
    last = run._rest._rest
    assert "as often as the fusion strategy allows" in last.decision and last._rest is None
    assert last.general is run.general, "the general plan is shared"


def test_dynamic_plans_do_not_depend_on_sizes(hot, strategy):
    strategy([("DYNAMIC", 1)])
    run = executor_for(first_size)
    for _ in range(4):
        run.run([torch.ones(2)])
    assert run.state().counters["specializations"] == 0
    strategy([])
    run = executor_for(first_size)
    for _ in range(4):
        run.run([torch.ones(2)])
    assert "fusion strategy" in run.decision


def test_a_strategy_is_checked():
    for wrong in ([("static", 2)], [("STATIC", -1)], ["STATIC"], [("STATIC", 1.5)]):
        with pytest.raises(ValueError, match="expected"):
            set_fusion_strategy(wrong)


def test_profiles_merge_to_symbolic_shapes():
    def f(x: Tensor, y: Tensor):
        z = torch.mm(x, y)
        return z.relu() if z.size(0) == 4 else z

    with options.override(executor="profiling", specialize_after=1, profiled_runs=3):
        assert get_num_profiled_runs() == 3
        run = executor_for(f)
        for n in (2, 2, 4, 5):
            run.run([torch.ones(n, 3), torch.ones(3, n)])
    seen = {name: str(t) for name, t in run.profile.items()}
    assert seen["x.1"] == "Float(SS(-1), 3, requires_grad=0, device=cpu)"
    assert seen["y.1"] == "Float(3, SS(-1), requires_grad=0, device=cpu)", "equal in every run: one symbol"


def test_a_call_that_raises_counts_as_profiled(hot):
    def f(x: Tensor, n: int):
        if x.dim() == 1:
            return x * (10 // n)
        return x

    run = executor_for(f)
    for _ in range(6):
        with pytest.raises(ZeroDivisionError) as caught:
            run.run([torch.ones(1), 0])
        assert "10 // n" in "".join(caught.value.__notes__)
    assert run.state().counters["profiled"] == 1


def test_the_guarded_graph_can_be_read_and_run(hot):
    run = executor_for(by_rank)
    x, y = torch.ones(2, 3), torch.ones(4)
    for _ in range(4):
        run.run([x, None])
    graph = run.graph_for([x, None])
    verify(graph)
    text = graph.to_text(ranges=False)
    assert "prim::TypeCheck" in text and "fallback_function" in text
    functions = {f.name: f for f in called_functions(graph)}
    assert parse(text, functions=functions).to_text(ranges=False) == text
    code = lower(graph)
    for arguments in ([x, None], [y, None], [x, x]):
        assert torch.equal(vm.run(code, arguments, executor_module.code_for), by_rank(*arguments))


def test_a_plan_that_few_calls_are_for_is_given_up():
    before = options.set_globally(specialize_after=2)
    try:
        run = executor_for(first_size)
        for size in range(300):
            run.run([torch.ones(size)])
        state = run.state()
        assert state.counters["specializations"] == 2 and not state.execution_plans
        assert "given up" in state.decision
        assert run.entry is run.general.run, "no guard is left"
        assert run.graph_for([torch.ones(2)]) is run.optimized_graph and run.specialized is None
        settled = executor_for(by_rank)
        for size in range(300):
            settled.run([torch.ones(2, 2), None])
            settled.run([torch.ones(size), None])
        assert settled.specialized is not None, "a plan that half of the calls are for stays"
    finally:
        options.set_globally(specialize_after=before.specialize_after)


# -- modes


def test_without_optimization_the_graph_runs_as_it_is():
    run = executor_for(by_rank)
    x = torch.ones(2, 3)
    with optimized_execution(False):
        assert torch.equal(run.run([x, None]), by_rank(x))
        assert run.graph_for([x, None]) is run.graph and run.state().fallback is None
        with optimized_execution(True):
            assert run.graph_for([x, None]) is run.optimized_graph
    assert torch.equal(run.run([x, None]), by_rank(x))
    assert run.state().fallback is not None


def test_other_threads_go_on_optimized():
    run = executor_for(by_rank)
    with optimized_execution(False):
        run.run([torch.ones(2), None])
        assert run.state().fallback is None
        thread = threading.Thread(target=run.run, args=([torch.ones(2), None],))
        thread.start()
        thread.join()
    assert run.state().fallback is not None


def test_switches_from_the_environment():
    chosen = options.Options.from_environment({"JITLITE_TIER": "stack", "JITLITE_EXECUTOR": "legacy"})
    assert (chosen.tier, chosen.executor) == ("stack", "legacy")
    with pytest.raises(ValueError, match="JITLITE_TIER='fast': expected one of python, stack"):
        options.Options.from_environment({"JITLITE_TIER": "fast"})


@pytest.mark.parametrize("tier", options.TIERS)
@pytest.mark.parametrize("mode", options.EXECUTORS)
def test_every_way_to_run_gives_the_same(tier, mode):
    def f(x: Tensor, xs: List[int], m: Optional[Tensor]):
        total = len(xs)
        for i in range(3):
            xs.append(i)
        if m is not None:
            x = x + m
        return x * total if x.dim() == 1 else x

    x = torch.arange(3.0)
    with options.override(tier=tier, executor=mode, specialize_after=2):
        run = executor_for(f)
        for arguments in ([x, [1], None], [x, [], x], [x[None], [2], None]) * 3:
            expected = f(*arguments[:1], list(arguments[1]), *arguments[2:])
            xs = list(arguments[1])
            assert torch.equal(run.run([arguments[0], xs, arguments[2]]), expected)
            assert xs == [*arguments[1], 0, 1, 2]


def test_a_function_that_calls_itself():
    def factorial(n: int) -> int:
        return 1 if n <= 1 else n * factorial(n - 1)

    globals()["factorial"] = factorial
    for tier in options.TIERS:
        for mode in options.EXECUTORS:
            with options.override(tier=tier, executor=mode):
                assert executor_for(factorial).run([10]) == 3628800


# -- threads and memory


def test_threads_may_specialize_one_function_at_once():
    before = options.set_globally(specialize_after=20)
    try:
        run = executor_for(by_rank)
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for i in range(60):
                    x = torch.full((2, 3) if (number + i) % 4 else (3,), float(i))
                    assert torch.equal(run.run([x, None]), by_rank(x))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        options.set_globally(specialize_after=before.specialize_after)
    assert not failures
    counts = run.state().counters
    assert counts["specializations"] >= 1 and run._specialized is not None
    assert counts["profiled"] >= 1


def test_five_hundred_shapes_make_few_plans(hot):
    run = executor_for(first_size)
    for size in range(500):
        run.run([torch.ones(size)])
    assert len(run.state().execution_plans) <= 12
    with options.override(executor="legacy"):
        run = executor_for(first_size)
        for size in range(500):
            run.run([torch.ones([1] * (size % 5) + [size])])
        assert len(run.state().execution_plans) == 5


def test_executors_and_plans_go_with_their_function(hot):
    def make():
        run = executor_for(by_rank)
        for _ in range(4):
            run.run([torch.ones(2, 3), None])
        rest = [run._rest, run._specialized.graph, run.general.graph]
        return [weakref.ref(found) for found in (run, run.graph, *rest)]

    references = make()
    gc.collect()
    assert [found() for found in references] == [None] * len(references)


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_compiles_leave_nothing_behind(count):
    def compile_and_run(count: int) -> None:
        for _ in range(count):
            run = executor_for(first_size)
            run.run([torch.ones(2)])

    compile_and_run(20)
    gc.collect()
    before, executors = len(gc.get_objects()), len(last_run._all)
    compile_and_run(count)
    gc.collect()
    assert len(last_run._all) <= executors
    assert len(gc.get_objects()) - before < 1000


# -- for those who look


def test_the_last_executed_graph():
    first, second = executor_for(by_rank), executor_for(first_size)
    first.run([torch.ones(2), None])
    second.run([torch.ones(2)])
    assert last_executed_optimized_graph() is second.optimized_graph
    first.run([torch.ones(2), None])
    assert last_executed_optimized_graph() is first.optimized_graph


def test_explain_says_what_was_done_and_what_not():
    def helper(x: Tensor):
        return x.relu()

    def f(x: Tensor, xs: List[int], m: Optional[Tensor]):
        y = helper(x) * 2
        for i in range(len(xs)):
            y += i if m is None else -i
            if m is None and i > 100:
                y += 1
        before = len(xs)
        xs.append(1)
        if m is not None:
            y = y * m
        return y, before, len(xs), torch.rand(2)

    run = executor_for(f)
    xs = [1]
    text = str(explain(run, [torch.ones(2), xs, None]))
    assert xs == [1], "nothing is called"
    for sentence in (
        "inlined, so that there are no calls: helper",
        "a loop stays a loop: how often it runs is known only when it runs",
        "aten::add_ writes a tensor in place",
        "aten::rand is not computed ahead: it draws random numbers",
        "aten::len(%xs.1) is computed",
        "for m.1 : NoneType a call would run",
        "nodes instead of",
    ):
        assert sentence in text
    with options.override(specialize_after=1):
        for _ in range(4):
            run.run([torch.ones(2), [1], None])
        assert "found a specialized plan" in str(explain(run, [torch.ones(2), xs, None]))


def test_explain_gives_each_reason_once_with_its_places():
    def f(x: Tensor, n: int):
        for i in range(n):
            x.add_(1)
        for i in range(n):
            x.add_(2)
        x.add_(3)
        x.add_(4), x.add_(5)
        return x

    left = explain(executor_for(f)).sections["Left as it is"]
    writes = [sentence for sentence in left if sentence.startswith("aten::add_ writes")]
    assert len(writes) == 1 and writes[0].endswith(" and 2 more places)"), left
    assert sum(sentence.startswith("a loop stays a loop") for sentence in left) == 1


def test_torchs_flags_are_the_switch():
    before = options.current().executor
    try:
        options.set_globally(executor="profiling")
        assert switches.set_profiling_mode(False) is True and options.current().executor == "simple"
        assert switches.set_profiling_executor(False) is True and options.current().executor == "legacy"
        switches.set_graph_executor_optimize(False)
        assert options.current().executor == "off" and not switches.get_graph_executor_optimize()
        assert switches.get_graph_executor_optimize(True) is False and options.current().executor == "legacy"
        assert switches.set_profiling_executor(True) is False and options.current().executor == "simple"
        options.set_globally(executor="legacy")
        assert switches.set_profiling_executor(True) is False and options.current().executor == "profiling"
        assert switches.set_num_profiled_runs(3) == 1 and get_num_profiled_runs() == 3
    finally:
        options.set_globally(executor=before, profiled_runs=1)


def test_the_commands(tmp_path, capsys):
    program = tmp_path / "program.py"
    program.write_text("def f(n: int):\n    xs = [n, n * 2, n * 2]\n    return xs[1] + xs[2]\n")
    assert cli.main(["explain", f"{program}:f", "3"]) == 0
    assert "passes took" in capsys.readouterr().out
    assert cli.main(["explain", f"{program}:f", "3", "--json"]) == 0
    assert "Left as it is" in json.loads(capsys.readouterr().out)["explanation"]
    assert cli.main(["explain", f"{program}:f"]) == 0
    assert "with arguments, explain makes one" in capsys.readouterr().out
    assert cli.main(["explain", f"{program}:f", "3", "4"]) == 2
    assert cli.main(["opt", f"{program}:f", "-p", "cse,peephole,dce", "--time"]) == 0
    shown = capsys.readouterr().err
    assert "nodes" in shown and " -> " in shown


def test_a_mode_does_not_see_what_operators_are_tried_on(monkeypatch):
    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, classes, args=(), kwargs=None):
            seen.add(function.__name__)
            return function(*args, **(kwargs or {}))

    def f(x: Tensor) -> bool:
        return torch.cosh(x).dim() == 2

    monkeypatch.setattr(probe_result_types, "_remembered", {})
    seen: set[str] = set()
    x = torch.ones(2, 3)
    with options.override(executor="legacy"), Watch():
        assert jitlite.script(f)(x)
    assert probe_result_types._remembered
    assert seen <= {"cosh", "dim", "__get__"}


def test_a_counter_can_be_read_while_it_counts():
    counter = Counter()
    numbers = [counter.value]
    for _ in range(2):
        counter.bump()
        numbers.append(counter.value)
    assert numbers == [0, 1, 2]
    assert str(counter) == "2"
