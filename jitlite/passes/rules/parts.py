"""What norms, attention and other layers are made of. How to read them: see `composites.py`."""

from __future__ import annotations

import torch

from jitlite.ir import types as T
from jitlite.ir.graph import Node
from jitlite.passes.rules import parts_losses as parts_losses  # declares more
from jitlite.passes.rules import parts_shapes as parts_shapes  # declares more
from jitlite.passes.rules.composites import Write, both, declare_parts, known, number, rank, rank_of, said
from jitlite.passes.rules.formula import Formula, Sym, arguments_of, call, calls, list_of

# -- norms


def _sizes(f: Formula, *sizes: object) -> Sym:
    return list_of(f.before, sizes, T.INT)


def _scaled_channels(f: Formula, x: Sym, dims: int) -> Sym:
    """Times the weight of each channel, plus its bias."""
    shape = [1, -1] + [1] * (dims - 2)
    if not f.is_none("weight"):
        x = x * f.weight.view(shape)
    return x if f.is_none("bias") else x + f.bias.view(shape)


def _by_group(f: Formula, groups: object) -> list[Sym]:
    """A norm of groups of channels is a layer norm of rows, each of which is a group."""
    dims = rank(f, "input")
    rows = f.input.reshape(_sizes(f, f.size_at(f.input, 0), groups, -1))
    shape = _sizes(f, rows.size(2))
    normal = calls(f.before, "aten::native_layer_norm", rows, shape, None, None, f.eps)[0]
    return [_scaled_channels(f, normal.reshape(f.size(f.input)), dims)]


def _has_channels(node: Node) -> bool:
    t = dict(arguments_of(node))["input"].type
    return isinstance(t, T.TensorType) and t.sizes is not None and len(t.sizes) >= 2


_AFFINE = ("input", "weight", "bias")
declare_parts("group_norm", lambda f: _by_group(f, f.num_groups), both(known(*_AFFINE), _has_channels))


def _normalizes_instances(node: Node) -> bool:
    """Does it use the statistics of what it is given, and keep none?"""
    found = dict(arguments_of(node))
    keeps = any(found[name].type is not T.NONE for name in ("running_mean", "running_var"))
    return number(node, "use_input_stats") is True and not keeps


declare_parts("instance_norm", lambda f: _by_group(f, f.size_at(f.input, 1)),
              both(known(*_AFFINE), _has_channels, _normalizes_instances))  # fmt: skip


def _of_batches(f: Formula) -> list[Sym]:
    """With statistics that are kept."""
    dims = rank(f, "input")
    shape = [1, -1] + [1] * (dims - 2)
    scale = (f.running_var + f.eps).rsqrt()
    normal = (f.input - f.running_mean.view(shape)) * scale.view(shape)
    return [_scaled_channels(f, normal, dims)]


def _is_settled(node: Node) -> bool:
    """Does it not train, with statistics that are no results of the program?"""
    found = dict(arguments_of(node))
    kept = [found[name] for name in ("running_mean", "running_var")]
    inputs = all(v.node.kind in ("prim::Param", "prim::Constant") for v in kept)
    fixed = all(isinstance(v.type, T.TensorType) and not v.type.requires_grad for v in kept)
    return number(node, "training") is False and inputs and fixed


declare_parts("batch_norm", _of_batches,
              both(known(*_AFFINE, "running_mean", "running_var"), _has_channels, _is_settled))  # fmt: skip


def _last_dims(node: Node) -> list[int] | None:
    """The dimensions that a norm is over, counted from the end."""
    shape = dict(arguments_of(node))["normalized_shape"].node
    listed = shape.attributes.get("value") if shape.kind == "prim::Constant" else list(shape.inputs)
    made = shape.kind in ("prim::Constant", "prim::ListConstruct") and isinstance(listed, list | tuple)
    return list(range(-len(listed), 0)) if made and listed else None


def _root_mean_square(f: Formula) -> list[Sym]:
    dims = _last_dims(f.node)
    t = f.input.value.type
    assert isinstance(t, T.TensorType) and t.dtype is not None
    eps = torch.finfo(t.dtype).eps if f.is_none("eps") else f.eps
    normal = f.input * ((f.input * f.input).mean(dims, True) + eps).rsqrt()
    return [normal if f.is_none("weight") else normal * f.weight]


declare_parts("rms_norm", _root_mean_square,
              both(known("input", "weight"), lambda node: _last_dims(node) is not None))  # fmt: skip


# -- attention


