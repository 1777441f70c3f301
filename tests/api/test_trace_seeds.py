"""What sets torch's generator inside a traced function is recorded or refused with its line, at both levels."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.random import fork_rng, manual_seed, set_rng_state

import jitlite

LEVELS: list[dict[str, Any]] = [{}, {"level": "dispatcher"}, {"level": "dispatcher", "functional": True}]
level = pytest.mark.parametrize("options", LEVELS, ids=["python", "dispatcher", "functional"])


@pytest.fixture(autouse=True)
def own_random_numbers():
    with fork_rng(devices=[]):
        torch.manual_seed(11)
        torch.rand(3)
        yield


def _by_generator(seed: int) -> None:
    torch.default_generator.manual_seed(seed)


def _by_script(seed: int) -> None:
    _seeded_by_script(seed)


@jitlite.script
def _seeded_by_script(seed: int):
    torch.manual_seed(seed)


def _in_random(seed: int) -> None:
    torch.random.manual_seed(seed)


SEEDS: dict[str, Callable[[int], object]] = {
    "torch.manual_seed": lambda seed: torch.manual_seed(seed), "torch.random.manual_seed": _in_random,
    "imported": manual_seed, "default_generator": _by_generator, "script": _by_script,
}  # fmt: skip


@level
@pytest.mark.parametrize("name", list(SEEDS))
def test_a_seed_is_an_operator(name, options):
    seed = SEEDS[name]

    def f(x):
        before = torch.rand(2)
        seed(3)
        drawn = torch.rand(2)
        seed(4)
        return x + before, x + drawn, x * torch.rand(2)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced = jitlite.trace(f, torch.ones(2), **options)
    for start in (7, 8):
        torch.manual_seed(start)
        expected, after = f(torch.ones(2)), torch.rand(1)
        torch.manual_seed(start)
        torch.testing.assert_close(traced(torch.ones(2)), expected, rtol=0, atol=0)
        assert torch.equal(torch.rand(1), after)


@level
def test_a_seed_that_nothing_draws_after_is_the_callers(options):
    def f(x):
        torch.manual_seed(5)
        return x + 1

    traced = jitlite.trace(f, torch.ones(2), **options)
    torch.manual_seed(9)
    traced(torch.ones(2))
    found = torch.rand(2)
    torch.manual_seed(5)
    assert torch.equal(found, torch.rand(2))


@pytest.mark.parametrize(
    "options", [{}, {"level": "dispatcher", "dynamic_shapes": {"x": [0]}}], ids=["python", "dispatcher"]
)
def test_a_seed_may_be_computed_of_sizes(options):
    def f(x):
        torch.manual_seed(x.shape[0] * 2)
        return x + torch.rand(1)

    traced = jitlite.trace(f, torch.ones(3), check_trace=False, **options)
    assert torch.equal(traced(torch.ones(5)), f(torch.ones(5)))


def test_seeds_are_in_methods_archives_and_text():
    class Noisy(torch.nn.Module):
        def forward(self, x):
            torch.manual_seed(3)
            return x + torch.rand(2)

    net = torch.nn.Sequential(Noisy(), torch.nn.Dropout(0.5))
    traced = jitlite.trace(net, torch.ones(2))
    file = io.BytesIO()
    jitlite.save(traced, file)
    file.seek(0)
    for made in (traced, jitlite.load(file)):
        torch.rand(1)
        assert torch.equal(made(torch.ones(2)), net(torch.ones(2)))
    assert [n.kind for n in traced[0].graph.nodes].count("aten::manual_seed") == 1


def _forked(x):
    with torch.random.fork_rng(devices=[]):
        x = x + torch.rand(2)
    return x * torch.rand(2)


def _forked_and_seeded(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
    return x * torch.rand(2)


def _set_state(x):
    torch.set_rng_state(torch.Generator().manual_seed(4).get_state())
    return x * torch.rand(2)


def _seeded_by_system(x):
    torch.seed()
    return x * torch.rand(2)


def _seeded_by_system_at_the_end(x):
    x = x * 2
    torch.random.seed()
    return x


REFUSED = {
    "fork_rng": (_forked, "with torch.random.fork_rng"),
    "fork_rng, seeded": (_forked_and_seeded, "with torch.random.fork_rng"),
    "set_rng_state": (_set_state, "torch.set_rng_state("),
    "seed": (_seeded_by_system, "torch.seed()"),
    "seed at the end": (_seeded_by_system_at_the_end, "torch.random.seed()"),
}  # fmt: skip


@level
@pytest.mark.parametrize("name", list(REFUSED))
def test_what_no_operator_sets_is_refused_with_its_line(name, options):
    function, line = REFUSED[name]
    with pytest.raises(jitlite.CompileError) as error:
        jitlite.trace(function, torch.ones(2), **options)
    assert error.value.code == "J0801"
    assert line in str(error.value) and "torch.manual_seed(n), which is recorded" in str(error.value)


@level
def test_what_is_called_by_another_name_is_refused_before_the_draw(options):
    def drawn_from_the_system(x):
        torch.default_generator.seed()
        return x * torch.rand(2)  # here

    with pytest.raises(jitlite.CompileError, match="was set before this line") as error:
        jitlite.trace(drawn_from_the_system, torch.ones(2), **options)
    assert "# here" in str(error.value)

    def replayed(x):
        state = torch.default_generator.get_state()
        x = x + torch.rand(2)
        set_rng_state(state)
        return x * torch.rand(2)

    with pytest.warns(jitlite.TracerWarning, match="Random numbers were drawn, or the state"):
        jitlite.trace(replayed, torch.ones(2), check_trace=False, **options)


@level
def test_a_state_that_is_put_back_unused_is_no_matter(options):
    def f(x):
        with torch.random.fork_rng(devices=[]):
            x = x * 2
        return x + torch.rand(2)

    traced = jitlite.trace(f, torch.ones(2), check_trace=False, **options)
    torch.manual_seed(3)
    expected = f(torch.ones(2))
    torch.manual_seed(3)
    assert torch.equal(traced(torch.ones(2)), expected)


@level
@pytest.mark.parametrize("name", ["manual_seed", "manual_seed_all", "seed", "seed_all"])
def test_seeds_of_cuda_alone_are_refused_where_there_is_cuda(name, options, monkeypatch):
    def f(x):
        getattr(torch.cuda, name)(*([3] if "manual" in name else []))  # here
        return x + 1

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    jitlite.trace(f, torch.ones(2), **options)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(jitlite.CompileError, match=f"torch.cuda.{name} seeds generators of CUDA alone") as error:
        jitlite.trace(f, torch.ones(2), **options)
    assert "# here" in str(error.value)


def test_functions_are_torchs_own_after_a_trace():
    names = [(torch, "manual_seed"), (torch.random, "manual_seed"), (torch.random, "fork_rng"), (torch.cuda, "seed")]
    before = [getattr(module, name) for module, name in names]
    jitlite.trace(lambda x: x + torch.rand(2), torch.ones(2), check_trace=False)
    assert [getattr(module, name) for module, name in names] == before


def test_a_back_end_without_seeds_says_so():
    from tests.api.test_trace_backends import MachineBackend

    def f(x):
        torch.manual_seed(3)
        return x + 1

    with pytest.raises(jitlite.CompileError, match="the back end MachineBackend has nothing for torch.manual_seed"):
        jitlite.trace(f, torch.ones(2), level="dispatcher", functional=True, backend=MachineBackend())


# -- generators of the function's own

OWN = torch.Generator()


def _made_and_seeded(x):
    generator = torch.Generator().manual_seed(3)  # here
    return x + torch.rand(2, generator=generator)


def _made(x):
    return x + torch.rand(2, generator=torch.Generator(device="cpu"))  # here


def _seeded_outside(x):
    OWN.manual_seed(3)
    return x + torch.rand(2, generator=OWN)  # here


def _seeded_between(x):
    x = x + torch.rand(2, generator=OWN)
    OWN.manual_seed(3)
    return x * torch.rand(2, generator=OWN)  # here


def _seeded_by_default(x, generator=OWN):
    generator.seed()
    return x * torch.rand(2)  # here


def _given_a_state(x):
    OWN.set_state(torch.default_generator.get_state())
    return x * 2  # here


class Seeding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.own = torch.Generator()

    def forward(self, x):
        self.own.manual_seed(3)
        return x + torch.rand(2, generator=self.own)  # here


def _in_a_closure():
    held = torch.Generator()

    def seeded(x):
        held.manual_seed(3)
        return x * torch.rand(2, generator=held)  # here

    return seeded


def _helper(x):
    OWN.manual_seed(3)
    return x + torch.rand(2, generator=OWN)  # here


def _calls_a_helper(x):
    return _helper(x)


def _calls_in_a_comprehension(x):
    return [_helper(y) for y in [x]][0]


HELD = {"first": [torch.Generator()]}


def _in_a_container(x):
    HELD["first"][0].manual_seed(3)
    return x + torch.rand(2, generator=HELD["first"][0])  # here


class Dice:
    shared = torch.Generator()

    def __init__(self):
        self.own = torch.Generator()

    def throw(self, x):
        self.own.manual_seed(3)
        return x + torch.rand(2, generator=self.own)  # here

    @staticmethod
    def throw_shared(x):
        Dice.shared.manual_seed(3)
        return x + torch.rand(2, generator=Dice.shared)  # here


DICE = Dice()


def _of_an_object(x):
    return DICE.throw(x)


def _of_a_class(x):
    return Dice.throw_shared(x)


SET = {
    "a function that is called": _calls_a_helper, "in a comprehension": _calls_in_a_comprehension,
    "a container": _in_a_container, "an object": _of_an_object, "a class": _of_a_class, "bound": DICE.throw,
    "made and seeded": _made_and_seeded, "made": _made, "a global": _seeded_outside, "between draws": _seeded_between,
    "a default": _seeded_by_default, "a state": _given_a_state, "a closure": _in_a_closure(), "a module": Seeding(),
    "of a submodule": torch.nn.Sequential(Seeding()), "a method": Seeding().forward,
}  # fmt: skip


@level
@pytest.mark.parametrize("name", list(SET))
def test_a_generator_that_the_function_sets_is_refused(name, options):
    OWN.manual_seed(7)
    with pytest.raises(jitlite.CompileError, match="generator of random numbers") as error:
        jitlite.trace(SET[name], torch.ones(2), **options)
    assert error.value.code == "J0801" and "# here" in str(error.value)
    assert torch.Generator is type(OWN)


@level
def test_a_generator_that_is_there_before_is_shared(options):
    kinds = []

    def f(x):
        kinds.append(
            (isinstance(OWN, torch.Generator), torch.Generator in [type(OWN)], {torch.Generator: 1}.get(type(OWN)))
        )
        return x + torch.rand(2, generator=OWN), torch.rand(2, generator=OWN)

    traced = jitlite.trace(f, torch.ones(2), check_trace=False, **options)
    for expected_of, found_of in ((f, traced), (traced, f)):
        OWN.manual_seed(5)
        expected = [expected_of(torch.ones(2)) for _ in range(3)]
        OWN.manual_seed(5)
        torch.testing.assert_close([found_of(torch.ones(2)) for _ in range(3)], expected, rtol=0, atol=0)
    assert set(kinds) == {(True, True, 1)}


def test_another_thread_makes_generators_meanwhile():
    made = []

    def f(x):
        thread = threading.Thread(target=lambda: made.append(torch.Generator()))
        thread.start()
        thread.join()
        return x + 1

    jitlite.trace(f, torch.ones(2), check_trace=False)
    assert isinstance(made[0], torch.Generator)


class AnswersAnything:
    """Has an attribute of any name, as wrappers of libraries do."""

    __slots__ = ()

    def __getattr__(self, name: str) -> object:
        return print


@pytest.mark.parametrize("level", ["python", "dispatcher"])
def test_objects_that_have_any_attribute_are_not_looked_into(level):
    held = AnswersAnything()

    def function(x):
        return x * 2 if held is not None else x

    assert torch.equal(jitlite.trace(function, (torch.ones(2),), level=level)(torch.ones(2)), torch.full((2,), 2.0))
