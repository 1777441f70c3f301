"""What operators on Python values mean, written a second time as plain Python, by name or by name and overload."""

import cmath
import math


def by_kind(real, complex_):
    return lambda *a: (complex_ if any(type(x) is complex for x in a) else real)(*a)


def power(a, b):
    result = a**b
    if type(result) is complex and complex not in (type(a), type(b)):
        raise ValueError(f"{a} ** {b} is a complex number, and the result is typed float: write complex({a}) ** {b}")
    return result


def truncated(a, b):
    if b == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    sign = -1 if (a < 0) != (b < 0) else 1
    return sign * (abs(a) // abs(b))


def range_length(lo, hi, step):
    return len(range(lo, hi, step))


def stripping(name):
    def strip(s, chars):
        return getattr(s, name)() if chars == " \n\t\f\v" else getattr(s, name)(chars)

    return strip


def searching(name):
    def search(s, text, start, end):
        return getattr(s, name)(text, start) if end == -1 else getattr(s, name)(text, start, end)

    return search


def assign(container, key, value):
    container[key] = value
    return container if isinstance(container, list) else None


def delete(container, key):
    del container[key]


def append(self, el):
    self.append(el)
    return self


def grow(self, other):
    self += other
    return self


def repeat(self, n):
    self *= n
    return self


def max_list(a, b):
    return list(max(a, b))


def min_list(a, b):
    return list(min(a, b))


def call(name):
    return lambda self, *a: getattr(self, name)(*a)


MEANINGS = {
    # numbers
    "aten::neg": lambda a: -a,
    "prim::abs": lambda a: abs(a),
    "aten::round": lambda a: round(a),
    **{f"aten::{n}": getattr(math, n) for n in (
        "fabs", "ceil", "floor", "expm1", "log1p", "erf", "erfc", "gamma", "lgamma", "degrees", "radians", "factorial",
        "fmod", "atan2", "copysign", "gcd", "frexp", "modf", "ldexp")},
    **{f"aten::{n}": by_kind(getattr(math, n), getattr(cmath, n)) for n in (
        "sqrt", "exp", "log", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
        "acosh", "atanh", "isnan", "isinf", "isfinite")},
    "aten::angle": cmath.phase,
    "aten::mathremainder": math.remainder,
    "aten::mathpow": math.pow,
    "aten::polar": cmath.rect,
    "aten::add": lambda a, b: a + b,
    "aten::sub": lambda a, b: a - b,
    "aten::mul": lambda a, b: a * b,
    "aten::div": lambda a, b: a / b,
    "aten::floordiv": lambda a, b: a // b,
    "aten::remainder": lambda a, b: a % b,
    "aten::__round_to_zero_floordiv": truncated,
    "aten::pow": power,
    "aten::divmod": divmod,
    "aten::__lshift__": lambda a, b: a << b,
    "aten::__rshift__": lambda a, b: a >> b,
    "aten::__and__": lambda a, b: a & b,
    "aten::__or__": lambda a, b: a | b,
    "aten::__xor__": lambda a, b: a ^ b,
    "aten::__not__": lambda a: not a,
    "aten::eq": lambda a, b: a == b,
    "aten::ne": lambda a, b: a != b,
    "aten::lt": lambda a, b: a < b,
    "aten::le": lambda a, b: a <= b,
    "aten::gt": lambda a, b: a > b,
    "aten::ge": lambda a, b: a >= b,
    "prim::min": min,
    "prim::max": max,
    "aten::__range_length": range_length,
    "aten::__derive_index": lambda index, start, step: start + index * step,
    "aten::Bool": bool,
    "aten::Int": int,
    "aten::Float": float,
    "aten::Complex": complex,
    # strings
    **{f"aten::{n}": call(n) for n in (
        "capitalize", "lower", "swapcase", "title", "upper", "isalnum", "isalpha", "isdecimal", "isdigit",
        "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "partition",
        "rpartition", "rsplit", "splitlines", "replace", "join", "zfill", "expandtabs", "center", "ljust",
        "rjust")},
    **{f"aten::{n}": searching(n) for n in ("find", "rfind", "rindex", "startswith", "endswith")},
    "aten::count": searching("count"),
    "aten::split.str": call("split"),
    "aten::index.str": searching("index"),
    **{f"aten::{n}": stripping(n) for n in ("strip", "lstrip", "rstrip")},
    "aten::slice": lambda s, start, end, step: s[start:end:step],
    "prim::StringIndex": lambda s, i: s[i],
    "aten::bin": bin,
    "aten::oct": oct,
    "aten::hex": hex,
    "aten::chr": chr,
    "aten::ord": ord,
    "aten::str": lambda x: f"{x!s}",
    # lists and dicts
    "aten::__getitem__": lambda c, k: c[k],
    "aten::select.t": lambda c, k: c[k],
    "aten::__contains__": lambda c, x: x in c,
    # sets
    "set::new": set,
    "set::frozen": frozenset,
    "set::elements": list,
    **{f"set::{n}": call(n) for n in (
        "copy", "isdisjoint", "add", "discard", "remove", "pop", "clear", "union", "intersection", "difference",
        "symmetric_difference", "update", "intersection_update", "difference_update", "symmetric_difference_update")},
    "set::eq": lambda a, b: a == b,
    "set::ne": lambda a, b: a != b,
    "set::le": lambda a, b: a <= b,
    "set::lt": lambda a, b: a < b,
    "set::ge": lambda a, b: a >= b,
    "set::gt": lambda a, b: a > b,
    "aten::len": len,
    "aten::list": lambda x: [*x],
    "aten::copy": lambda x: [*x] if isinstance(x, list) else {**x},
    "aten::Size": lambda x: [*x],
    "aten::all": all,
    "aten::any": any,
    "aten::sum": sum,
    "aten::sorted": sorted,
    "prim::rangelist": lambda n: [*range(n)],
    "aten::_size_if_not_equal": lambda a, b: a if a != b else None,
    "aten::append": append,
    "aten::_set_item": assign,
    "aten::Delete": delete,
    "aten::add_": grow,
    "aten::mul_": repeat,
    **{f"aten::{n}": call(n) for n in (
        "extend", "insert", "pop", "clear", "reverse", "remove", "get", "popitem", "setdefault", "update")},
    **{f"aten::count.{t}": call("count") for t in ("int", "float", "bool", "str", "Tensor")},
    **{f"aten::index.list_{t}": call("index") for t in ("int", "float", "bool", "str", "Tensor")},
    **{f"prim::min.{t}_list": min_list for t in ("int", "float", "bool")},
    **{f"prim::max.{t}_list": max_list for t in ("int", "float", "bool")},
    "aten::sort": lambda self, reverse: self.sort(reverse=reverse),
    "aten::keys": lambda d: [*d.keys()],
    "aten::values": lambda d: [*d.values()],
    "aten::items": lambda d: [*d.items()],
    "aten::dict": lambda *x: dict(*x),
    "aten::hash": hash,
    # any value
    "prim::unchecked_cast": lambda x: x,
}  # fmt: skip
