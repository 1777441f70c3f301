"""Programs: what each has for itself."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, Callable, List

import pytest
from strategies import compile_source

import jitlite
from jitlite.compiler.callees import MOST_NESTED
from jitlite.compiler.program import Program
from jitlite.executor.engine import ENGINE, ExecutorEngine, new_program
from jitlite.executor.executor import executor_of
from jitlite.ir.unit import Function


class Counting(ExecutorEngine):
    """Notes the functions that it runs."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, function: Function, arguments: Sequence[object]) -> Any:
        self.ran.append(function.qualified_name)
        return super().run(function, arguments)


def sorting() -> Callable[..., Any]:
    """A function that sorts objects of a class of its own, which is called the same each time."""

    class Item:
        def __init__(self, key: int):
            self.key = key

        def __lt__(self, other: Item) -> bool:
            return self.key < other.key

    def keys(numbers: List[int]) -> List[int]:
        items = [Item(n) for n in numbers]
        items.sort()
        return [item.key for item in items]

    return keys


def test_two_programs_do_not_see_each_other_s_classes():
    engines = Counting(), Counting()
    programs = [Program(engine) for engine in engines]
    functions = [program.function_for(sorting()) for program in programs]
    types = [{v.type for n in f.graph.all_nodes() for v in n.outputs if hasattr(v.type, "methods")} for f in functions]
    (first,), (second,) = types
    assert first.qualified_name == second.qualified_name and first is not second
    assert executor_of(functions[0]).run([[2, 1, 3]]) == [1, 2, 3]
    assert set(engines[0].ran) == {f"{first.qualified_name}.__lt__"} and not engines[1].ran
    assert executor_of(functions[1]).run([[2, 1, 3]]) == [1, 2, 3]
    assert engines[1].ran == engines[0].ran


def test_classes_of_texts_belong_to_their_program():
    text = """
    class Item:
        def __init__(self, n: int):
            self.n = n {}

    def f(n: int) -> int:
        return Item(n).n
    """
    one, other = (jitlite.CompilationUnit(text.format(more)) for more in ("", "+ 1"))
    assert (one.f(1), other.f(1)) == (1, 2)
    assert "torch_mangle" not in f"{one.f.graph}{other.f.graph}"
    with pytest.raises(jitlite.CompileError, match="Item"):
        jitlite.CompilationUnit("def g(n: int) -> int:\n    return Item(n).n\n")


def test_a_class_that_is_looked_at_only_is_not_run():
    function = Program().function_for(sorting())
    with pytest.raises(TypeError, match="nothing runs it"):
        executor_of(function).run([[2, 1]])


def test_a_pickled_program_keeps_its_engine():
    assert pickle.loads(pickle.dumps(new_program())).engine is ENGINE
    assert new_program().fresh().engine is ENGINE


# -- chains of calls
def chain(length: int, first: str) -> str:
    """Functions that each call the one before; the last is `f`."""
    text = f"def f0(x: int) -> int:\n    {first}\n"
    for number in range(1, length):
        text += f"def f{number}(x: int) -> int:\n    return f{number - 1}(x) + 1\n"
    return f"{text}def f(x: int) -> int:\n    return f{length - 1}(x)\n"


def test_long_chains_of_calls_do_not_nest(monkeypatch):
    nested = []
    define = Program._define
    monkeypatch.setattr(
        Program, "_define", lambda self, function: (nested.append(len(self._compiling)), define(self, function))[1]
    )
    assert jitlite.script(compile_source(chain(300, "return x * 2"))["f"])(1) == 301
    assert len(nested) == 301
    assert max(nested) <= MOST_NESTED + 1


def test_an_error_at_the_end_of_a_long_chain_is_told():
    with pytest.raises(jitlite.CompileError, match="undefined value nothing"):
        jitlite.script(compile_source(chain(60, "return nothing(x)"))["f"])


def test_what_is_called_where_nobody_gets_need_not_compile():
    first = "if torch.jit.is_scripting():\n        return x\n    return missing(x)"
    text = "def missing(x: int) -> int:\n    return nothing(x)\n" + chain(60, first)
    compiled = jitlite.script(compile_source(text)["f"])
    assert compiled(1) == 60
    assert not any(name.endswith("missing") for name in compiled._program.unit.functions)


def test_functions_at_the_end_of_a_long_chain_may_call_one_another():
    text = "def even(x: int) -> bool:\n    return True if x == 0 else odd(x - 1)\n"
    text += "def odd(x: int) -> bool:\n    return False if x == 0 else even(x - 1)\n"
    assert jitlite.script(compile_source(text + chain(60, "return int(even(x))"))["f"])(3) == 59
