"""The stack machine: what instructions do, calls, errors and their tracebacks, context managers."""

import contextlib
import enum
import sys
import warnings

import pytest
import torch

import jitlite
from jitlite.base.source import CompileError, Source, SourceRange
from jitlite.interpreter import instruction_docs
from jitlite.interpreter.bytecode import code_of, lower
from jitlite.interpreter.check import check_code
from jitlite.interpreter.vm import StepLimit, run
from jitlite.ir import types as T
from jitlite.ir.graph import Graph
from jitlite.ir.parser import parse
from jitlite.ir.schema import Argument, function_schema
from jitlite.ir.unit import Function, SymbolTable, insert_call
from jitlite.ir.values import CLASS_TYPE, type_of_value, value_has_type
from jitlite.ir.verify import verify


def run_graph(graph, *args, **kwargs):
    graph = parse(graph) if isinstance(graph, str) else graph
    code = lower(graph)
    check_code(code)
    return run(code, args, **kwargs)


FACTORIAL = """graph(%n : int):
  %one : int = prim::Constant[value=1]()
  %t : bool = prim::Constant[value=1]()
  %f : int = prim::Loop(%n, %t, %one)
    block0(%i : int, %a : int):
      %k : int = aten::add(%i, %one)
      %b : int = aten::mul(%a, %k)
      -> (%t, %b)
  return (%f)
"""


def test_loop_computes_with_unbounded_ints():
    assert run_graph(FACTORIAL, 5) == 120
    assert run_graph(FACTORIAL, 0) == 1
    assert run_graph(FACTORIAL, 25) == 15511210043330985984000000


def test_loop_stops_when_its_condition_fails():
    text = """graph(%n : int, %stop : int):
  %t : bool = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %s : int = prim::Loop(%n, %t, %zero)
    block0(%i : int, %a : int):
      %c : bool = aten::lt(%i, %stop)
      -> (%c, %i)
  return (%s)
"""
    assert run_graph(text, 10, 3) == 3
    assert run_graph(text, 2, 9) == 1


@pytest.mark.parametrize(("n", "expected"), [(1, "big"), (0, "small")])
def test_if(n, expected):
    text = """graph(%n : int):
  %zero : int = prim::Constant[value=0]()
  %b : str = prim::Constant[value="big"]()
  %s : str = prim::Constant[value="small"]()
  %c : bool = aten::gt(%n, %zero)
  %r : str = prim::If(%c)
    block0():
      -> (%b)
    block1():
      -> (%s)
  return (%r)
"""
    assert run_graph(text, n) == expected


def test_containers():
    text = """graph(%a : int, %b : int):
  %one : int = prim::Constant[value=1]()
  %l : int[] = prim::ListConstruct(%a, %b, %one)
  %x : int, %y : int, %z : int = prim::ListUnpack(%l)
  %d : Dict(int, int) = prim::DictConstruct(%a, %y, %b, %z, %a, %one)
  %v : int = aten::__getitem__(%d, %a)
  %t : (int, int, int) = prim::TupleConstruct(%x, %y, %v)
  %s : (int, int) = prim::TupleSlice[beg=1, end=3](%t)
  %p : int, %q : int = prim::TupleUnpack(%s)
  %i : int = prim::TupleIndex(%t, %one)
  %r : (int[], Dict(int, int), (int, int), int, int, int) = prim::TupleConstruct(%l, %d, %s, %p, %q, %i)
  return (%r)
"""
    assert run_graph(text, 3, 4) == ([3, 4, 1], {3: 1, 4: 1}, (4, 1), 4, 1, 4)


@pytest.mark.parametrize("values", [[1], [1, 2, 3]])
def test_unpacking_another_length_is_pythons_error(values):
    text = "graph(%l : int[]):\n  %a : int, %b : int = prim::ListUnpack(%l)\n  return (%b)\n"
    with pytest.raises(ValueError, match="values to unpack \\(expected 2"):
        run_graph(text, values)


def test_missing_key_and_index_raise_as_in_python():
    text = """graph(%d : Dict(str, int), %k : str):
  %v : int = aten::__getitem__(%d, %k)
  return (%v)
"""
    with pytest.raises(KeyError, match="'b'"):
        run_graph(text, {"a": 1}, "b")


