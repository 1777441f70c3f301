# ruff: noqa: E501  (a table)
"""Calls of tensor operators, for laws about their results: an expression, and what its names stand for."""

from __future__ import annotations

import torch


def _named(dtype: torch.dtype, grad: bool) -> dict[str, object]:
    make = torch.Generator().manual_seed(0)

    def tensor(*sizes: int) -> torch.Tensor:
        values = torch.rand(sizes, generator=make) * 4
        made = values.to(dtype)
        return made.requires_grad_() if grad and dtype.is_floating_point else made

    return {
        "x": tensor(2, 3), "y": tensor(2, 3), "row": tensor(3), "column": tensor(2, 1), "one": tensor(1, 3),
        "scalar": tensor(), "square": tensor(3, 3), "batch": tensor(4, 2, 3), "other": tensor(4, 3, 5),
        "image": tensor(2, 4, 6, 7), "line": tensor(2, 4, 9), "kernel": tensor(6, 2, 3, 2), "kernel1": tensor(5, 4, 3),
        "turned": tensor(4, 3, 3, 2), "bias": tensor(6), "weight": tensor(5, 3), "four": tensor(4), "empty": tensor(0, 3),
        "index": torch.tensor([1, 0, 1, 1]), "mask": torch.tensor([[True, False, True], [False, True, True]]),
        "n": 2, "z": 1.5,
    }  # fmt: skip


