"""What may run while an archive is loaded, and what it may take; what packed weights may be made of."""

from __future__ import annotations

import io
import time

import pytest
import torch
from archive_specimens import saved
from test_archive_bounds import SETTER, load, stateful
from test_archive_hostile import archive, name, number, tensor, text

import jitlite
from jitlite import ArchiveError
from jitlite.archive.packed_parameters import PACKING, NotPacked, check_state, is_checked
from jitlite.ir import ops
from jitlite.loading.load_operators import CHEAP, SIMPLE, TENSORS

CRASHING = [
    "torch._embedding_bag_dense_backward(torch.ones([1,1]), torch.tensor([99999999]), torch.tensor([0]), "
    "torch.tensor([0]), torch.tensor([0]), 1, False, 0, None)",
    'torch.segment_reduce(x, "sum", lengths=torch.tensor([1, 1]), unsafe=True)',
    "torch._ctc_loss(x, x, [1], [1])",
    "torch.max_pool2d_with_indices_backward(x, x, [1, 1], [1, 1], [0, 0], [1, 1], False, torch.tensor([99999999]))",
    "torch._remove_batch_dim(x, 1, 100, 5)",
    "torch._thnn_differentiable_gru_cell_backward(x, x, x, x, None, None)",
    "torch.conv1d(torch.ones([1, 1, 1000000]), torch.ones([1, 1, 500000]))",
    "torch.as_strided(x, [2], [1000000000])",
    "torch.div(torch.tensor([1]), -1, rounding_mode=\"trunc\")",
    "torch.mm(torch.ones([9, 9]), torch.ones([9, 9]))", "torch.set_(x)", "torch.gather(x, 0, x)",
    "torch.index_select(x, 0, torch.tensor([5]))", "torch.embedding(x, torch.tensor([5]))", "torch.empty([10])",
    "torch.add(x, x, out=x)", "torch.bincount(torch.tensor([1]))", "torch._foreach_neg([x])", "torch.lstm(x, [x], [x], "
    "True, 1, 0., False, False, False)", "torch.manual_seed(3)", "torch.from_file('x')",
    "ops.quantized.linear_relu_dynamic_fp16(x, x)", "ops.profiler._record_function_enter_new('x', None)",
]  # fmt: skip
"""Expressions with operators that trust what they are given, take for ever, or touch what is outside."""


@pytest.mark.parametrize("body", CRASHING)
def test_operators_that_do_not_run_while_an_archive_is_loaded(body):
    with pytest.raises((ArchiveError, jitlite.CompileError)) as caught:
        load(stateful(f"self.v = {body}"))
    if isinstance(caught.value, ArchiveError):
        assert caught.value.member == "data.pkl"
        assert "'__torch__.M'" in str(caught.value)
        if "none of those" in str(caught.value):
            assert "code/__torch__.py:13" in str(caught.value)
            assert "allow=['" in str(caught.value)
            assert "run_code=False" in str(caught.value)


def test_nearly_all_operators_of_torch_are_refused():
    all_names = {op.partition(".")[0] for op in torch._C._dispatch_get_all_op_names()}
    listed = CHEAP | SIMPLE | TENSORS | set(PACKING)
    assert len(all_names - listed) > 1500
    assert all(ops.lookup(name) for name in listed)


LARGE = {
    "a text": ['s = torch.mul("a", 1000000000)'],
    "a list": ["l = torch.mul([0], 10000000000)"],
    "a list that is written": ["l1 = torch.mul_(l, 10000000000)"],
    "a range": ["l1 = ops.prim.rangelist(10000000000)"],
    "texts that are joined": ['l1 = torch.mul(["aaaaaaaaaaaaaaaa"], 100000)', 'for i in range(1000):',
                              '  self.v = torch.join("bbbbbbbbbbbbbbbbbbbbbbbbb", l1)'],
    "a text that is replaced": ['s1 = torch.mul("a", 100000)', 's2 = torch.replace(s1, "a", s1)'],
    "a format": ['s1 = torch.mul("a", 100000)', 's2 = torch.mul("{0}", 100000)', "s3 = torch.format(s2, s1)"],
    "padding": ['s1 = torch.format("{:>1500000000}", 1)'],
    "padding of percent": ['s1 = torch.percentFormat("%1500000000d", 1)'],
    "much padding": ["for i in range(1000000):", '  l1 = torch.format("{:>1000000}", 1)'],
    "an attribute of a value": ['s1 = torch.format("{0.__class__}", x)'],
    "a repeated tensor": ["self.v = torch.contiguous(torch.expand(x, [1000000000, 2]))"],
    "a concatenation": ["x0 = torch.cat([torch.expand(x, [100000000, 2]), torch.expand(x, [100000000, 2])])"],
    "many parts": ["l1 = torch.unbind(torch.expand(x, [100000000, 2]))"],
    "one sum after the other": ["x0 = torch.expand(x, [100000000, 2])", "for i in range(100):", "  y = torch.sum(x0)"],
    "tensors in a list": ["l1 = [x]", "for i in range(10000):", "  _1 = torch.append(l1, torch.ones([1000000]))"],
    "a text of a tensor": ["s1 = str(torch.expand(x, [100000000, 2]))"],
    "a power": ["n1 = torch.pow(12345678901234567, 1000000000)"],
    "a long sort": ["l1 = torch.mul([1], 900000)", "torch.sort(l1)", "torch.sort(l1)"],
    "a filled tensor": ["x0 = torch.full([100000000], 1.5)"],
    "another dtype": ["x0 = torch.to(torch.expand(x, [10000000, 2]), 7)"],
}  # fmt: skip


