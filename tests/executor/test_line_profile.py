"""Profiles by line: counts are exact, and time, memory and operators are put down to the line that they are of."""

import json
import sys
from collections import Counter

import pytest
import torch

import jitlite
from jitlite import cli, options
from jitlite.executor import line_counts
from jitlite.executor.line_profile import LineProfile
from jitlite.interpreter.line_profiler import LineCost


def inner(x: torch.Tensor, k: int):
    y = x * k
    return y + 1


def program(x: torch.Tensor, n: int):
    total = x
    for i in range(n):
        if i == 2:
            total = total - 1
            continue
        total = inner(total, i)
    return total.view(-1), [total.sum(), total]


def by_text(found: LineProfile) -> dict[str, LineCost]:
    """The lines that are no machine code, by their text."""
    return {cost.text.strip(): cost for cost in found.lines if not cost.key.is_region}


def profile(*args, **switches):
    with options.override(native="off", **switches):
        return jitlite.script(program).profile(*args)


def test_each_line_is_counted():
    found = profile(torch.ones(3), 5)
    assert {text: cost.count for text, cost in by_text(found).items()} == {
        "total = x": 1,
        "for i in range(n):": 6,  # the last one finds that there is no more
        "if i == 2:": 5,
        "total = total - 1": 1,
        "continue": 1,
        "total = inner(total, i)": 4,
        "y = x * k": 4,
        "return y + 1": 4,
        "return total.view(-1), [total.sum(), total]": 1,
    }
    assert "as it is written" in found.what_ran


def traced_by_python(f, *args):
    """How often `sys.settrace` tells of each line."""
    counts = Counter()

    def look(frame, event, arg):
        counts[frame.f_lineno] += event == "line" and frame.f_code.co_filename == __file__
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        f(*args)
    finally:
        sys.settrace(before)
    return {line: count for line, count in counts.items() if count}


def of_all_kinds(x: torch.Tensor, n: int):
    with torch.no_grad():
        total = inner(x, 2)
    while n > 0:
        n -= 1
        if n == 4:
            continue
        elif n == 1:
            break
        for j in range(n):
            if j > 3:
                return total
            total = inner(
                total * 2,
                j + 1,
            )
    try:
        if n == 0:
            raise ValueError("none")
    except ValueError:
        total = total + 1
    assert n >= 0
    pass
    return total


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="versions of Python differ in where lines begin")
@pytest.mark.parametrize("native", ["off", "now"])
@pytest.mark.parametrize("n", [0, 1, 3, 5, 8])
def test_counts_are_those_of_python(n, native):
    with options.override(native=native):
        found = jitlite.script(of_all_kinds).profile(torch.ones(2), n)
    counts = {cost.key.line: cost.count for cost in found.lines if not cost.key.is_region and cost.count}
    assert counts == traced_by_python(of_all_kinds, torch.ones(2), n)


def test_calls_that_would_be_noticed_are_not_made_again_to_count(capsys):
    def prints(x: torch.Tensor):
        print("once")
        return x + 1

    def writes(x: torch.Tensor):
        return x.add_(1)

    def draws(x: torch.Tensor):
        return x + torch.rand(2)

    for f, told in ((prints, "prim::Print"), (writes, "aten::add_"), (draws, "aten::rand")):
        x = torch.zeros(2)
        torch.manual_seed(1)
        found = jitlite.script(f).profile(x)
        after = torch.rand(1)
        torch.manual_seed(1)
        f(torch.zeros(2))
        assert after == torch.rand(1)
        assert f"Counts are those of the optimized graph: the call was not made again to count, as {told}" in str(found)
        assert f is not writes or x.tolist() == [1, 1]
    assert capsys.readouterr().out == "once\nonce\n"


def test_long_calls_are_not_made_again_to_count(monkeypatch):
    monkeypatch.setattr(line_counts, "_MOST_STEPS", 1000)
    assert "as it is a long one" in profile(torch.ones(3), 500).what_ran
    assert "as it is written" in profile(torch.ones(3), 5).what_ran


def test_the_result_is_that_of_a_call():
    result = profile(torch.ones(3), 5).result
    expected = program(torch.ones(3), 5)
    assert torch.equal(result[0], expected[0]) and torch.equal(result[1][0], expected[1][0])


def test_operators_are_those_of_the_line():
    found = by_text(profile(torch.ones(3), 5))
    assert found["y = x * k"].operators == {"aten::mul": 4}
    assert found["return y + 1"].operators == {"aten::add": 4}
    assert found["if i == 2:"].operators == {"aten::eq": 5}


def test_memory_is_what_operators_make_and_not_what_they_view():
    found = by_text(profile(torch.ones(1000), 5))
    assert found["y = x * k"].allocated == 4 * 4000
    assert found["total = total - 1"].allocated == 4000
    assert found["return total.view(-1), [total.sum(), total]"].allocated == 4  # the sum


