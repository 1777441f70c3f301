"""Records of archives under torch's names, and example inputs of traced modules."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import jitlite
from jitlite.archive.errors import ArchiveError
from jitlite.archive.records import RecordReader, RecordWriter
from jitlite.loading.traced_inputs import restore_inputs


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    writer = RecordWriter(str(path))
    for name, data in {"a": b"\0\1", "b/c": b"", "text": "é"}.items():
        writer.write_record(name, data, len(data.encode() if isinstance(data, str) else data))
    assert writer.archive_name() == "model" and writer.get_all_written_records() == {"a", "b/c", "text"}
    writer.write_end_of_file()
    writer.write_end_of_file()
    for reader in (RecordReader(str(path)), torch._C.PyTorchFileReader(str(path))):
        assert reader.get_record("a") == b"\0\1" and reader.get_record("b/c") == b"" and reader.has_record("text")
        assert reader.get_record("text").decode() == "é" and reader.get_record_size("a") == 2
        assert "b/c" in reader.get_all_records() and reader.serialization_id()


def test_records_are_refused() -> None:
    buffer = io.BytesIO()
    writer = RecordWriter(buffer)
    writer.write_record("a", b"1234", 2)
    with pytest.raises(ValueError, match="a member 'a' already"):
        writer.write_record("a", b"", 0)
    with pytest.raises(ValueError, match="3 bytes are asked for, the data has 2"):
        writer.write_record("b", b"12", 3)
    writer.write_end_of_file()
    with pytest.raises(RuntimeError, match="complete"):
        writer.write_record("b", b"", 0)
    buffer.seek(0)
    assert RecordReader(buffer).get_record("a") == b"12"
    with pytest.raises(ArchiveError, match="no such member"):
        RecordReader(buffer).get_record("c")


class _Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, d: Any, xs: Any, pair: Any) -> torch.Tensor:
        return x + d["a"] + xs[0] + pair[1][0]


_INPUTS = (torch.ones(2), {"a": torch.ones(2)}, [torch.ones(2)], (torch.ones(2), [torch.ones(2)]))


def _members(module: Any) -> list[str]:
    buffer = io.BytesIO()
    jitlite.save(module, buffer)
    assert torch.equal(jitlite.load(io.BytesIO(buffer.getvalue()))(*_INPUTS), _Model()(*_INPUTS))
    return [n.partition("/")[2] for n in zipfile.ZipFile(buffer).namelist() if "traced_inputs" in n]


def test_a_traced_module_keeps_its_inputs() -> None:
    traced = jitlite.trace(_Model(), _INPUTS)
    kept = traced._c._retrieve_traced_inputs()
    assert list(kept) == ["forward"] and all(a is b for a, b in zip(kept["forward"], _INPUTS, strict=True))
    assert _members(traced) == [f"traced_inputs/{i}" for i in range(5)] + ["traced_inputs.pkl"]


def test_inputs_by_keyword_are_kept_in_the_order_of_the_parameters() -> None:
    names = ("x", "d", "xs", "pair")
    given = dict(reversed(list(zip(names, _INPUTS, strict=True))))
    traced = jitlite.trace(_Model(), example_kwarg_inputs=given)
    kept = traced._c._retrieve_traced_inputs()["forward"]
    assert all(a is b for a, b in zip(kept, _INPUTS, strict=True))


def test_inputs_are_not_kept_where_nobody_wants_it() -> None:
    traced = jitlite.trace(_Model(), _INPUTS, _store_inputs=False)
    assert traced._c._retrieve_traced_inputs() == {} and _members(traced) == []


def _restored(module: Any, **options: Any) -> Any:
    buffer = io.BytesIO()
    jitlite.save(module, buffer)
    buffer.seek(0)
    return jitlite.load(buffer, **options)


def test_sizes_of_inputs_come_back_on_request() -> None:
    traced = jitlite.trace(_Model(), _INPUTS)
    example = traced.forward.graph.inputs[1].example_type
    loaded = _restored(traced, _restore_shapes=True)
    graph = loaded.forward.graph
    assert graph.inputs[1].example_type is example is not None
    assert "%x.1 : Float(2, strides=[1], requires_grad=0, device=cpu)" in graph.to_text(examples=True)
    assert torch.equal(loaded._c._retrieve_traced_inputs()["forward"][1]["a"], _INPUTS[1]["a"])
    assert torch.equal(
        loaded(torch.ones(3), {"a": torch.ones(3)}, [torch.ones(3)], (torch.ones(3), [torch.ones(3)])), _four(3)
    )
    assert _restored(traced).forward.graph.inputs[1].example_type is None
    untold = jitlite.trace(_Model(), _INPUTS, _store_inputs=False)
    assert _restored(untold, _restore_shapes=True).forward.graph.inputs[1].example_type is None


def _four(size: int) -> torch.Tensor:
    return torch.full((size,), 4.0)


@pytest.mark.parametrize("stored", [{"forward": _INPUTS[:2]}, {"backward": _INPUTS}, {"forward": 1}, [1], {}])
def test_inputs_that_fit_no_method_are_refused(stored: Any) -> None:
    loaded = _restored(jitlite.trace(_Model(), _INPUTS))
    if stored == {}:
        restore_inputs(loaded, stored)
        return
    with pytest.raises(ArchiveError, match=r"traced_inputs\.pkl"):
        restore_inputs(loaded, stored)
