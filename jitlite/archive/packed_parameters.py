"""Packed weights of quantized modules: what they may be made of.

torch packs weights in C++, for objects whose state is in an archive and for operators such as
`quantized::conv2d_prepack`. It takes sizes and strides as they come: with 0 groups the process ends by a division, with
a tensor of another kind by a read of memory that is not there. So they are checked here before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


class NotPacked(ValueError):
    """Weights cannot be packed. The text says what is wrong."""


_LARGEST = 1 << 15
"""Beyond any stride, padding or number of groups."""
_ROWS = 32
"""Weights are packed in blocks of so many rows, the last one filled up."""


def packed_bytes(tensors: Sequence[object]) -> int:
    """About how many bytes tensors have when they are packed, in blocks of full rows."""
    return sum(
        4 * t.numel() * t.element_size() * -(-max(t.shape[0], _ROWS) // max(t.shape[0], 1))
        for t in tensors
        if isinstance(t, torch.Tensor) and t.dim()
    )


# -- tensors


def _see(is_right: bool, what: str) -> None:
    if not is_right:
        raise NotPacked(what)


def _tensor(value: Any, what: str, dims: Sequence[int], dtypes: Sequence[torch.dtype]) -> torch.Tensor:
    """A tensor whose numbers lie in this process's memory, each in a place of its own."""
    _see(isinstance(value, torch.Tensor), f"its {what} is no tensor")
    found: torch.Tensor = value
    is_plain = found.layout is torch.strided and found.device.type == "cpu" and not (found.is_conj() or found.is_neg())
    _see(is_plain, f"its {what} is no plain tensor on the CPU")
    _see(found.dtype in dtypes, f"its {what} has the dtype {found.dtype}")
    _see(found.dim() in dims, f"its {what} has {found.dim()} dimensions")
    _see(found.numel() > 0, f"its {what} is empty")
    _see(found.numel() * found.element_size() <= found.untyped_storage().nbytes(), f"its {what} is an expanded tensor")
    if found.is_quantized:
        _check_scales(found, what)
    return found


def _check_scales(found: torch.Tensor, what: str) -> None:
    if found.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        scales, zeros = torch.tensor([found.q_scale()]), torch.tensor([found.q_zero_point()])
    else:
        _see(found.q_per_channel_axis() in (0, 1), f"its {what} has scales for another dimension")
        scales, zeros = found.q_per_channel_scales(), found.q_per_channel_zero_points()
    are_right = bool(torch.isfinite(scales).all()) and bool((scales > 0).all()) and bool(torch.isfinite(zeros).all())
    _see(are_right and bool((zeros.abs() < 2**31).all()), f"its {what} has impossible scales")


def _bias(value: object, length: int) -> None:
    if value is not None:
        found = _tensor(value, "bias", (1,), (torch.float32,))
        _see(found.numel() == length, f"its bias has {found.numel()} elements, not {length}")


_QUANTIZED = (torch.qint8,)


def _linear(weight: object, bias: object, dtypes: Sequence[torch.dtype] = (torch.qint8, torch.float32)) -> None:
    found = _tensor(weight, "weight", (2,), dtypes)
    _bias(bias, found.shape[0])


def _numbers(values: Any, what: str, count: int, least: int) -> list[int]:
    is_list = isinstance(values, list | tuple) and len(values) == count
    _see(is_list and all(type(n) is int and least <= n <= _LARGEST for n in values), f"its {what} is impossible")
    return list(values)


def _convolution(
    weight: object, bias: Any, stride: object, padding: object, output_padding: object, dilation: object,
    groups: Any, *, transposed: bool, spatial: int, dims: int,
) -> None:  # fmt: skip
    found = _tensor(weight, "weight", (dims,), _QUANTIZED)
    for values, what, least in (
        (stride, "stride", 1), (padding, "padding", 0), (output_padding, "output padding", 0), (dilation, "dilation", 1)
    ):  # fmt: skip
        _numbers(values, what, spatial, least)
    _see(type(groups) is int and 1 <= groups <= found.shape[0], "its number of groups is impossible")
    _see(found.shape[0] % groups == 0, "its channels cannot be divided into its groups")
    _bias(bias, found.shape[1] * groups if transposed else found.shape[0])


# -- the state of objects


