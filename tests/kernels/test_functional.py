"""Functions of torch.nn.functional in scripts: each is one kernel, or one for each pass, and does what eager does.

Those that are not are listed with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from kernel_law import SUMS, difference
from kernel_programs import function_of
from torch import Tensor

import jitlite
from jitlite.base import options
from jitlite.executor.kernels import tensor_regions
from jitlite.kernels import torch_abi

pytestmark = [
    pytest.mark.skipif(torch_abi.torch_abi() is None, reason=torch_abi.why_not()),
    pytest.mark.filterwarnings("ignore"),
]

torch.manual_seed(5)
X, Y = torch.randn(4, 5), torch.randn(4, 5)
TENSORS: dict[str, Tensor] = {
    "x": X,
    "y": Y,
    "row": torch.randn(5),
    "table": torch.randn(6, 3),
    "weight": torch.randn(3, 5),
    "bias": torch.randn(3),
    "slope": torch.rand(1),
    "slopes": torch.rand(4),
    "channels": torch.randn(4),
    "shift": torch.randn(4),
    "seq": torch.randn(2, 4, 6),
    "image": torch.randn(2, 4, 6, 6),
    "query": torch.randn(2, 3, 4, 8),
    "key": torch.randn(2, 3, 5, 8),
    "value": torch.randn(2, 3, 5, 7),
    "bonus": torch.randn(4, 5),
}
FIXED: dict[str, Tensor] = {
    "share": torch.rand(4, 5),
    "sign": torch.randn(4, 5).sign(),
    "side": torch.tensor([1.0, -1.0, 1.0, -1.0]),
    "classes": torch.tensor([1, 0, 4, 2]),
    "some": torch.tensor([1, -100, 4, 2]),
    "line": torch.randint(0, 4, (2, 6)),
    "plane": torch.randint(0, 4, (2, 6, 6)),
    "heavy": torch.rand(5) + 0.5,
    "heavy4": torch.rand(4) + 0.5,
    "mean": torch.randn(4),
    "var": torch.rand(4) + 0.5,
    "mask": torch.tensor([[True, False, True, False, True]] * 3 + [[False] * 5]),
}
"""Arguments that never require a gradient."""

ONE_KERNEL = """
    F.mse_loss(x * 2, y) | F.mse_loss(x * 2, y, reduction='sum') | F.mse_loss(x * 2, y, reduction='none')
    F.smooth_l1_loss(x * 2, y) | F.smooth_l1_loss(x * 2, y, reduction='none', beta=0.5) | F.huber_loss(x * 2, y)
    F.huber_loss(x * 2, y, reduction='sum', delta=0.5) | F.l1_loss(x * 2, y) | F.l1_loss(x * 2, y, reduction='none')
    F.binary_cross_entropy_with_logits(x * 2, share)
    F.binary_cross_entropy_with_logits(x * 2, share, pos_weight=heavy)
    F.binary_cross_entropy(torch.sigmoid(x), share)
    F.binary_cross_entropy(torch.sigmoid(x), share, weight=heavy, reduction='none')
    F.cross_entropy(x * 2, classes) | F.cross_entropy(x * 2, some) | F.cross_entropy(x * 2, classes, ignore_index=2)
    F.cross_entropy(x * 2, classes, weight=heavy) | F.cross_entropy(x * 2, some, weight=heavy, label_smoothing=0.2)
    F.cross_entropy(x * 2, classes, label_smoothing=0.1)
    F.cross_entropy(x * 2, some, label_smoothing=0.1, reduction='none')
    F.cross_entropy(x * 2, some, label_smoothing=0.1, reduction='sum')
    F.cross_entropy(x * 2, y.softmax(1)) | F.cross_entropy(x * 2, y.softmax(1), weight=heavy, label_smoothing=0.3)
    F.cross_entropy(x * 2, y.softmax(1), reduction='none')
    F.cross_entropy(seq * 2, line) | F.cross_entropy(seq * 2, line, reduction='none')
    F.cross_entropy(image * 2, plane, weight=heavy4) | F.cross_entropy(image * 2, plane, label_smoothing=0.1)
    F.nll_loss(F.log_softmax(x, 1), classes) | F.nll_loss(F.log_softmax(image, 1), plane, ignore_index=1)
    F.nll_loss(F.log_softmax(x, 1), some, weight=heavy, reduction='sum')
    F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction='batchmean')
    F.kl_div(F.log_softmax(x, 1), F.log_softmax(y, 1), reduction='sum', log_target=True)
    F.poisson_nll_loss(x * 2, y * y) | F.poisson_nll_loss(x * x, y * y, log_input=False, full=True)
    F.hinge_embedding_loss(x * 2, sign) | F.margin_ranking_loss(x * 2, y, sign, margin=0.5)
    F.cosine_embedding_loss(x * 2, y, side) | F.multilabel_soft_margin_loss(x * 2, share)
    F.cosine_similarity(x * 2, y, 1) | F.cosine_similarity(x * 2, row, 1) | F.pairwise_distance(x * 2, y)
    F.normalize(x * 2, dim=-1) | F.normalize(x * 2, 1.0, 1)
    F.relu(x * 2) | F.relu6(x * 4) | F.gelu(x * 2) | F.gelu(x * 2, approximate='tanh') | F.silu(x * 2) | F.mish(x * 2)
    F.elu(x * 2) | F.elu(x * 2, 0.5) | F.selu(x * 2) | F.celu(x * 2, 1.5) | F.leaky_relu(x * 2, 0.1)
    F.hardswish(x * 2) | F.hardsigmoid(x * 2) | F.hardtanh(x * 2) | F.hardshrink(x * 2) | F.softshrink(x * 2)
    F.softplus(x * 2) | F.softsign(x * 2) | F.tanhshrink(x * 2) | F.logsigmoid(x * 2) | F.threshold(x * 2, 0.1, -1.0)
    F.sigmoid(x * 2) | F.tanh(x * 2) | F.glu(image * 2, 1) | F.softmin(x * 2, dim=1) | F.softmax(x * 2, dim=-1)
    F.log_softmax(x * 2, dim=0) | F.prelu(x * 2, slope) | F.prelu(image * 2, slopes) | F.rrelu(x * 2)
    F.dropout(x * 2, 0.5, False) + 1 | F.alpha_dropout(x * 2, 0.5, False) + 1
    F.feature_alpha_dropout(x * 2, 0.5, False) + 1
    F.layer_norm(x * 2, [5]) | F.layer_norm(x * 2, [5], row, row) | F.rms_norm(x * 2, [5], row) | F.rms_norm(x * 2, [5])
    F.group_norm(seq * 2, 2, channels, shift) | F.group_norm(image * 2, 4) | F.instance_norm(image * 2)
    F.instance_norm(seq * 2, weight=channels, bias=shift) | F.batch_norm(image * 2, mean, var, channels, shift)
    F.batch_norm(seq * 2, mean, var) | F.linear(x * 2, weight, bias) | F.linear(x * 2, weight)
    F.embedding(classes, table * 2) | F.embedding(classes, table * 2, padding_idx=1)
    F.adaptive_avg_pool1d(seq * 2, 1) | F.adaptive_avg_pool2d(image * 2, 1)
    F.pixel_shuffle(image * 2, 2) + 1 | F.pixel_unshuffle(image * 2, 3) + 1 | F.channel_shuffle(image * 2, 2) + 1
    F.scaled_dot_product_attention(query * 2, key, value)
    F.scaled_dot_product_attention(query * 2, key, value, is_causal=True)
    F.scaled_dot_product_attention(query * 2, key, value, bonus) | F.one_hot(classes, 5) * 2
    F.scaled_dot_product_attention(query * 2, key, value, mask, scale=0.5)
    F.pad(x * 2, [1, 2]) + 1 | F.pad(image * 2, [1, 2, 0, 1], value=3.0) + 1
    F.max_pool2d(image * 2, 2) | F.max_pool2d(image * 2, 3, 2, 1) | F.max_pool2d(image * 2, 2, 1, dilation=2)
    F.avg_pool2d(image * 2, 2) | F.avg_pool2d(image * 2, (3, 2), 2, (1, 0)) | F.max_pool1d(seq * 2, 3, 1, 1)
    F.avg_pool1d(seq * 2, 2) | F.lp_pool1d(seq * seq, 2.0, 2)
    (x * 2).max(1)[0] | (x * 2).min(0, keepdim=True)[0] | (x * 2).max() | (x * 2).min() | (x * 2).narrow(1, 1, 2) + 1
    (x * 2).roll(1, 0) + 1 | (image * 2).movedim(1, -1) + 1 | (x * 2).swapaxes(0, 1) + 1 | (x * 2).repeat(2, 3)
    (x * 2).repeat(2, 1, 1) + 1 | (x * 2).repeat_interleave(2, 1) | (x * 2).repeat_interleave(3) + 1
    torch.logaddexp(x * 2, y) | torch.logaddexp(x * 2, row) | (x * 2).norm()
    torch.linalg.vector_norm(x * 2, dim=0) | torch.cdist(x * 2, y) | (x * 2).detach() * y
    torch.einsum('bi,oi->bo', x * 2, weight) | torch.einsum('nhqd,nhkd->nhqk', query * 2, key)
    torch.einsum('nhqd,nhkd->qnhk', query * 2, key) | torch.einsum('bij,bjk->bik', seq * 2, seq.transpose(1, 2))
    (x * 2).scatter_add(0, (classes % 4).unsqueeze(1).expand(4, 5), y) | (x * 2).index_add(0, classes % 4, y)