def test_several_outputs_of_an_operator():
    text = """graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %f : bool = prim::Constant[value=0]()
  %v : Tensor, %i : Tensor = aten::max(%x, %zero, %f)
  %r : (Tensor, Tensor) = prim::TupleConstruct(%i, %v)
  return (%r)
"""
    index, value = run_graph(text, torch.tensor([3.0, 7.0]))
    assert (index.item(), value.item()) == (1, 7.0)


def test_list_arguments_are_the_callers():
    text = "graph(%l : int[], %x : int):\n  %m : int[] = aten::append(%l, %x)\n  return (%l)\n"
    values = [1]
    assert run_graph(text, values, 2) is values
    assert values == [1, 2]


def test_named_tuples_are_made_of_the_type_of_the_output():
    graph = Graph()
    t = T.TupleType.of([T.INT, T.INT], ["x", "y"], "__torch__.Point")
    value = graph.add_input(T.INT, "a")
    graph.add_output(graph.insert("prim::TupleConstruct", [value, value], [t]).output)
    made = run_graph(graph, 2)
    assert type(made).__name__ == "Point"
    assert (made.x, made.y) == (2, 2)
    assert type(run_graph(graph, 3)) is type(made)


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "type", "expected"),
    [
        (1, T.INT, True),
        (True, T.INT, False),
        (1, T.FLOAT, False),
        (True, T.BOOL, True),
        (torch.float32, T.INT, True),
        (None, T.OptionalType.of(T.INT), True),
        ([1, 2], T.ListType.of(T.INT), True),
        ([1, 2.0], T.ListType.of(T.INT), False),
        ([1, 2.0], T.ListType.of(T.UnionType.of([T.INT, T.FLOAT])), True),
        ([], T.ListType.of(T.STRING), True),
        ({"a": 1}, T.DictType.of(T.STRING, T.INT), True),
        ({"a": 1}, T.DictType.of(T.INT, T.INT), False),
        ((1, "a"), T.TupleType.of([T.INT, T.STRING]), True),
        ((1, "a"), T.TupleType.of([T.INT]), False),
        ((1,), T.ANY_TUPLE, True),
        ([1], T.ANY_TUPLE, False),
        (torch.ones(1), T.TENSOR, True),
        (torch.ones(1), T.TensorType.of(torch.float64), False),
        (Color.RED, T.ANY_ENUM, True),
        (Color.RED, T.EnumType.of("Color", Color, T.INT), True),
        ("a", T.UnionType.of([T.INT, T.STRING]), True),
        (1.5, T.NUMBER, True),
    ],
)
def test_isinstance(value, type, expected):
    graph = Graph()
    checked = graph.insert("prim::isinstance", [graph.add_input(T.ANY)], [T.BOOL], {"types": [type]})
    graph.add_output(checked.output)
    assert run_graph(graph, value) is expected
    assert value_has_type(value, type) is expected


def test_an_int_typed_float_counts_as_float():
    graph = Graph()
    value = graph.add_input(T.OptionalType.of(T.FLOAT))
    graph.add_output(graph.insert("prim::isinstance", [value], [T.BOOL], {"types": [T.FLOAT]}).output)
    assert run_graph(graph, 2) is True
    assert run_graph(graph, None) is False


def test_both_number_types_in_a_union_stay_apart():
    graph = Graph()
    value = graph.add_input(T.UnionType.of([T.FLOAT, T.INT]))
    graph.add_output(graph.insert("prim::isinstance", [value], [T.BOOL], {"types": [T.FLOAT]}).output)
    assert run_graph(graph, 2) is False


def test_type_of_value():
    assert type_of_value([1, 2]) is T.ListType.of(T.INT)
    assert type_of_value([]) is T.ListType.of(T.TENSOR)
    assert type_of_value([1, None]) is T.ListType.of(T.OptionalType.of(T.INT))
    assert type_of_value({"a": (1, 2.0)}) is T.DictType.of(T.STRING, T.TupleType.of([T.INT, T.FLOAT]))
    assert type_of_value(len) is T.PY_OBJECT


# -- calls


def int_function(name, build, **kwargs):
    schema = function_schema(name, [Argument("n", T.INT)], [T.INT])

    def define(function):
        graph = Graph()
        graph.add_output(build(graph, graph.add_input(T.INT, "n"), function))
        function.graph = graph

    return Function(name, schema=schema, define=define, **kwargs)


