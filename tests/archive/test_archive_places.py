"""Errors of a loaded archive show the lines of the original program."""

import io

import pytest
import torch
from failing_lines import EXPECTED, Calls, numbers_of, shown_lines
from torch import Tensor, nn

import jitlite


@pytest.fixture(scope="module")
def archive() -> bytes:
    return jitlite.script(Calls()).save_to_buffer()


@pytest.mark.parametrize("method", EXPECTED)
def test_calls_stand_where_the_original_program_has_them(archive, method):
    loaded = jitlite.load(io.BytesIO(archive))
    with pytest.raises((RuntimeError, IndexError, KeyError)) as caught:
        getattr(loaded, method)(torch.ones(2))
    assert shown_lines("\n".join(caught.value.__notes__)) == numbers_of(EXPECTED[method])


def test_inlined_calls_stand_there_too(archive):
    loaded = jitlite.load(io.BytesIO(archive))
    graph = loaded.own_method.inlined_graph
    (view,) = [node for node in graph.nodes if node.kind == "aten::view"]
    places = [*(called_at for _, called_at in view.call_stack), view.range]
    assert [place.line for place in places] == numbers_of(["own_method", "helper"])


class BeyondAscii(nn.Module):
    def forward(self, wört: Tensor) -> Tensor:
        größe = wört.size(0) + wört.dim()
        return wört.view(größe)


def test_positions_in_text_beyond_ascii_stay(archive):
    """They are counted in bytes in an archive, and in characters here."""
    first = jitlite.script(BeyondAscii())
    second = jitlite.load(io.BytesIO(first.save_to_buffer()))
    third = jitlite.load(io.BytesIO(second.save_to_buffer()))
    for module in (first, second, third):
        with pytest.raises(RuntimeError) as caught:
            module(torch.ones(2))
        (view,) = [node for node in module.graph.nodes if node.kind == "aten::view"]
        at = view.range.program_range
        assert at.source.text[at.start : at.end] == "wört.view(größe"
        assert "wört.view(größe)" in "\n".join(caught.value.__notes__)
