"""What operators are made of that give elements other places, and products of other shapes. See `composites.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.ir import types as T
from jitlite.ir.graph import Node
from jitlite.passes.rules.composites import both, declare_parts, known, number, rank, rank_of
from jitlite.passes.rules.formula import Formula, Sym, arguments_of, call, list_of


def _sizes(f: Formula, *sizes: object) -> Sym:
    return list_of(f.before, sizes, T.INT)


# -- where elements go


def _rearranged(f: Formula, shape: Sequence[object], order: Sequence[int], made: Sequence[object]) -> list[Sym]:
    """In another shape, permuted, and put together again."""
    turned = f.self.reshape(_sizes(f, *shape)).permute(list(order))
    return [turned.contiguous().reshape(_sizes(f, *made))]


def _batch(f: Formula) -> list[Sym]:
    return [f.size_at(f.self, d) for d in range(rank(f, "self") - 3)]


def _shuffled(f: Formula) -> list[Sym]:
    factor, batch, dims = f.constant("upscale_factor"), _batch(f), rank(f, "self")
    height, width = f.size_at(f.self, -2), f.size_at(f.self, -1)
    n = len(batch)
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    made = [*batch, -1, _product(f, height, factor), _product(f, width, factor)]
    assert dims >= 3
    return _rearranged(f, [*batch, -1, factor, factor, height, width], order, made)


def _unshuffled(f: Formula) -> list[Sym]:
    factor, batch = f.constant("downscale_factor"), _batch(f)
    n = len(batch)
    channels, height, width = (f.size_at(f.self, d) for d in (-3, -2, -1))
    down = [call(f.before, "aten::floordiv", size, factor) for size in (height, width)]
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    made = [*batch, _product(f, channels, factor * factor), *down]
    return _rearranged(f, [*batch, channels, down[0], factor, down[1], factor], order, made)


def _product(f: Formula, size: Sym, factor: int) -> Sym:
    return call(f.before, "aten::mul", size, factor)


def _is_image(factor: str) -> Callable[[Node], bool]:
    def hold(node: Node) -> bool:
        by = number(node, factor)
        return rank_of(dict(arguments_of(node))["self"].type) >= 3 and isinstance(by, int) and by > 0

    return hold


declare_parts("pixel_shuffle", _shuffled, _is_image("upscale_factor"))
declare_parts("pixel_unshuffle", _unshuffled, _is_image("downscale_factor"))


def _interleaved(f: Formula) -> list[Sym]:
    sizes = [f.size_at(f.self, d) for d in range(rank(f, "self"))]
    return _rearranged(f, [sizes[0], f.groups, -1, *sizes[2:]], [0, 2, 1, *range(3, len(sizes) + 1)], sizes)


declare_parts("channel_shuffle", _interleaved, _is_image("groups"))


# -- repeated


def _times(node: Node) -> int:
    """How many numbers say how often elements are repeated; 0 where that is not known."""
    listed = dict(arguments_of(node))["repeats"].node
    held = listed.attributes.get("value") if listed.kind == "prim::Constant" else list(listed.inputs)
    return len(held) if isinstance(held, list) and listed.kind in ("prim::Constant", "prim::ListConstruct") else 0


def _repeated(f: Formula) -> list[Sym]:
    repeats, node = f.repeats, f.arguments["repeats"].node
    count, dims = _times(f.node), rank(f, "self")
    times: list[object] = list(f.constant("repeats")) if node.kind == "prim::Constant" else [
        Sym(repeats.place, v) for v in node.inputs]  # fmt: skip
    own: list[object] = [1] * (count - dims) + [f.size_at(f.self, d) for d in range(dims)]
    apart = [each for size in own for each in (1, size)]
    wide = [each for pair in zip(times, own, strict=True) for each in pair]
    made = [_by(f, a, b) for a, b in zip(times, own, strict=True)]
    whole = f.self.reshape(_sizes(f, *apart)).expand(_sizes(f, *wide)).contiguous()
    return [whole.reshape(_sizes(f, *made))]


def _by(f: Formula, a: object, b: object) -> object:
    return a * b if isinstance(a, int) and isinstance(b, int) else call(f.before, "aten::mul", a, b)


declare_parts("repeat", _repeated, both(known("self"), lambda node: (
    _times(node) >= rank_of(node.inputs[0].type))))  # fmt: skip


def _each_repeated(f: Formula) -> list[Sym]:
    value, dims = f.self, rank(f, "self")
    if f.is_none("dim"):
        value, dims = value.reshape([-1]), 1
    dim = 0 if f.is_none("dim") else f.constant("dim") % dims
    sizes: list[object] = [-1 if f.is_none("dim") else f.size_at(f.self, d) for d in range(dims)]
    wide = [*(-1 for _ in range(dim + 1)), f.repeats, *(-1 for _ in range(dim + 1, dims))]
    whole = value.unsqueeze(dim + 1).expand(_sizes(f, *wide)).contiguous()
    made = [*sizes[:dim], -1 if f.is_none("dim") else _by(f, sizes[dim], f.repeats), *sizes[dim + 1 :]]
    return [whole.reshape(_sizes(f, *made))]


def _is_by_number(node: Node) -> bool:
    found = dict(arguments_of(node))
    if "self" not in found or found["repeats"].type is not T.INT:
        return False
    is_known = found["dim"].type is T.NONE or isinstance(number(node, "dim"), int)
    return rank_of(found["self"].type) > 0 and found["output_size"].type is T.NONE and is_known


declare_parts("repeat_interleave", _each_repeated, _is_by_number)


# -- products and distances


def _equation(node: Node) -> tuple[list[str], str] | None:
    """The letters of two operands and of the result, where each operand has each letter once."""
    text = number(node, "equation")
    if not isinstance(text, str) or text.count("->") != 1 or "." in text:
        return None
    left, _, right = text.replace(" ", "").partition("->")
    operands = left.split(",")
    distinct = all(len(set(letters)) == len(letters) for letters in (*operands, right))
    return (operands, right) if len(operands) == 2 and distinct and set(right) <= set("".join(operands)) else None


def _is_product(node: Node) -> bool:
    found = _equation(node)
    listed = dict(arguments_of(node))["tensors"].node
    if found is None or listed.kind != "prim::ListConstruct" or len(listed.inputs) != 2:
        return False
    types = [v.type for v in listed.inputs]
    if [rank_of(t) for t in types] != [len(letters) for letters in found[0]]:
        return False
    dtypes = {t.dtype for t in types if isinstance(t, T.TensorType)}
    (a, b), made = found
    alone, both_have = set(a) ^ set(b), set(a) & set(b)
    return len(dtypes) == 1 and None not in dtypes and alone <= set(made) and not both_have <= set(made)


def _contracted(f: Formula) -> list[Sym]:
    """As one product of matrices in batches: letters of both that stay, those of either, those that are summed up."""
    equation = _equation(f.node)
    assert equation is not None
    (a, b), made = equation
    x, y = f.elements("tensors")
    batch, inner, rows, columns = _grouped(a, b, made)
    left = _as_matrices(f, x, a, [batch, rows, inner])
    right = _as_matrices(f, y, b, [batch, inner, columns])
    sizes = {letter: f.size_at(x, a.index(letter)) for letter in [*batch, *rows]}
    sizes |= {letter: f.size_at(y, b.index(letter)) for letter in columns}
    order = [*batch, *rows, *columns]
    found = left.bmm(right).reshape(_sizes(f, *(sizes[letter] for letter in order)))
    turned = [order.index(letter) for letter in made]
    return [found if turned == sorted(turned) else found.permute(turned).clone()]


def _grouped(a: str, b: str, made: str) -> tuple[list[str], list[str], list[str], list[str]]:
    """The letters of both factors that stay, those that are summed up, those of the first alone, and of the second."""
    batch = [letter for letter in made if letter in a and letter in b]
    inner = [letter for letter in a if letter in b and letter not in made]
    rows, columns = ([letter for letter in made if letter not in other] for other in (b, a))
    return batch, inner, rows, columns


def _as_matrices(f: Formula, value: Sym, letters: str, groups: Sequence[Sequence[str]]) -> Sym:
    """The tensor with one dimension for each group of letters."""
    order = [letters.index(letter) for group in groups for letter in group]
    turned = value if order == sorted(order) else value.permute(order)
    sizes: list[object] = []
    for group in groups:
        size: object = 1
        for letter in group:
            size = _by(f, size, f.size_at(value, letters.index(letter)))
        sizes.append(size)
    return turned.contiguous().reshape(_sizes(f, *sizes))


def _apart(f: Formula) -> list[Sym]:
    return [(f.x1.unsqueeze(-2) - f.x2.unsqueeze(-3)).norm(f.p, [-1])]


def _is_of_rows(node: Node) -> bool:
    found = dict(arguments_of(node))
    return number(node, "p") in (1.0, 2.0) and min(rank_of(found[name].type) for name in ("x1", "x2")) >= 2


declare_parts("einsum", _contracted, _is_product)
declare_parts("cdist", _apart, both(known("x1", "x2"), _is_of_rows))