@pytest.mark.parametrize("kind", LARGE)
def test_results_that_are_large(kind):
    start = time.process_time()
    with pytest.raises((ArchiveError, jitlite.CompileError)):
        load(stateful(*LARGE[kind]))
    assert time.process_time() - start < 8


def test_all_objects_share_one_allowance():
    """A thousand objects may not take a thousand times what one may."""
    code = SETTER.format(body="    self.v = torch.ones([4000000])")
    one = name("__torch__", "M") + b")\x81" + tensor() + b"b"
    assert len(load(archive({"code/__torch__.py": code.encode(), "data.pkl": b"\x80\x02" + one + b"."})).v) == 4_000_000
    with pytest.raises(ArchiveError, match="larger than the file"):
        load(archive({"code/__torch__.py": code.encode(), "data.pkl": b"\x80\x02(" + one * 50 + b"t."}))


def test_methods_that_are_called_by_name():
    interface = "class I(ModuleInterface):\n  def forward(self) -> NoneType:\n    pass\n"
    code = SETTER.format(body="    _1 = (unchecked_cast(__torch__.I, self)).forward()") + interface
    data = b"\x80\x02" + name("__torch__", "M") + b")\x81" + tensor() + b"b."
    with pytest.raises(ArchiveError, match="by its name"):
        load(archive({"code/__torch__.py": code.encode(), "data.pkl": data}))


def test_threads_and_contexts():
    for body in ("_1 = fork((self).more, x)", "_1 = awaitable((self).more, x)"):
        with pytest.raises((ArchiveError, jitlite.CompileError)):
            load(stateful(body))


def test_an_archive_says_nothing_while_it_is_loaded(capsys, recwarn):
    loaded = load(stateful('print("hello")', 'torch.warn("beware", 2)', "self.v = n"))
    assert loaded.v == 1
    assert capsys.readouterr().out == ""
    assert not [w for w in recwarn if "beware" in str(w.message)]


FINE = ["torch.add(x, 1)", "torch.reshape(x, [2, 1])", "torch.cat([x, x])", "torch.zeros([3])", "torch.to(x, 7)",
        "torch.select(x, 0, 0)", "(torch.len(s), torch.mul(n, 3), torch.lower(s))", "torch.dequantize(torch."
        "quantize_per_tensor(x, 0.1, 0, 12))", "x.tolist()[0]", 'torch.format("{:>5}", n)', "[n, 2]", '{"a": x}',
        "torch.expand(x, [100, 2])", "torch.item(torch.sum(x))", "(torch.size(x), torch.dim(x))"]  # fmt: skip


@pytest.mark.parametrize("body", FINE)
def test_what_setters_do(body):
    body = body.replace("x.tolist()[0]", "annotate(List[float], x.tolist())")
    assert load(stateful(f"self.v = {body}")).v is not None


# -- packed weights

W = torch.quantize_per_tensor(torch.rand(4, 8), 0.1, 0, torch.qint8)
CONV = torch.quantize_per_tensor(torch.rand(8, 4, 3, 3), 0.1, 0, torch.qint8)
Q = torch.ops.quantized


class Packed(torch.nn.Module):
    def __init__(self, packed):
        super().__init__()
        self.packed = packed