"""

WITHOUT_GRADIENT = {
    "F.one_hot(classes, 5) * 2": "it gives whole numbers",
}

LEFT_TO_PYTHON = {
    "F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1))": "too few operators",  # it warns each time, in front of it
    "F.soft_margin_loss(x * 2, sign)": "there is no kernel for aten::soft_margin_loss",
    "F.multi_margin_loss(x * 2, classes)": "there is no kernel for aten::multi_margin_loss",
    "F.adaptive_avg_pool2d(image * 2, 3)": "adaptive_avg_pool2d to more than a pixel",
    "F.unfold(image * 2, 2) + 1": "there is no kernel for aten::im2col",
    "F.interpolate(image * 2, scale_factor=2.0) + 1": "there is no kernel for",
    "F.bilinear(x * 2, y, weight.reshape(3, 1, 5).expand(3, 5, 5), bias)": "there is no kernel for aten::bilinear",
    "F.adaptive_max_pool2d(image * 2, 1)": "there is no kernel for aten::adaptive_max_pool2d",
}
"""What is not one kernel, and a part of what `explain` says of that."""

TEXTS = [text.strip() for line in ONE_KERNEL.splitlines() for text in line.split(" | ") if text.strip()]


@pytest.fixture(autouse=True)
def at_once():
    """Kernels are made by the first call, and verified."""
    with options.override(native="now", verify=True):
        yield


def function_and_arguments(text: str) -> tuple[Any, list[str]]:
    names = [name for name in (*TENSORS, *FIXED) if re.search(rf"\b{name}\b(?!=)", text)]
    parameters = ", ".join(f"{name}: Tensor" for name in names)
    return function_of(f"def program({parameters}):\n    return {text}\n"), names


def leaves(names: Sequence[str], *, grad: bool) -> list[Tensor]:
    return [TENSORS[n].clone().requires_grad_(grad) if n in TENSORS else FIXED[n].clone() for n in names]


def regions_of(scripted: Any) -> list[Any]:
    return [state for _, state in tensor_regions(scripted.executor)]


def told(scripted: Any, arguments: Sequence[Tensor]) -> list[str]:
    return list(scripted.explain(*arguments).sections["Machine code for tensors"])


@pytest.mark.parametrize("text", TEXTS)
def test_one_kernel(text: str) -> None:
    python, names = function_and_arguments(text)
    scripted = jitlite.script(python)
    arguments = leaves(names, grad=False)
    for _ in range(2):
        assert difference(python(*arguments), scripted(*arguments), SUMS) is None
    (region,) = regions_of(scripted)
    assert region.runs == 2, told(scripted, arguments)
    assert not [sentence for sentence in told(scripted, arguments) if sentence.startswith("not ")]


@pytest.mark.slow
@pytest.mark.parametrize("text", [text for text in TEXTS if text not in WITHOUT_GRADIENT])
def test_gradients(text: str) -> None:
    python, names = function_and_arguments(text)
    scripted = jitlite.script(python)
    for _ in range(2):
        ours, theirs = leaves(names, grad=True), leaves(names, grad=True)
        found, expected = scripted(*ours), python(*theirs)
        assert difference(expected.detach(), found.detach(), SUMS) is None
        for given, result in ((ours, found), (theirs, expected)):
            (result * result.detach().cos()).sum().backward()
            assert any(t.grad is not None for t in given)
        for mine, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-5)
    (region,) = regions_of(scripted)
    assert len(region.recordings) == 1, told(scripted, ours)


@pytest.mark.parametrize("text", LEFT_TO_PYTHON)
def test_what_is_left_to_python(text: str) -> None:
    """With the reason, so that one that becomes a kernel moves to the other list."""
    python, names = function_and_arguments(text)
    scripted = jitlite.script(python)
    arguments = leaves(names, grad=False)
    torch.testing.assert_close(scripted(*arguments), python(*arguments))
    assert any(LEFT_TO_PYTHON[text] in sentence for sentence in told(scripted, arguments))


def test_a_loss_that_broadcasts_warns_as_in_eager() -> None:
    def f(x: Tensor, y: Tensor):
        return torch.nn.functional.mse_loss(x * 2, y)

    scripted, arguments = jitlite.script(f), (TENSORS["x"], TENSORS["row"])
    scripted(X, Y)
    with pytest.warns(UserWarning, match="target size"):
        found = scripted(*arguments)
    with pytest.warns(UserWarning, match="target size"):
        torch.testing.assert_close(found, f(*arguments))


def test_a_branch_that_facts_decide_passes_gradients() -> None:
    def f(x: Tensor):
        if x.dim() == 2:
            y = x * 2
        else:
            y = x.cumsum(0)
        if y.shape == [4, 5, 6] or y.size(0) > 100:
            raise ValueError("no")
        else:
            y = y.tanh()
        return y * 3

    scripted = jitlite.script(f)
    ours, theirs = leaves(["x", "x"], grad=True)
    scripted(ours).sum().backward()
    f(theirs).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert sum(len(region.recordings or ()) for region in regions_of(scripted)) == 1


@pytest.mark.parametrize("shape", [[4, 5], [4, 6], [4], [4, 5, 1]])
def test_sizes_are_compared(shape: list[int]) -> None:
    def f(x: Tensor, y: Tensor):
        z = x * 2
        if x.size() == y.size():
            z = z + 1
        if y.shape != x.shape:
            z = z - 2
        return z.neg()

    scripted = jitlite.script(f)
    for _ in range(2):
        torch.testing.assert_close(scripted(X, torch.ones(shape)), f(X, torch.ones(shape)))
    assert sum(region.runs for region in regions_of(scripted)) == 2


def test_a_weight_that_may_not_require_a_gradient() -> None:
    def f(x: Tensor, y: Tensor, w: Tensor):
        return torch.nn.functional.cross_entropy(x * 2, y, weight=w)

    arguments = X.clone().requires_grad_(), FIXED["classes"], FIXED["heavy"].clone().requires_grad_()
    with pytest.raises(RuntimeError) as expected:
        f(*arguments)
    with pytest.raises(RuntimeError) as found:
        jitlite.script(f)(*arguments)
    assert str(expected.value) in str(found.value)
