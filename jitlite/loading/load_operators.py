"""Operators that may run while an archive is loaded: what a `__setstate__` has a use for.

torch has some 1,700 operators, and many trust the indices and sizes that they are given: a wrong one reads memory that
is not there. So nothing runs that is not listed. What is listed takes values apart and puts them together, counts, and
changes shapes and dtypes; what packs weights is checked by `packed_parameters`.
"""

from __future__ import annotations


def _names(namespace: str, text: str) -> frozenset[str]:
    return frozenset(f"{namespace}::{name}" for name in text.split())


CHEAP = _names(
    "aten",
    "append __getitem__ _set_item len pop popitem get setdefault Delete clear dim size numel stride "
    "is_floating_point is_complex is_contiguous is_signed element_size storage_offset requires_grad_ "
    "is_grad_enabled set_grad_enabled __is__ __isnot__ __not__ __range_length __derive_index _unwrap_optional "
    "is_scripting q_scale q_zero_point q_per_channel_axis qscheme _assert list_with_default ScalarImplicit "
    "IntImplicit FloatImplicit ComplexImplicit is_nonzero device sym_size",
) | _names(
    "prim",
    "TupleIndex StringIndex EnumName EnumValue dtype device layout requires_grad is_cuda is_cpu is_meta "
    "is_quantized is_sparse is_sparse_csr is_nested itemsize nbytes unchecked_cast checked_cast "
    "unchecked_unwrap_optional RaiseException MakeException Raise TupleUnpack GetAttr SetAttr Uninitialized data "
    "id",
)  # fmt: skip
"""Operators that take the time of one step whatever they are given."""

SIMPLE = _names(
    "aten",
    "add sub mul div floordiv remainder neg pow abs floor ceil round sqrt exp log log2 log10 sin cos tan "
    "fabs fmod __and__ __or__ __xor__ __lshift__ __rshift__ divmod eq ne lt le gt ge min max sum any all isnan "
    "isinf isfinite gcd __round_to_zero_floordiv Int Float Bool Complex str bin oct hex chr ord list dict keys "
    "values items copy extend insert remove reverse index count sort sorted slice __contains__ update add_ mul_ "
    "select format percentFormat join split rsplit splitlines partition rpartition replace strip lstrip rstrip "
    "lower upper capitalize title swapcase find rfind rindex startswith endswith zfill ljust rjust center "
    "expandtabs isalnum isalpha isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle "
    "isupper factorial copysign atan2 degrees radians hash",
) | _names("prim", "rangelist min max abs tolist NumToTensor isinstance")  # fmt: skip
"""Operators on numbers, texts and containers: they take the time that their arguments and results are long."""

TENSORS = _names(
    "aten",
    "view view_as reshape reshape_as flatten unflatten squeeze unsqueeze transpose t permute movedim "
    "swapaxes expand expand_as select slice narrow unbind split split_with_sizes chunk detach alias numpy_T mT "
    "contiguous clone to type_as cpu cat concat stack add sub mul div true_divide rsub neg abs square sqrt rsqrt "
    "reciprocal exp log floor ceil round trunc sign clamp clamp_min clamp_max minimum maximum eq ne lt le gt ge "
    "logical_not logical_and logical_or logical_xor isnan isinf isfinite relu where add_ sub_ mul_ div_ neg_ "
    "fill_ zero_ copy_ clamp_ sum mean any all min max zeros ones full zeros_like ones_like full_like new_zeros "
    "new_ones new_full tensor as_tensor scalar_tensor arange rand randn nonzero item equal dequantize int_repr "
    "q_per_channel_scales q_per_channel_zero_points quantize_per_tensor quantize_per_channel to_dense coalesce "
    "indices values _indices _values Int Float Bool Complex pow squeeze_ unsqueeze_ detach_ conj real imag "
    "view_as_real view_as_complex is_same_size",
)  # fmt: skip
"""Operators on tensors that look at what they are given. What they make is found out before it is made."""

COPYING = _names("aten", "list copy extend insert reverse slice keys values items update add add_ mul mul_ select dict")
"""Operators on containers that do not look at the elements."""

VIEWS = _names(
    "aten",
    "view view_as squeeze unsqueeze transpose t permute movedim swapaxes expand expand_as select slice "
    "narrow unbind split split_with_sizes chunk detach alias numpy_T mT squeeze_ unsqueeze_ detach_ unflatten "
    "view_as_real view_as_complex real imag",
)  # fmt: skip
"""Operators that make tensors of the numbers of another one."""
SPLITTING = _names("aten", "unbind split split_with_sizes chunk")
"""Those that make many."""

AS_LARGE = _names(
    "aten",
    "nonzero dequantize int_repr q_per_channel_scales q_per_channel_zero_points to_dense coalesce indices "
    "values _indices _values clone reshape reshape_as flatten to type_as cpu contiguous quantize_per_tensor "
    "quantize_per_channel item equal tensor as_tensor is_nonzero any all Int Float Bool Complex",
)  # fmt: skip
"""Operators that may not run on the meta device, and make no more than a few numbers for each that they are given."""

INSTRUCTIONS = frozenset({
    "OP", "OPN", "LOAD", "MOVE", "STORE", "STOREN", "DROP", "DROPR", "LOADC", "UN_INITIALIZED", "JF", "JMP", "LOOP",
    "RET", "CALL", "INTERFACE_CALL", "GET_ATTR", "SET_ATTR", "INIT_ATTR", "CREATE_OBJECT",
    "TUPLE_CONSTRUCT", "NAMED_TUPLE_CONSTRUCT", "LIST_CONSTRUCT", "DICT_CONSTRUCT", "LIST_UNPACK", "TUPLE_INDEX",
    "TUPLE_SLICE", "DICT_INDEX", "ISINSTANCE", "__IS__", "__ISNOT__", "__NOT__", "FORMAT", "WARN", "RAISE_EXCEPTION",
    "DTYPE", "DEVICE", "DIM", "IS_CUDA", "NUM_TO_TENSOR", "TO_LIST",
})  # fmt: skip
"""Instructions of the stack machine that may run: not those that begin threads, enter contexts or call Python."""