def _attention(f: Formula) -> list[Sym]:
    scale: object = f.scale
    if f.is_none("scale"):
        scale = call(f.before, "aten::div", 1.0, call(f.before, "aten::sqrt", f.size_at(f.query, -1)))
    scores = f.query.matmul(f.key.transpose(-2, -1)) * scale
    if f.constant("is_causal"):
        return [_hidden(f, scores, _later(f)).softmax(-1, None).matmul(f.value)]
    if f.is_none("attn_mask"):
        return [scores.softmax(-1, None).matmul(f.value)]
    mask = f.attn_mask.value.type
    assert isinstance(mask, T.TensorType)
    scores = _hidden(f, scores, f.attn_mask.logical_not()) if mask.dtype is torch.bool else scores + f.attn_mask
    blind = scores.eq(-torch.inf).all(-1, True)  # what sees nothing gets nothing
    return [scores.masked_fill(blind, 0.0).softmax(-1, None).masked_fill(blind, 0.0).matmul(f.value)]


def _hidden(f: Formula, scores: Sym, mask: Sym) -> Sym:
    return scores.masked_fill(mask, -torch.inf)


def _later(f: Formula) -> Sym:
    """For each query, which keys come after it."""
    shape = _sizes(f, f.size_at(f.query, -2), f.size_at(f.key, -2))
    return call(f.before, "aten::ones", shape, dtype=torch.bool).triu(1)


def _is_plain_attention(node: Node) -> bool:
    found = dict(arguments_of(node))
    mask = found["attn_mask"].type
    ranks = [rank_of(found[name].type) for name in ("query", "key", "value")]
    if min(ranks) < 2 or len(set(ranks)) > 1:
        return False
    causal = number(node, "is_causal")
    if mask is T.NONE:
        return causal in (True, False)
    if not isinstance(mask, T.TensorType) or mask.sizes is None or len(mask.sizes) > ranks[0]:
        return False
    query = found["query"].type
    fits = mask.dtype is torch.bool or (isinstance(query, T.TensorType) and mask.dtype is query.dtype)
    return causal is False and fits


_is_dense = both(known("query", "key", "value"), said(dropout_p=0.0, enable_gqa=False), _is_plain_attention)
declare_parts("scaled_dot_product_attention", _attention, _is_dense)


# -- activations


def _parametric(f: Formula) -> list[Sym]:
    dims = rank(f, "self")
    weight = f.weight
    if rank(f, "weight") == 1 and dims > 2:
        weight = weight.view([-1] + [1] * (dims - 2))
    return [f.self.gt(0).where(f.self, weight * f.self)]


def _has_slopes(node: Node) -> bool:
    found = dict(arguments_of(node))
    dims, slopes = rank_of(found["self"].type), rank_of(found["weight"].type)
    t = found["weight"].type
    one = isinstance(t, T.TensorType) and t.sizes is not None and (slopes == 0 or (slopes == 1 and t.sizes[0] == 1))
    return one or (slopes == 1 and dims >= 2)


def _has_bounds(node: Node) -> bool:
    low, high = number(node, "lower"), number(node, "upper")
    return isinstance(low, int | float) and isinstance(high, int | float) and low <= high


declare_parts("prelu", _parametric, both(known("self", "weight"), _has_slopes))
declare_parts("rrelu", lambda f: [f.self.leaky_relu((f.constant("lower") + f.constant("upper")) / 2)],
              both(known("self"), said(training=False), _has_bounds))  # fmt: skip


# -- pools of lines are those of images of one row


def _as_image(kind: str, *names: str) -> Write:
    def write(f: Formula) -> list[Sym]:
        given = {name: f.constant(name) for name in names}
        given["stride"] = given["stride"] or given["kernel_size"]
        return [call(f.before, f"aten::{kind}", f.self.unsqueeze(-2), *map(_of_row, given.items())).squeeze(-2)]

    return write


def _of_row(argument: tuple[str, object]) -> object:
    """An argument for each dimension of a row as one for an image."""
    name, value = argument
    return [0 if name == "padding" else 1, *value] if isinstance(value, list) else value


_LINE = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
_MEAN_LINE = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")


def _is_line(node: Node) -> bool:
    """Is it a line of channels, with windows that are known?"""
    found = dict(arguments_of(node))
    return rank_of(found["self"].type) in (2, 3) and all(
        value.node.kind == "prim::Constant" for name, value in found.items() if name != "self"
    )


declare_parts("max_pool1d", _as_image("max_pool2d", *_LINE), both(known("self"), _is_line))
declare_parts("avg_pool1d", _as_image("avg_pool2d", *_MEAN_LINE), both(known("self"), _is_line))
