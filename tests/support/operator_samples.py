"""Sample arguments for operators on Python values, by the types in their schemas, and a form of results to compare."""

import copy
import itertools

import torch

from jitlite.ir import types as T

INF, NAN = float("inf"), float("nan")
T0, T1 = torch.tensor(1.0), torch.tensor(2.0)

INTS = [0, 1, -1, 2, -3, 5, 63]
BIG = [10**20, -(2**63), 2**64]
FLOATS = [0.0, -0.0, 1.0, -1.5, 2.5, 0.3, 1e308, INF, -INF, NAN]
COMPLEXES = [0j, 1 + 2j, -1j, complex(-0.0, 0.0), 1e308 + 0j, complex(NAN, INF), -2 + 0j]
STRINGS = ["", "a", "aXb c", "Straße ǆ", " \n x\t\u2003", "x,y,,z", "12", "-3.5", "1e3", "²", "aaa"]

BY_TYPE = {
    T.INT: INTS,
    T.FLOAT: FLOATS,
    T.COMPLEX: COMPLEXES,
    T.BOOL: [True, False],
    T.STRING: STRINGS,
    T.NUMBER: [0, 3, -2, 0.0, 2.5, -1.5, INF, NAN, 1 + 2j, 10**400],
    T.TENSOR: [T0, T1],
    T.VarType.of("t"): [1, "x"],
    T.VarType.of("tVal"): [1, 2, [3], "x"],
    T.VarType.of("tKey"): [(1, "a"), (2, "b"), (1, "b")],
}


def values_of(t):
    """Some values of a type."""
    if t in BY_TYPE:
        return BY_TYPE[t]
    if isinstance(t, T.OptionalType):
        return [None, *values_of(t.element)]
    if isinstance(t, T.TupleType):
        return list(zip(*(values_of(e) for e in t.elements)))
    if isinstance(t, T.ListType):
        if isinstance(t.element, T.VarType) or t.element is T.ANY:
            return [[], [1, 2, 3], ["b", "a", "a"], [[1], [0, 2]]]
        some = values_of(t.element)
        return [[], some[:1], some[:3], some[::-1], [some[0], some[0]]]
    if isinstance(t, T.DictType):
        keys = values_of(t.key)
        return [{}, {keys[0]: 5}, {k: [k] for k in keys[:3]}, dict(zip(reversed(keys), "abc"))]
    if isinstance(t, T.SetType):
        return [frozenset(v) if t.frozen else set(v) for v in ((), (1,), (3, 1, 2), ("b", "a"), (2, 5))]
    raise AssertionError(f"no samples of {t}")


def argument_samples(schema, most=1500):
    """Tuples of arguments: all combinations, thinned out evenly where there are too many."""
    choices = [values_of(a.type) for a in schema.arguments]
    if schema.name == "aten::pow":  # which has no limit either
        choices = [[v for v in c if type(v) is not int or v < 100] for c in choices]
    total = 1
    for c in choices:
        total *= len(c)
    step = max(1, total // most) | 1  # odd, so that no choice is skipped always
    return list(itertools.islice(itertools.product(*choices), 0, None, step))


def fresh(arguments):
    """A copy of the arguments that shares nothing that can be written, but keeps tensors that are keys the same."""
    memo = {id(t): t for t in (T0, T1)}
    return copy.deepcopy(arguments, memo)


def plain(value):
    """A form of a value in which equality is equality of everything one can see, NaN and signs of zero included."""
    if isinstance(value, torch.Tensor):
        return ("tensor", value.dtype, tuple(value.shape), value.layout, value.requires_grad, str(plain(_list(value))))
    if isinstance(value, dict):
        return ("dict", [(plain(k), plain(v)) for k, v in value.items()])
    if isinstance(value, list | tuple):
        return (type(value).__name__, [plain(v) for v in value])
    if isinstance(value, set | frozenset):  # copies of one set of strings may be iterated in different orders
        return (type(value).__name__, sorted(map(repr, map(plain, value))))
    if isinstance(value, BaseException):
        return (type(value).__name__, str(value))
    return (type(value).__name__, repr(value))


def _list(tensor):
    if tensor.is_meta:
        return "meta"
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    return (tensor.to_dense() if tensor.layout is not torch.strided else tensor).tolist()


def outcome(fn, arguments):
    """What a call gives or raises, and what it leaves of its arguments."""
    arguments = fresh(arguments)
    try:
        result = fn(*arguments)
    except Exception as error:
        result = error
    return plain(result), plain(arguments)