def countdown(graph, n, function):
    """def f(n): return 0 if n == 0 else f(n - 1) + 1"""
    zero, one = graph.insert_constant(0), graph.insert_constant(1)
    branch = graph.insert("prim::If", [graph.insert("aten::eq", [n, zero], [T.BOOL]).output], [T.INT])
    branch.add_block().add_output(zero)
    block = branch.add_block()
    with graph.inserting_at_end(block):
        less = graph.insert("aten::sub", [n, one], [T.INT]).output
        called = insert_call(graph, function, [less])
        block.add_output(graph.insert("aten::add", [called, one], [T.INT]).output)
    return branch.output


def test_recursion_does_not_use_pythons_stack():
    function = int_function("f", countdown)
    depth = sys.getrecursionlimit() - 100
    assert run(function, [depth]) == depth


def test_endless_recursion_is_a_recursion_error_with_a_short_traceback():
    function = int_function("f", countdown)
    with pytest.raises(RecursionError) as caught:
        run(function, [-1])
    (note,) = caught.value.__notes__
    assert "more calls" in note
    assert len(note.splitlines()) < 30


def test_a_function_is_lowered_once():
    function = int_function("f", countdown)
    assert not function.is_compiled
    assert code_of(function) is code_of(function)
    function.graph = function.graph.copy()
    assert function.compiled is None


def test_the_body_of_a_function_is_not_there_while_it_is_compiled():
    function = Function("f", define=lambda f: f.schema)
    with pytest.raises(CompileError, match="result type is still being inferred") as caught:
        _ = function.schema
    assert "annotate" in str(caught.value)


def test_code_for_decides_what_a_call_runs():
    inner = int_function("inner", lambda graph, n, f: n)
    outer = int_function("outer", lambda graph, n, f: insert_call(graph, inner, [n]))
    other = lower(parse("graph(%n : int):\n  %m : int = aten::neg(%n)\n  return (%m)\n"))
    assert run(outer, [3]) == 3
    assert run(outer, [3], lambda function: other if function is inner else code_of(function)) == -3


def test_compilation_unit():
    unit = SymbolTable()
    function = unit.add(Function("f", qualified_name="__torch__.f"))
    assert unit.find("__torch__.f") is unit.find("f") is function
    assert unit.unique_name("__torch__.f") == "__torch__.___torch_mangle_0.f"
    with pytest.raises(ValueError, match="already"):
        unit.add(Function("f", qualified_name="__torch__.f"))


def test_python_functions():
    graph = Graph()
    value = graph.add_input(T.INT, "n")
    call = graph.insert("prim::PythonOp", [value, value], [T.INT], {"name": "f", "callable": lambda a, b: a * b})
    graph.add_output(call.output)
    assert run_graph(graph, 4) == 16


def fork_graph(kind="prim::fork"):
    body = parse(
        """graph(%n : int, %k : int):
  %r : int = aten::floordiv(%n, %k)
  return (%r)
"""
    )
    graph = Graph()
    inputs = [graph.add_input(T.INT, "n"), graph.add_input(T.INT, "k")]
    return graph, graph.insert(kind, inputs, [T.FutureType.of(T.INT)], {"Subgraph": body}).output


def test_fork_and_wait():
    graph, future = fork_graph()
    graph.add_output(graph.insert("aten::wait", [future], [T.INT]).output)
    assert run_graph(graph, 7, 2) == 3
    with pytest.raises(ZeroDivisionError):
        run_graph(graph, 7, 0)


def test_a_failed_fork_raises_only_when_it_is_waited_for():
    graph, future = fork_graph()
    graph.add_output(future)
    failed = run_graph(graph, 7, 0)
    with pytest.raises(ZeroDivisionError):
        failed.wait()


def test_awaitables_are_lazy():
    graph, awaited = fork_graph("prim::awaitable")
    graph.add_output(awaited)
    lazy = run_graph(graph, 7, 0)
    with pytest.raises(ZeroDivisionError):
        lazy.wait()


# -- errors

SOURCE = Source("def f(x):\n    y = x\n    return g(y) + 1\n\ndef g(n):\n    return 1 // n\n", "model.py", 10)


def at(text):
    start = SOURCE.text.index(text)
    return SourceRange(SOURCE, start, start + len(text))