def _linear_state(state: Any) -> Sequence[Any]:
    _see(isinstance(state, tuple) and len(state) == 2, "it is no weight with a bias")
    _linear(*state)
    return tuple(state)


def _convolution_state(spatial: int) -> Callable[[Any], Sequence[Any]]:
    def check(state: Any) -> Sequence[Any]:
        _see(isinstance(state, tuple) and len(state) in (3, 7), "it is no convolution")
        config, weight, bias = _first_version(state) if len(state) == 7 else _later_version(state)
        k = spatial
        _see(len(config) == 3 + 4 * k and config[0] == k, "its numbers are not those of a convolution")
        stride, padding, dilation, output = (config[1 + k * i : 1 + k * (i + 1)] for i in range(4))
        _see(config[-1] in (0, 1), "it is transposed or not")
        _convolution(
            weight, bias, stride, padding, output, dilation, config[-2],
            transposed=config[-1] == 1, spatial=k, dims=k + 2,
        )  # fmt: skip
        return weight, bias

    return check


_Parts = tuple[list[int], Any, Any]
"""The numbers of a convolution, its weight and its bias."""


def _later_version(state: tuple[Any, ...]) -> _Parts:
    version, first, second = state
    _see(type(version) in (str, int) and version in ("2", 3), "it is of an unknown version")
    _see(isinstance(first, list) and isinstance(second, list), "it is no convolution")
    if version == "2":
        _see(len(first) == 2 and len(second) == 1, "it is no convolution")
        config = _tensor(first[0], "config", (1,), (torch.int16,))
        return [int(n) for n in config.tolist()], first[1], second[0]
    _see(len(second) == 2 and all(type(n) is int for n in first), "it is no convolution")
    return first, second[1], second[0]


def _first_version(state: tuple[Any, ...]) -> _Parts:
    """Of which each number was a tensor."""
    weight, bias, stride, padding, dilation, groups, transposed = state
    lists = [stride, padding, dilation]
    _see(all(isinstance(each, list) and each for each in lists), "it is no convolution")
    numbers = [[_number(each) for each in values] for values in lists]
    config = [len(stride), *numbers[0], *numbers[1], *numbers[2], *[0] * len(stride), _number(groups)]
    return [*config, _number(transposed)], weight, bias


def _number(value: object) -> int:
    return int(_tensor(value, "number", (0, 1), (torch.int16, torch.int32, torch.int64, torch.bool)).reshape(-1)[0])


def _embedding_state(state: Any) -> Sequence[Any]:
    _see(isinstance(state, tuple) and len(state) == 4 and isinstance(state[1], list), "it is no embedding")
    version, tensors, floats, numbers = state
    _see(version == 1 and type(version) is int and len(tensors) == 1 and floats == [], "it is no embedding")
    _see(numbers in ([4], [8]), "it has an impossible number of bits")
    dtype = torch.quint8 if numbers == [8] else torch.quint4x2
    found = _tensor(tensors[0], "weight", (2,), (dtype,))
    _see(found.qscheme() is torch.per_channel_affine_float_qparams, "its weight has no scales for each row")
    _see(found.q_per_channel_axis() == 0, "its weight has no scales for each row")
    return tuple(tensors)


def _sparse_state(state: Any) -> Sequence[Any]:
    _see(isinstance(state, tuple) and len(state) == 3, "it is no sparse weight")
    weight, bias, pattern = state
    found = _tensor(weight, "weight", (2,), _QUANTIZED)
    _bias(bias, found.shape[0])
    _numbers(pattern, "pattern of blocks", 2, 1)
    return tuple(state)


_LINEAR_PACKED = "__torch__.torch.classes.quantized.LinearPackedParamsBase"


def _is_linear(value: object) -> bool:
    name: Any = getattr(value, "_type", None) if isinstance(value, torch.ScriptObject) else None
    return name is not None and str(name()).endswith(".LinearPackedParamsBase")


def _cell_state(state: Any) -> Sequence[Any]:
    _see(isinstance(state, tuple) and len(state) == 5, "it is no cell")
    kind, tensors, floats, numbers, packed = state
    _see(all(isinstance(each, list) for each in state[1:]), "it is no cell")
    _see(len(packed) == 2 and all(_is_linear(each) for each in packed), "it has no packed weights")
    _see(floats == [], "it has other numbers than cells have")
    if kind == "quantized_dynamic":
        _see(len(tensors) == 2 and numbers in ([0], [1]), "it has other numbers than cells have")
        for each in tensors:
            _tensor(each, "bias", (1,), (torch.float32,))
    else:
        _see(kind == "quantized_fp16" and tensors == [] and numbers == [], "it is of an unknown kind")
    return tuple(tensors)