EXPRESSIONS = """
x + y; x + row; x + column; column * row; x * scalar; x + 1; x * 1.5; x / n; x // 2; x ** 2; 2.5 - x; -x; x > y; x == 0
scalar + 1; scalar * z; x * n; row / column; torch.where(x > y, x, y); torch.max(x, y); x.clamp(0, 1); x.abs()
torch.relu(x); torch.exp(x); torch.sqrt(x); x.sigmoid(); x.erf(); torch.atan2(x, y); torch.lerp(x, y, 0.5)
x.masked_fill(mask, 0); torch.addcmul(x, y, y); x.logical_not(); x.isnan(); x.to(torch.float64); x.to(torch.int32)
x.double(); x.long(); x.bool(); x.type_as(index); x.float(); x.half(); x.to("cpu"); x.cpu(); x.detach(); x.clone()
x.t(); x.T; x.mT; x.transpose(0, 1); batch.permute(2, 0, 1); batch.permute(-1, 0, 1); x.unsqueeze(-1); x.unsqueeze(1)
one.squeeze(); one.squeeze(0); x.squeeze(0); one.squeeze(1); scalar.unsqueeze(0); x.view(3, 2); x.view(-1); x.view(6, -1)
x.view(x.size(1), x.size(0)); x.reshape(1, -1, 3); batch.view(batch.size(0), -1); batch.flatten(1); batch.flatten()
scalar.flatten(); batch.unflatten(0, [2, 2]); x.expand(4, 2, 3); one.expand(5, -1); row.expand_as(x); x.view_as(y)
x[0]; x[-1]; x[:, 1]; x[0:1]; x[:, 1:]; x[:, ::2]; x[:5]; x[1, 2]; x[None]; x[..., 0]; x[index]; x[:, index]
batch[:, index, 0]; batch[index]; x[mask]; x[index, 1]; x.select(1, 0); x.narrow(1, 1, 2); x.repeat(2, 1); x.repeat(2, 3, n)
torch.cat([x, y]); torch.cat([x, y, one], 0); torch.cat([x, column], 1); torch.cat([x, empty]); torch.cat([empty[:, 0], x]); torch.stack([x, y])
torch.stack([x, y, x], 2); torch.hstack([x, y]); x.split(1)[0]; x.split([1, 2], 1)[1]; x.chunk(2, 1)[0]; x.unbind(1)[2]
torch.split(batch, 3); batch.chunk(3); batch.unbind(); torch.tensor_split(batch, 3)
x.sum(); x.sum(0); x.sum(1, True); x.sum([0, 1]); x.sum([]); batch.sum([0, 2], True); x.mean(); x.mean(-1); x.prod(1)
x.max(); x.max(1); x.min(0, True); x.argmax(); x.argmax(1); x.argmin(0, True); x.any(); x.all(1); x.amax([0]); x.std()
x.var(1); x.norm(); x.norm(2, 1); x.logsumexp(0); x.median(); x.median(1); x.cumsum(1); x.cumprod(0); x.sort(1); x.argsort()
x.topk(2, 1); x.topk(n); x.count_nonzero(); x.nonzero(); x.softmax(1); x.log_softmax(-1); x.softmax(0, torch.float64)
x.sum(0, dtype=torch.float64); torch.linalg.vector_norm(x); x.std(0, True, True); torch.aminmax(x)
torch.mm(x, square); x @ square; x @ row; row @ square; row @ row; batch @ other; batch @ square; x.matmul(batch.mT)
torch.bmm(batch, other); torch.addmm(row, x, square); torch.mv(x, row); torch.dot(row, row); torch.outer(row, four)
torch.baddbmm(other[:, :2], batch, other); F.linear(x, weight); F.linear(batch, weight, None); F.linear(row, weight)
torch.einsum("ij,kj->ik", [x, weight]); torch.tensordot(x, square, [[1], [0]])
F.conv2d(image, kernel, bias, 2, 1, 1, 2); F.conv2d(image, kernel, None, groups=2, padding=[1, 0], dilation=[2, 1])
F.conv2d(image[0], kernel, bias, groups=2); F.conv1d(line, kernel1, None, 2, 1); F.conv1d(line, kernel1, padding="same")
F.conv_transpose2d(image, turned, None, 2, 1, 1); F.conv_transpose2d(image, turned, None, [1, 2]); F.max_pool2d(image, 2)
F.max_pool2d(image, 3, 2, 1); F.max_pool2d(image, 2, ceil_mode=True); F.avg_pool2d(image, 3, 1, 1); F.max_pool1d(line, 3)
F.avg_pool2d(image, 2, 3, 1, ceil_mode=True); F.max_pool1d(line, 2, 3, 1, ceil_mode=True)
F.avg_pool1d(line, 2); F.adaptive_avg_pool2d(image, [3, 2]); F.adaptive_avg_pool2d(image, 1); F.adaptive_max_pool1d(line, 4)
F.max_pool2d(image, 2, return_indices=True); F.pad(x, [1, 2]); F.pad(image, [1, 0, 2, 1]); F.pad(image, [1, 1, 1, 1], "reflect")
F.interpolate(image, [4, 4]); F.interpolate(image, scale_factor=2.0); F.batch_norm(image, None, None, training=True)
F.layer_norm(x, [3]); F.group_norm(image, 2); F.instance_norm(image); F.gelu(x); F.silu(x); F.hardtanh(x); F.leaky_relu(x)
F.dropout(x, 0.5, True); F.dropout(x, 0.5, False); F.embedding(index, x); F.embedding(index, weight); F.one_hot(index, 4)
F.mse_loss(x, y); F.mse_loss(x, y, reduction="none"); F.l1_loss(x, one, reduction="sum"); F.cross_entropy(x, index[:2])
F.nll_loss(x, index[:2]); F.smooth_l1_loss(x, y); F.glu(image); F.prelu(image, four); F.normalize(x); F.cosine_similarity(x, y)
F.scaled_dot_product_attention(batch, batch, batch); F.unfold(image, [2, 2]); F.pixel_shuffle(image, 2); F.softplus(x)
x.gather(1, index[:2].unsqueeze(1)); x.index_select(1, index); x.take(index); x.scatter(1, index[:2].unsqueeze(1), 1.0)
x.index_fill(0, index, 1); x.masked_select(mask); torch.index_put(x, [index[:2]], row); x.index_add(0, index[:2], y)
torch.zeros(2, 3); torch.zeros([n, 3], dtype=torch.int32); torch.ones(x.size()); torch.zeros_like(x); torch.full([2], 1.5)
torch.full([2, n], 3); torch.full_like(x, 2); torch.ones_like(x, dtype=torch.float64); torch.eye(3); torch.eye(2, n)
torch.arange(5); torch.arange(0, 5, 2); torch.arange(0.0, 1.0, 0.3); torch.arange(n); torch.arange(0, 5.5, dtype=torch.int64)
torch.arange(5, dtype=torch.float64); torch.linspace(0, 1, 5); torch.rand(2, 3); torch.randn([n]); torch.randint(0, 9, [2])
torch.randperm(4); torch.rand_like(x); x.new_zeros([2]); x.new_full([3], 1); torch.empty([2, 3]); x.bernoulli(0.5)
torch.tensor([1, 2]); torch.tensor(1.5); torch.tensor([[1.0], [2.0]]); torch.tensor(n); torch.tensor(True); torch.tensor([z, 2.0])
torch.tensor([1, 2], dtype=torch.float64); torch.as_tensor(3); x.tril(); x.flip([0]); x.roll(1, 0); x.diagonal(); row.diag()
x.unfold(1, 2, 1); torch.meshgrid([row, four]); torch.broadcast_tensors([x, row]); torch.cdist(x, y); torch.cov(x)
torch.linalg.inv(square + torch.eye(3)); torch.linalg.qr(x); torch.linalg.svd(x); torch.det(square); torch.trace(square)
x.bincount(); torch.unique(x); torch.searchsorted(row, x); torch.bucketize(x, row); torch.histc(x); torch.kron(x, y)
torch.view_as_real(torch.complex(x, y)); torch.complex(x, y).abs(); torch.complex(x, y).real; x.is_floating_point(); (x, [y, x])
torch.logspace(0, 1, n); x.repeat_interleave(2, 0); torch.combinations(row); torch.cartesian_prod([row, four]); torch.quantile(x, 0.5)
x.data; x.contiguous(); x.diff(); torch.cross(square, square, 1); torch.rot90(x); x.kthvalue(1); x.mode(); x.add_(1); x.mul_(row)
x.new_zeros([3]).resize_([2, 2]); x.clone().t_(); x.clone().unsqueeze_(0); x.clone().squeeze_(); x.clone().zero_().add_(y)
x.clone().requires_grad_(); x.clone().copy_(row); x.clone().fill_(1).detach_(); x.clone().index_put_([index[:2]], row)
"""  # fmt: skip

_EVERY = [line.strip() for text in EXPRESSIONS.split("\n") for line in text.split(";") if line.strip()]
_KINDS = ((torch.float32, False), (torch.float32, True), (torch.int64, False), (torch.bool, False))


def _annotation(value: object) -> str:
    return "Tensor" if isinstance(value, torch.Tensor) else type(value).__name__


def _used(expression: str, names: dict[str, object]) -> list[str]:
    code = compile(expression, "<call>", "eval")
    return [n for n in names if n in code.co_names]


def calls() -> list[str]:
    """All expressions."""
    return list(_EVERY)


def call(expression: str) -> tuple[str, list[list[object]]]:
    """The source of a function `f` that gives what an expression does, and lists of arguments."""
    named = _named(torch.float32, False)
    used = _used(expression, named)
    parameters = ", ".join(f"{n}: {_annotation(named[n])}" for n in used)
    source = f"def f({parameters}):\n    return {expression.replace('F.', 'torch.nn.functional.')}\n"
    found = [_named(dtype, grad) for dtype, grad in _KINDS]
    return source, [[names[n] for n in used] for names in found]