def test_a_call_has_the_time_of_what_it_calls():
    found = by_text(profile(torch.ones(200_000), 5))
    called = found["y = x * k"].seconds + found["return y + 1"].seconds
    caller = found["total = inner(total, i)"]
    assert caller.seconds >= called > caller.own_seconds
    assert sum(cost.own_seconds for cost in found.values()) <= profile(torch.ones(200_000), 5).seconds * 100


def fact(n: int) -> int:
    if n <= 1:
        return 1
    return n * fact(n - 1)


def test_recursion_does_not_count_time_twice():
    found = jitlite.script(fact).profile(6)
    lines = by_text(found)
    assert found.result == 720
    assert lines["if n <= 1:"].count == 6
    assert all(cost.seconds <= found.seconds * 1.001 for cost in found.lines)


def test_methods_that_python_calls_are_runs_of_their_own():
    class Named:
        def __init__(self, n: int):
            self.n = n

        def __lt__(self, other: "Named") -> bool:
            return self.n < other.n

    def ordered(n: int):
        items = [Named(n), Named(1), Named(3)]
        items.sort()
        return items[0].n

    found = jitlite.script(ordered).profile(5)
    assert found.result == 1
    assert all(cost.seconds <= found.seconds * 1.001 for cost in found.lines)


def test_an_exception_is_the_calls():
    def fails(x: torch.Tensor):
        return x.view(7)

    with pytest.raises(RuntimeError, match="shape"):
        jitlite.script(fails).profile(torch.ones(2))


def test_machine_code_is_one_entry_for_its_lines():
    pytest.importorskip("llvmlite")

    def summed(n: int):
        total = 0
        for i in range(n):
            total = total + i % 7
            if total > 1000000:
                total = 0
        return total

    with options.override(native="now"):
        function = jitlite.script(summed)
        function(1000)
        found = function.profile(1000)
    (region,) = [cost for cost in found.lines if cost.key.is_region]
    assert found.result == summed(1000)
    assert region.count == 1 and not region.bailouts
    assert region.key.last_line - region.key.line == 2
    assert "machine code" in found.what_ran and "(machine code for these lines)" in str(found)
    counts = {cost.text.strip(): cost.count for cost in found.lines if not cost.key.is_region}
    assert counts["total = total + i % 7"] == 1000  # how often a line began, though its time is that of the region
    assert not any(cost.seconds for cost in found.lines if "%" in cost.text and not cost.key.is_region)
    assert "machine code" in {event["cat"] for event in found.chrome_trace()["traceEvents"]}


def test_compiling_is_told_by_step_and_pass():
    steps = profile(torch.ones(3), 5).compiling
    found = {(step.stage, step.name) for step in steps}
    assert {("front end", "emitted"), ("front end", "ssa"), ("cleanup", "dce"), ("optimization", "cse"),
            ("tiers", "generated Python"), ("tiers", "bytecode")} <= found  # fmt: skip
    assert all(step.seconds >= 0 and step.runs > 0 for step in steps)


def test_what_has_no_source_is_measured_too():
    traced = jitlite.trace(lambda x: x * 2 + 1, (torch.ones(2),))
    found = traced.profile(torch.ones(2))
    assert {step.stage for step in found.compiling} == {"optimization", "tiers"}
    assert sum(sum(cost.operators.values()) for cost in found.lines) == 2


def test_torch_sees_ranges_with_the_names_of_the_script():
    function = jitlite.script(program)
    with options.override(native="off"), torch.profiler.profile() as seen:
        function.profile(torch.ones(3), 3)
    line = inner.__code__.co_firstlineno + 1
    assert f"{__file__}:{line} inner" in {event.key for event in seen.key_averages()}


def test_methods_and_archives(tmp_path):
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            return x * 2

    module = jitlite.script(Net())
    assert by_text(module.forward.profile(torch.ones(2)))["return x * 2"].operators == {"aten::mul": 1}
    jitlite.save(module, tmp_path / "net.pt")
    loaded = jitlite.load(tmp_path / "net.pt").forward.profile(torch.ones(2))
    (line,) = [cost for cost in loaded.lines if cost.operators]
    assert line.filename.endswith(".py") and line.operators == {"aten::mul": 1}


@pytest.mark.parametrize("tier", ["python", "stack"])
def test_the_table_has_the_source_and_the_costs(tier):
    text = str(profile(torch.ones(3), 5, tier=tier))
    assert "def program(x: torch.Tensor, n: int):" in text
    assert "aten::mul 4" in text and "Compiling" in text


def test_the_command_prints_the_table_and_writes_a_trace(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(
        "def f(n: int):\n    total = 0\n    for i in range(n):\n        total += i\n    return total\n"
    )
    assert cli.main(["profile", "model.py:f", "10", "--trace", "out.json"]) == 0
    assert "total += i" in capsys.readouterr().out
    trace = json.loads((tmp_path / "out.json").read_text())
    assert {"line", "front end"} <= {event["cat"] for event in trace["traceEvents"]}
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in trace["traceEvents"])
    sys.modules.pop("model", None)
    assert cli.main(["profile", "model.py:f", "10", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lines"]
    assert cli.main(["profile", "model.py:f", "10", "--trace", "none/out.json"]) == 2