def dividing(graph, n, function):
    return graph.insert("aten::floordiv", [graph.insert_constant(1), n], [T.INT], None, at("1 // n")).output


def test_an_error_keeps_its_type_and_gets_the_script_traceback():
    g = int_function("g", dividing)
    f = int_function("f", lambda graph, n, f: insert_call(graph, g, [n], at("g(y)")))
    with pytest.raises(ZeroDivisionError) as caught:
        run(f, [0])
    expected = """\
The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
  File "model.py", line 12, in f
def f(x):
    y = x
    return g(y) + 1
           ~~~~ <--- HERE

def g(n):
    return 1 // n
  File "model.py", line 15, in g
    return g(y) + 1

def g(n):
    return 1 // n
           ~~~~~~ <--- HERE
"""
    (note,) = caught.value.__notes__
    assert note.rstrip() == expected.rstrip()


def test_inlined_calls_are_shown_like_calls():
    g = int_function("g", dividing)
    graph = Graph()
    n = graph.add_input(T.INT, "n")

    def visit(node):
        node.call_stack = (("g", at("g(y)")), *node.call_stack)

    graph.add_output(graph.inline_call(g.graph, [n], visit)[0])
    with pytest.raises(ZeroDivisionError) as caught:
        run(lower(graph, "f"), [0])
    (note,) = caught.value.__notes__
    assert "line 12, in f\n" in note
    assert note.index("line 12, in f\n") < note.index("line 15, in g\n")


def test_the_traceback_is_attached_once():
    g = int_function("g", dividing)
    graph = Graph()
    call = graph.insert("prim::PythonOp", [graph.add_input(T.INT)], [T.INT], {"callable": lambda n: run(g, [n])})
    graph.add_output(call.output)
    with pytest.raises(ZeroDivisionError) as caught:
        run_graph(graph, 0)
    assert len(caught.value.__notes__) == 1


def test_a_raised_exception_is_the_very_object():
    error = LookupError("mine")

    def fail():
        raise error

    graph = Graph()
    graph.add_output(graph.insert("prim::PythonOp", [], [T.INT], {"callable": fail}).output)
    with pytest.raises(LookupError) as caught:
        run_graph(graph)
    assert caught.value is error


@pytest.mark.parametrize(
    ("message", "name", "cls"),
    [("bad", "builtins.ValueError", ValueError), ("AssertionError: no", None, AssertionError)],
)
def test_raise(message, name, cls):
    graph = Graph()
    graph.insert("prim::RaiseException", [graph.insert_constant(message), graph.insert_constant(name)])
    graph.add_output(graph.insert_constant(None))
    with pytest.raises(cls, match="bad|no"):
        run_graph(graph)


def test_step_limit_names_the_line():
    function = int_function("f", lambda graph, n, f: insert_call(graph, f, [n], at("g(y)")))
    with pytest.raises(StepLimit, match=r"model.py:12:11: 'f' was stopped after 50 steps"):
        run(function, [0], step_limit=50)
    assert run(lower(parse(FACTORIAL)), [3], step_limit=100) == 6


def test_watch_sees_every_instruction():
    seen = []
    code = lower(parse(FACTORIAL))
    run(code, [1], watch=lambda frame: seen.append(frame.code.instructions[frame.pc].opcode))
    assert seen[0] == "STORE"
    assert seen[-1] == "RET"
    assert seen.count("LOOP") == 2


def test_wrong_number_of_arguments():
    with pytest.raises(TypeError, match="takes 1 argument"):
        run(lower(parse(FACTORIAL)), [])


def test_nodes_that_cannot_run_are_refused():
    graph = Graph()
    graph.add_output(graph.insert("prim::Load", [], [T.TENSOR], {"name": "x"}).output)
    with pytest.raises(CompileError):
        lower(graph)


def test_warnings_are_given_for_the_line():
    graph = Graph()
    inputs = [graph.insert_constant("careful"), graph.insert_constant(2)]
    graph.insert("aten::warn", inputs, [], {"warn_id": 3}, at("y = x"))
    graph.add_output(graph.insert_constant(None))
    code = lower(graph)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        run(code, [])
        run(code, [])
    assert [(str(w.message), w.filename, w.lineno) for w in caught] == [("careful", "model.py", 11)]


# -- context managers