_STATES: Mapping[str, Callable[[object], Sequence[object]]] = {
    "quantized.LinearPackedParamsBase": _linear_state,
    "quantized.Conv2dPackedParamsBase": _convolution_state(2),
    "quantized.Conv3dPackedParamsBase": _convolution_state(3),
    "quantized.EmbeddingPackedParamsBase": _embedding_state,
    "sparse.LinearPackedParamsBase": _sparse_state,
    "rnn.CellParamsBase": _cell_state,
}
"""What checks the state of an object, by its class, and gives the tensors that are packed."""


def is_checked(class_name: str) -> bool:
    """Is it known here what objects of a class in C++ may be made of?"""
    return class_name in _STATES


def check_state(class_name: str, state: object) -> int:
    """See that an object of a class in C++ can be made of a state.

    Returns:
        about how many bytes it will have.

    Raises:
        NotPacked: it cannot.
    """
    return packed_bytes(_STATES[class_name](state))


# -- operators that pack


def _prepack(spatial: int, dims: int, *, transposed: bool = False) -> Callable[..., None]:
    def check(weight: object, bias: object, *numbers: object) -> None:
        _see(len(numbers) == (5 if transposed else 4), "its arguments are not those of a convolution")
        stride, padding, *output, dilation, groups = numbers
        zeros = output[0] if output else [0] * spatial
        _convolution(
            weight, bias, stride, padding, zeros, dilation, groups,
            transposed=transposed, spatial=spatial, dims=dims,
        )  # fmt: skip

    return check


def _cell(w_ih: object, w_hh: object, b_ih: object = None, b_hh: object = None, *rest: object) -> None:
    _see(_is_linear(w_ih) and _is_linear(w_hh), "it has no packed weights")
    for bias in (b_ih, b_hh):
        if bias is not None:
            _tensor(bias, "bias", (1,), (torch.float32,))


def _embedding(weight: object, *rest: object) -> None:
    _embedding_state((1, [weight], [], [8 if getattr(weight, "dtype", None) is torch.quint8 else 4]))


def _of_object(packed: object) -> None:
    _see(isinstance(packed, torch.ScriptObject), "it is given no packed weights")


PACKING: Mapping[str, Callable[..., object]] = {
    "quantized::linear_prepack": lambda weight, bias=None: _linear(weight, bias, _QUANTIZED),
    "quantized::linear_prepack_fp16": lambda weight, bias=None: _linear(weight, bias, (torch.float32,)),
    "quantized::conv1d_prepack": _prepack(1, 3), "quantized::conv2d_prepack": _prepack(2, 4),
    "quantized::conv3d_prepack": _prepack(3, 5), "quantized::conv_prepack": _prepack(2, 4),
    "quantized::conv_transpose1d_prepack": _prepack(1, 3, transposed=True),
    "quantized::conv_transpose2d_prepack": _prepack(2, 4, transposed=True),
    "quantized::conv_transpose3d_prepack": _prepack(3, 5, transposed=True),
    "quantized::embedding_bag_prepack": _embedding,
    "quantized::make_quantized_cell_params_dynamic": _cell, "quantized::make_quantized_cell_params_fp16": _cell,
    "sparse::qlinear_prepack": lambda weight, bias, rows, columns: _sparse_state((weight, bias, [rows, columns])),
    **{f"quantized::{name}": _of_object for name in (
        "linear_unpack", "linear_unpack_fp16", "conv1d_unpack", "conv2d_unpack", "conv3d_unpack", "conv_unpack",
        "conv_transpose1d_unpack", "conv_transpose2d_unpack", "conv_transpose3d_unpack", "embedding_bag_unpack",
        "conv2d_stride", "conv2d_padding", "conv2d_dilation", "conv2d_groups", "conv2d_output_padding",
        "conv2d_transpose",
    )},
    "sparse::qlinear_unpack": _of_object,
}  # fmt: skip
"""What checks the arguments of operators that pack weights or unpack them."""
