"""Programs of the corpus and samples of operators give the same results and gradients on every way through archives."""

from __future__ import annotations

import enum
import importlib.util
import io

import pytest
import torch

import jitlite
from oracle.archive_roads import Roads, corpus, opinfo


def check(roads: Roads, least: int) -> None:
    assert roads.failures == []
    assert min(roads.tried.values()) >= least and len(roads.tried) == 3


def test_some_programs_of_the_corpus():
    roads = Roads()
    corpus(roads, slice(0, None, 20))
    check(roads, 14)


@pytest.mark.slow
def test_all_programs_of_the_corpus():
    roads = Roads()
    corpus(roads)
    check(roads, 300)
    assert roads.refused == []


def test_samples_of_some_operators():
    roads = Roads()
    opinfo(roads, 1, slice(7, None, 250))
    check(roads, 1)


@pytest.mark.sweep
@pytest.mark.parametrize("number", range(12))
def test_samples_of_all_operators(number):
    roads = Roads()
    opinfo(roads, 5, slice(number, None, 12))
    check(roads, 300)


def test_what_is_lost_on_the_way_is_seen():
    roads = Roads()
    roads.compare("f: jitlite to jitlite", lambda x: x + 1, lambda: lambda x: x + 2, [lambda f: f(torch.ones(1))])
    roads.compare("g: jitlite to torch", lambda: 1, lambda: 1 / 0, [])
    assert [text.partition(":")[0] for text in roads.failures] == ["f", "g"]


class Shade(enum.Enum):
    DARK = 1
    LIGHT = 2


def shade(s: Shade) -> int:
    return s.value


def test_members_of_the_program_own_enum_are_arguments_of_loaded_ones():
    loaded = jitlite.load(io.BytesIO(jitlite.script(shade).save_to_buffer()))
    other = enum.Enum("Shade", [("DARK", 3)], module=__name__, qualname="Shade")
    assert loaded(Shade.LIGHT) == 2
    with pytest.raises(RuntimeError, match="Expected a value of type"):
        loaded(other.DARK)


# -- a public archive


@pytest.mark.skipif(importlib.util.find_spec("silero_vad") is None, reason="silero-vad is not installed")
def test_a_speech_model_is_read_and_trained_as_by_torch():
    from importlib import resources

    path = str(resources.files("silero_vad").joinpath("data/silero_vad.jit"))
    models = [torch.jit.load(path), jitlite.load(path)]
    wave = torch.sin(torch.arange(512.0) * 0.1)[None]
    results, gradients = [], []
    for model in models:
        model.reset_states()
        result = model(wave, 16000)
        result.sum().backward()
        results.append(result)
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    torch.testing.assert_close(*results)
    assert {n: g is None for n, g in gradients[0].items()} == {n: g is None for n, g in gradients[1].items()}
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient)