class Recorder:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self.name

    def __exit__(self, *exc):
        self.log.append(f"exit {self.name} {exc[0].__name__} {exc[1]} {type(exc[2]).__name__}")
        raise OSError(self.name)


def with_graph(body):
    graph = Graph()
    managers = [graph.add_input(T.PY_OBJECT, name) for name in "ab"]
    entered = [graph.insert("prim::Enter", [m], [T.ANY]).output for m in managers]
    call = graph.insert("prim::PythonOp", entered, [T.ANY], {"callable": body})
    for manager in reversed(managers):
        graph.insert("prim::Exit", [manager])
    graph.add_output(call.output)
    return graph


def test_contexts_are_left_newest_first_when_an_error_passes():
    log = []

    def fail(*names):
        log.append(names)
        raise KeyboardInterrupt("stop")

    with pytest.raises(OSError, match="a") as caught:
        run_graph(with_graph(fail), Recorder("a", log), Recorder("b", log))
    assert log[:3] == ["enter a", "enter b", ("a", "b")]
    assert log[3:] == ["exit b KeyboardInterrupt stop traceback", "exit a OSError b traceback"]
    assert isinstance(caught.value.__context__, KeyboardInterrupt | OSError)


def test_no_grad_is_real_and_undone():
    graph = with_graph(lambda *entered: torch.is_grad_enabled())
    assert run_graph(graph, torch.no_grad(), contextlib.nullcontext()) is False
    assert torch.is_grad_enabled()

    def fail(*entered):
        raise ValueError

    with pytest.raises(ValueError):
        run_graph(with_graph(fail), torch.no_grad(), contextlib.nullcontext())
    assert torch.is_grad_enabled()


def test_a_manager_that_cannot_be_entered_is_not_left():
    class Broken(Recorder):
        def __enter__(self):
            raise ValueError

    log = []
    with pytest.raises(ValueError):
        run_graph(with_graph(lambda *e: None), contextlib.nullcontext(), Broken("b", log))
    assert log == []


def test_objects():
    class Counter:
        def __init__(self, start):
            self.value = start

        def add(self, n):
            self.value += n
            return self

    graph = Graph()
    n = graph.add_input(T.INT, "n")
    cls = T.ClassType.of("__torch__.Counter", Counter)
    compiled = T.ClassType.new("__torch__.Counter", Counter)
    compiled.methods.update({name: Function(name) for name in ("__init__", "add")})
    setattr(Counter, CLASS_TYPE, compiled)  # the machine calls methods that scripts know the object to have
    made = graph.insert("prim::CreateObject", [], [cls]).output
    graph.insert("prim::CallMethod", [made, n], [T.NONE], {"name": "__init__"})
    graph.insert("prim::CallMethod", [made, n], [cls], {"name": "add"})
    value = graph.insert("prim::GetAttr", [made], [T.INT], {"name": "value"}).output
    graph.insert("prim::SetAttr", [made, n], [], {"name": "value"})
    again = graph.insert("prim::GetAttr", [made], [T.INT], {"name": "value"}).output
    graph.add_output(value)
    graph.add_output(again)
    assert run_graph(graph, 4) == (8, 4)


def test_every_instruction_is_documented(request):
    text = (request.config.rootpath / "docs" / "instructions.md").read_text()
    assert text == instruction_docs.reference()


def test_a_context_that_one_of_two_branches_has_entered_is_left():
    def f(c: bool, n: int) -> int:
        with torch.no_grad():
            n += 3
        return n

    graph = jitlite.script(f).executor.optimized_graph.copy()
    entered = [node for node in graph.nodes if node.kind in ("prim::CreateObject", "prim::CallMethod", "prim::Enter")]
    (left,) = (node for node in graph.nodes if node.kind == "prim::Exit")
    manager = entered[0].output
    with graph.inserting_before(entered[0]):
        branch = graph.insert("prim::If", (graph.inputs[0],), (manager.type,))
    for block in (branch.add_block(), branch.add_block()):
        values = {}
        for node in entered:
            block.append(graph.clone_node(node, values))
        block.add_output(values[manager])
    left.replace_input(0, branch.output)
    branch.move_before(left)
    for node in reversed(entered):
        node.destroy()
    verify(graph)
    code = lower(graph)
    assert [run(code, (c, 1)) for c in (True, False)] == [4, 4]
    assert torch.is_grad_enabled()
