"""Programs: what each has for itself."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, Callable, List

import pytest

import jitlite
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
