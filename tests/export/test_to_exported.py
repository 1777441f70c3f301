"""Scripts as exported programs: what they compute is the same, what cannot be exported is told by its line."""

import copy
import io
import sys
from typing import Dict, List, Tuple

import pytest
import torch
from specimens import MODELS, copied
from torch import Tensor, nn
from torch.export import Dim

import jitlite
from jitlite.base.source import NotSupportedError
from jitlite.debug.equality import difference


def nodes(program):
    """The names of what the program calls, those of its branches and bodies too."""
    graphs = [m for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    return {str(n.target) for g in graphs for n in g.graph.nodes if n.op == "call_function"}


def exported(script, example, *others, saved=False, **options):
    """Export a script and hold the program to it, for the example and for other inputs."""
    script = script if isinstance(script, nn.Module) else jitlite.script(script)
    program = jitlite.to_exported(script, copied(example), **options)
    run = program.module()
    if saved:
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        buffer.seek(0)
        run = torch.export.load(buffer).module()
    for inputs in (example, *others):
        assert difference(script(*copied(inputs)), run(*copied(inputs))) is None, inputs
    return program


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("last", torch.zeros(3))
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor, scale: int = 2) -> Dict[str, List[Tensor]]:
        self.calls += 1
        y = self.norm(self.lin(x)) * scale
        self.last = y.sum(0).detach()
        return {"y": [y, self.last], "x": [x]}


def test_module_with_state():
    torch.manual_seed(0)
    script = jitlite.script(Net()).eval()
    twin = copy.deepcopy(script)
    program = jitlite.to_exported(script, (torch.randn(4, 3),))
    assert sorted(program.state_dict) == sorted(script.state_dict())
    inputs = program.graph_signature.inputs_to_parameters.values()
    assert set(inputs) == {name for name, _ in script.named_parameters()} | {"unused"}
    run = program.module()
    for _ in range(2):
        x = torch.randn(4, 3)
        with torch.no_grad():
            assert difference(twin(x), run(x)) is None
        assert difference(dict(twin.named_buffers()), dict(run.named_buffers())) is None
    functional = program.run_decompositions({})
    assert {"calls", "last"} <= set(functional.graph_signature.buffers_to_mutate.values())


def test_archive_becomes_pt2(tmp_path):
    script = jitlite.script(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))).eval()
    script.save(tmp_path / "old.pt")
    program = jitlite.load(tmp_path / "old.pt").to_exported((torch.randn(2, 3),))
    torch.export.save(program, tmp_path / "new.pt2")
    x = torch.randn(2, 3)
    assert difference(script(x), torch.export.load(tmp_path / "new.pt2").module()(x)) is None


def choose(x: Tensor, y: Tensor) -> Tuple[Tensor, int, float]:
    if x.sum() > 0 and y.sum() > 0:
        z, n, f = x * 2, 3, 0.5
    else:
        z, n, f = x - y, 4, 1.5
    return z + n, n, f


def test_branches_on_tensors_become_cond():
    up, down = torch.ones(3), -torch.ones(3)
    program = exported(choose, (up, up), (up, down), (down, up), saved=True)
    assert "cond" in nodes(program)


def repeat(x: Tensor, limit: int) -> Tuple[Tensor, int, bool]:
    n, big = 0, False
    while x.sum() < 100 and n < limit:
        x = x * 1.5
        n += 1
        big = bool(x.max() > 20)
    return x, n, big


def test_loops_on_tensors_become_while_loop():
    program = exported(repeat, (torch.ones(3), 50), (torch.full((3,), 200.0), 50), (torch.full((3,), 7.0), 50))
    assert "while_loop" in nodes(program)


def test_what_is_known_is_decided():
    def f(x: Tensor, n: int, words: List[str]) -> Tensor:
        found: List[Tensor] = []
        for i in range(n):
            if i % 2 == 0 and words[0] == "a":
                found.append(x * i)
        counts = {"a": 1}
        counts["b"] = len(found)
        return torch.cat(found) + counts["b"]

    program = exported(f, (torch.ones(2), 100, ["a"]))
    assert not {"cond", "while_loop"} & nodes(program)


