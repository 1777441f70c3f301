"""Copies and pickles of what is compiled: functions, modules with their own way to be copied, units of texts."""

from __future__ import annotations

import copy
import importlib
import linecache
import pickle
import sys
import types
from pathlib import Path
from typing import List

import pytest
import torch
from torch import Tensor, nn

import jitlite

STEP = 3


@jitlite.script
def decorated(x: int):
    return x + STEP


def plain(x: int):
    return x * STEP


def test_a_decorated_function_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.copy(decorated) is decorated
    assert copy.deepcopy([decorated])[0] is decorated


def test_a_function_under_another_name_is_compiled_again():
    found = pickle.loads(pickle.dumps(jitlite.script(plain)))
    assert found(2) == 6 and isinstance(found, jitlite.ScriptFunction)


def test_a_function_without_a_name_to_find_it_by():
    @jitlite.script
    def local(x: int):
        return x

    with pytest.raises(pickle.PicklingError, match="ScriptFunction cannot be pickled"):
        pickle.dumps(local)


def test_the_method_of_a_copy_is_that_of_the_copied_module():
    scripted = jitlite.script(torch.nn.Linear(1, 1))
    method = copy.deepcopy(scripted.forward)
    with torch.no_grad():
        scripted.weight.fill_(5.0)
    assert method.owner is not scripted and not torch.equal(method.owner.weight, scripted.weight)


class Counts(torch.nn.Module):
    def __init__(self, log: List[int]):
        super().__init__()
        self.log = log
        self.inner = torch.nn.Linear(1, 1)

    def forward(self):
        self.log.append(len(self.log))
        return self.log

    def __deepcopy__(self, memo):
        made = Counts([*self.log, 100])
        made.inner = copy.deepcopy(self.inner, memo)
        return made

    def __copy__(self):
        return self


def test_a_class_may_have_its_own_way_to_be_copied():
    eager, scripted = Counts([1]), jitlite.script(Counts([1]))
    copied = copy.deepcopy(scripted)
    assert isinstance(copied, jitlite.ScriptModule)
    assert copied() == copy.deepcopy(eager)() == [1, 100, 2]
    assert copied.inner is not scripted.inner
    assert copy.copy(scripted) is scripted


class Typed(jitlite.ScriptModule):
    def __init__(self):
        super().__init__()
        self.rate = jitlite.Attribute(1, float)
        self.seen = jitlite.Attribute([], List[int])
        self.doubled = 2 * self.rate

    @jitlite.script_method
    def forward(self, x: int):
        self.seen.append(x)
        return self.seen, self.rate


def test_an_attribute_is_its_value_in_init_and_keeps_its_type():
    made = Typed()
    assert made.doubled == 2
    assert made(3) == ([3], 1.0)
    assert str(made.forward.schema).endswith("-> ((int[], float))")
    assert pickle.loads(pickle.dumps(made))(4) == ([3, 4], 1.0)
    assert copy.deepcopy(made)(5) == ([3, 5], 1.0)


class Stateful(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.ones(2)

    @jitlite.export
    def __getstate__(self):
        return self.weights, self.training

    @jitlite.export
    def __setstate__(self, state):
        self.weights = state[0] + 1
        self.training = state[1]

    def forward(self):
        return self.weights


def test_the_state_that_is_set_is_of_the_type_of_the_one_that_is_got():
    scripted = jitlite.script(Stateful())
    assert "(Tensor, bool) state" in str(scripted.__setstate__.schema)


def test_copies_of_units_are_units_of_their_own():
    unit = jitlite.CompilationUnit("def f(x: int):\n  return x + STEP\n")
    unit.define("def g(x: int):\n  return f(x) * 2\n")
    for copied in (copy.copy(unit), copy.deepcopy(unit), pickle.loads(pickle.dumps(unit))):
        assert copied.g(1) == 8
        copied.define("def f(x: int):\n  return 0\n")
        assert copied.f(1) == 0 and unit.f(1) == 4


def test_a_unit_whose_names_a_callback_tells_is_not_pickled():
    unit = jitlite.CompilationUnit()
    unit.define("def f(x: int):\n  return x + K\n", rcb={"K": 1}.get)
    assert copy.deepcopy(unit).f(1) == 2
    with pytest.raises(pickle.PicklingError, match="callback"):
        pickle.dumps(unit)


def test_each_tensor_of_a_state_once():
    shared = torch.nn.Linear(2, 2)
    shared.register_parameter("again", shared.weight)
    assert list(jitlite._unique_state_dict(shared)) == ["weight", "bias"]
    assert jitlite._unique_state_dict(shared, keep_vars=True)["bias"] is shared.bias


def test_the_wish_for_onednn_is_kept():
    before = jitlite.onednn_fusion_enabled()
    try:
        for wanted in (True, False):
            jitlite.enable_onednn_fusion(wanted)
            assert jitlite.onednn_fusion_enabled() is wanted
    finally:
        jitlite.enable_onednn_fusion(before)


# -- picklers that write functions themselves

_LOCAL = """
import torch
from torch import Tensor, nn
from torch import nn


def make(k):
    class Pair:
        def __init__(self, a: int):
            self.a = a

        def twice(self) -> int:
            return self.a * 2

    def helper(x: int) -> int:
        return x * k + Pair(x).twice()

    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        for i in range(helper(n)):
            x = x + i
        return x

    class Inner(nn.Module):
        def forward(self, x):
            return f(x, 2)

    class Outer(nn.Module):
        def __init__(self):
            nn.Module.__init__(self)
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x) * 2

    return f, Outer()
"""


@pytest.mark.parametrize("kind", ["function", "module"])
def test_what_is_local_to_a_function_carries_its_source(kind, tmp_path, monkeypatch):
    by_value: dict = {"__name__": "cloudpickle"}
    exec((Path(__file__).parents[1] / "support" / "by_value_pickler.py").read_text(), by_value)
    fake = types.ModuleType("cloudpickle")
    vars(fake).update(by_value)
    monkeypatch.setitem(sys.modules, "cloudpickle", fake)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(torch.nn.Module, "added", lambda self: None, raising=False)  # as torch.compile does
    (tmp_path / "by_value_example.py").write_text(_LOCAL)
    example = importlib.import_module("by_value_example")
    function, module = example.make(3)
    scripted = jitlite.script(function if kind == "function" else module)
    arguments = (torch.zeros(1), 2) if kind == "function" else (torch.zeros(1),)
    expected = scripted(*arguments)
    content = by_value["dumps"](scripted)
    (tmp_path / "by_value_example.py").unlink()
    del sys.modules["by_value_example"]
    linecache.clearcache()
    loaded = pickle.loads(content)
    assert torch.equal(loaded(*arguments), expected)
    assert loaded.code == scripted.code


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


def test_the_forward_that_an_object_has_found_is_its_own():
    made, x = jitlite.script(Scaled()), torch.ones(1)
    assert made(x) == 2.0 and vars(made)["forward"] is made.forward
    for copied in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        copied.scale = nn.Parameter(torch.tensor(3.0))
        assert copied(x) == 3.0 and copied.forward is not made.forward
    outer = jitlite.script(nn.Sequential(Scaled()))
    outer[0](x)
    setattr(outer, "0", made)  # which then runs what the program of `outer` has compiled
    assert made(x) == 2.0 and outer(x) == 2.0
    made.define("def forward(self, x: Tensor) -> Tensor:\n    return x - self.scale")
    assert made(x) == -1.0
