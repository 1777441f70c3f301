"""What was compiled goes when the program lets go of it."""

from __future__ import annotations

import gc
import weakref

import torch

import jitlite


def gone(make):
    """Are all objects freed that `make` gives weak references to?"""
    references = make()
    for _ in range(3):  # a list type that goes lets go of the class it is a list of
        gc.collect()
    return [type(found).__name__ for reference in references if (found := reference()) is not None]


def test_a_function_is_freed():
    def make():
        def f(xs: list[int], t: torch.Tensor):
            return [x + 1 for x in xs], t * 2

        scripted = jitlite.script(f)
        scripted([1], torch.ones(1))
        return [weakref.ref(f), weakref.ref(scripted.graph)]

    assert gone(make) == []


def test_a_class_with_all_that_was_compiled_for_it_is_freed():
    def make():
        class Counter:
            def __init__(self, n: int):
                self.n = n

            def more(self) -> int:
                self.n += 1
                return self.n

        def f(counters: list[Counter]):
            return [c.more() for c in counters]

        assert jitlite.script(f)([Counter(1), Counter(5)]) == [2, 6]
        return [weakref.ref(Counter), weakref.ref(Counter.__jitlite_type__)]

    assert gone(make) == []


def test_a_module_is_freed():
    def make():
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.Linear(2, 2)

            def forward(self, x):
                return self.inner(x)

        model = Model()
        scripted = jitlite.script(model)
        scripted(torch.ones(1, 2)).sum().backward()
        return [weakref.ref(Model), weakref.ref(model), weakref.ref(scripted), weakref.ref(scripted.inner.weight)]

    assert gone(make) == []