def test_sizes_may_vary():
    def f(x: Tensor) -> Tuple[Tensor, int]:
        n = x.size(0)
        return x.view(n // 2, -1) * n, max(n, 3)

    exported(f, (torch.ones(4),), (torch.ones(8),), dynamic_shapes=({0: 2 * Dim("half", min=2)},))


def test_numbers_out_of_tensors():
    def f(x: Tensor, n: Tensor) -> Tuple[Tensor, float, int]:
        count = int(n)
        assert count > 0, "positive"
        total = x.new_zeros(3)
        for i in range(count):
            total = total + i
        return total, float(n) * 2, count + 1

    program = exported(f, (torch.ones(3), torch.tensor(4)), (torch.ones(3), torch.tensor(2)))
    with pytest.raises(RuntimeError):
        program.module()(torch.ones(3), torch.tensor(-1))


def test_assertions_on_tensors():
    def f(x: Tensor) -> Tensor:
        assert bool((x > 0).all()), "positive"
        if x.sum() > 100:
            raise ValueError("large")
        return x + 1

    program = exported(f, (torch.ones(2),))
    for bad in (-torch.ones(2), torch.full((2,), 99.0)):
        with pytest.raises(RuntimeError):
            program.module()(bad)


def test_nodes_tell_the_lines_of_the_script():
    program = jitlite.to_exported(jitlite.script(choose), (torch.ones(3), torch.ones(3)))
    assert "z, n, f = x * 2, 3, 0.5" in str(program)


# -- refusals


def refusal(function, *example):
    with pytest.raises(NotSupportedError) as told:
        jitlite.to_exported(function if isinstance(function, nn.Module) else jitlite.script(function), example)
    return str(told.value)


def test_one_tensor_for_two_inputs():
    def f(x: Tensor, y: Tensor) -> Tensor:
        return x * 2 + y if x.sum() > 0 else y

    x = torch.ones(2)
    exported(f, (x, x), (x, -x), (-x, x))


def test_branches_of_different_dtypes():
    def f(x: Tensor) -> Tensor:
        if x.sum() > 0:
            y = x.to(torch.int64)
        else:
            y = x * 2
        return y

    text = refusal(f, torch.ones(3))
    assert "prim::If" in text and "test_to_exported.py" in text


def test_branches_of_different_types():
    def f(x: Tensor, n: int) -> Tensor:
        y = [x]
        if x.sum() > 0:
            y = [x, x]
        return torch.cat(y)

    assert "list" in refusal(f, torch.ones(3), 1)


def test_returns_out_of_loops_on_tensors():
    def f(x: Tensor) -> Tensor:
        while True:
            x = x * 2
            if x.max() > 50:
                break
            if x.min() < -50:
                return x - 1
        return x

    assert "the branches of an if on a value of a tensor give" in refusal(f, torch.ones(3))


def test_writes_to_what_a_branch_gives():
    def f(x: Tensor) -> Tensor:
        y = x if x.sum() > 0 else x * 2
        y += 1
        return x + y

    assert "written in place" in refusal(f, torch.ones(3))


def test_try():
    def f(x: Tensor, n: int) -> Tensor:
        try:
            return x[n]
        except IndexError:
            return x

    assert "a `try` has no place" in refusal(f, torch.ones(3), 1)


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.cache: Dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        self.n += 1
        return x + self.n

    @torch.jit.export
    def cached(self, x: Tensor) -> Tensor:
        if x.size(0) not in self.cache:
            self.cache[x.size(0)] = torch.ones(x.size(0))
        return x + self.cache[x.size(0)]


def test_state_that_is_no_buffer():
    script = jitlite.script(Stateful())
    assert "'n' is assigned" in refusal(script, torch.ones(2))
    with pytest.raises(NotSupportedError, match="'cache' of the module is changed"):
        script.to_exported((torch.ones(2),), method="cached")
    assert script.cache == {}
    script.cached(torch.ones(2))
    run = script.to_exported((torch.ones(2),), method="cached").module()
    assert run(torch.ones(2)).tolist() == [2, 2]


def test_errors_of_the_script_are_its_own():
    def f(x: Tensor, n: int) -> Tensor:
        if n > 3:
            raise ValueError("too much")
        return x + n

    with pytest.raises(ValueError, match="too much"):
        jitlite.to_exported(jitlite.script(f), (torch.ones(2), 4))


def test_kwargs():
    def f(x: Tensor, y: Tensor, n: int = 2) -> Tensor:
        return x + y * n

    program = jitlite.to_exported(jitlite.script(f), (torch.ones(2),), {"y": torch.ones(2)})
    assert program.module()(torch.ones(2), y=torch.full((2,), 3.0)).tolist() == [7, 7]


def test_a_tensor_is_no_tuple_of_inputs():
    script = jitlite.script(nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"args is a tuple .*to_exported\(\(x,\)\)"):
        script.to_exported(torch.ones(1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.stem for p in MODELS.glob("*.py") if p.stem != "training"))
def test_example_models(name):
    sys.path.insert(0, str(MODELS))
    example = __import__(name)
    torch.manual_seed(0)
    model, batch = example.build().eval(), example.batches(1)[0]
    whole = tuple(batch if name == "transformer" else (batch,) if name == "language_model" else batch[:1])
    script = jitlite.script(model)
    with torch.no_grad():
        wanted = script(*copied(whole))  # which fills caches
        program = jitlite.to_exported(script, copied(whole))
        assert difference(wanted, program.module()(*copied(whole))) is None