RIGHT = {
    "a linear layer": lambda: Q.linear_prepack(W, torch.rand(4)),
    "one of half precision": lambda: Q.linear_prepack_fp16(torch.rand(4, 8), None),
    "a convolution": lambda: Q.conv2d_prepack(CONV, torch.rand(8), [1, 1], [0, 0], [1, 1], 1),
    "a transposed one": lambda: Q.conv_transpose2d_prepack(CONV, torch.rand(4), [1, 1], [0, 0], [0, 0], [1, 1], 1),
    "a cell": lambda: Q.make_quantized_cell_params_fp16(*[Q.linear_prepack_fp16(torch.rand(4, 8), torch.rand(4))] * 2),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_packed_weights_are_read(kind):
    if kind == "a cell":
        state, class_name = RIGHT[kind]().__getstate__()
        assert check_state(class_name.removeprefix("__torch__.torch.classes."), state) >= 0
        return
    loaded = jitlite.load(io.BytesIO(saved(jitlite.script(Packed(RIGHT[kind]())))))
    assert isinstance(loaded.packed, torch.ScriptObject)


def config(**changes: int) -> torch.Tensor:
    found = torch.tensor([2, 1, 1, 0, 0, 1, 1, 0, 0, 1, 0], dtype=torch.int16)
    for at, value in changes.items():
        found[int(at[1:])] = value
    return found


F16, BIAS = torch.rand(4, 8), torch.rand(4)
LINEAR, CONV2D, CELL = "quantized.LinearPackedParamsBase", "quantized.Conv2dPackedParamsBase", "rnn.CellParamsBase"
WRONG = {
    "no tuple": (LINEAR, None), "an empty one": (LINEAR, ()), "no tensor": (LINEAR, (1, None)),
    "a weight of one dimension": (LINEAR, (torch.quantize_per_tensor(torch.rand(4), 0.1, 0, torch.qint8), None)),
    "an empty weight": (LINEAR, (torch.rand(0, 8), None)), "a weight elsewhere": (LINEAR, (F16.to("meta"), None)),
    "a sparse weight": (LINEAR, (F16.to_sparse(), None)), "a weight of ints": (LINEAR, (F16.long(), None)),
    "an expanded weight": (LINEAR, (torch.rand(1, 1).expand(1 << 20, 1 << 20), None)),
    "a short bias": (LINEAR, (W, torch.rand(3))), "a bias elsewhere": (LINEAR, (W, BIAS.to("meta"))),
    "a bias of doubles": (LINEAR, (W, BIAS.double())),
    "no scale": (LINEAR, (torch.quantize_per_tensor(F16, 0.0, 0, torch.qint8), None)),
    "no groups": (CONV2D, ("2", [config(_9=0), CONV], [None])),
    "negative groups": (CONV2D, ("2", [config(_9=-1), CONV], [None])),
    "too many groups": (CONV2D, ("2", [config(_9=3), CONV], [None])),
    "a stride of 0": (CONV2D, ("2", [config(_1=0), CONV], [None])),
    "a negative padding": (CONV2D, ("2", [config(_3=-1), CONV], [None])),
    "another dimension": (CONV2D, ("2", [config(_0=3), CONV], [None])),
    "a short config": (CONV2D, ("2", [config()[:5], CONV], [None])),
    "a config elsewhere": (CONV2D, ("2", [config().to("meta"), CONV], [None])),
    "a version of tomorrow": (CONV2D, ("9", [config(), CONV], [None])),
    "no weights": (CONV2D, ("2", [config()], [None])), "ints of version 3": (CONV2D, (3, [2, 1], [None, CONV])),
    "numbers of version 1": (CONV2D, (CONV, None, [], [], [], torch.tensor([0]), torch.tensor([0]))),
    "a cell of nothing": (CELL, ("quantized_dynamic", [], [], [0], [])),
    "a cell of another kind": (CELL, ("quantized", [], [], [0], [None, None])),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_weights_that_cannot_be_packed(kind):
    class_name, state = WRONG[kind]
    with pytest.raises(NotPacked):
        check_state(class_name, state)


def test_wrong_weights_in_archives():
    """Such states end the process in C++."""
    data = b"\x80\x02" + name("__torch__.torch.classes.quantized", "LinearPackedParamsBase") + b")\x81"
    meta = tensor().replace(text("cpu"), text("meta"))
    for state in (b"N", b"N\x85", tensor() + b"N\x86", meta + b"N\x86", tensor(size=number(0) + b"\x85") + b"N\x86"):
        with pytest.raises(ArchiveError, match="cannot be made"):
            load(archive({"data.pkl": data + state + b"b."}))


def test_classes_of_torch_that_are_not_known():
    assert not is_checked("mkldnn.ConvOpContext")
    data = b"\x80\x02" + name("__torch__.torch.classes.mkldnn", "ConvOpContext") + b")\x81)b."
    with pytest.raises(ArchiveError, match=r"(?s)mkldnn.*allow=\['mkldnn'\]"):
        load(archive({"data.pkl": data}))


@pytest.mark.parametrize(
    "arguments",
    ["[1, 1], [0, 0], [1, 1], 0", "[0, 0], [0, 0], [1, 1], 1", "[1], [0, 0], [1, 1], 1", "[1, 1], [-1, 0], [1, 1], 1",
     "[1, 1], [0, 0], [1, 1], -1", "[1, 1], [0, 0], [0, 1], 1", "[1, 1], [0, 0], [1, 1], 1000000"],
)  # fmt: skip
def test_packing_in_a_setter(arguments):
    weight = "torch.quantize_per_tensor(torch.ones([4, 4, 3, 3]), 0.1, 0, 12)"
    right = "[1, 1], [0, 0], [1, 1], 1"
    assert load(stateful(f"self.v = ops.quantized.conv2d_prepack({weight}, None, {right})")).v is not None
    with pytest.raises(ArchiveError, match="cannot be packed"):
        load(stateful(f"self.v = ops.quantized.conv2d_prepack({weight}, None, {arguments})"))
