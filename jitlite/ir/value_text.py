"""The text of constants and attribute values, and its reader.

`value_text` writes what TorchScript writes: `2.`, `[1, 2]`, `annotate(List[int], [])`, `torch.device("cpu")`,
`__torch__.Color.RED`. Where that would lose something, the text stays in TorchScript's form but says more: numbers
in tensors are exact, and non-ASCII letters stand for themselves. Tensors of over ten elements, and those whose
device or layout the text cannot say, are `<Tensor>` and cannot be read back.

A text alone does not always tell the type (`10000000000` may be a float), so both directions are given the type.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from jitlite.ir import types as T
from jitlite.ir.code_text import ESCAPES, quoted
from jitlite.ir.constants import qualified_name
from jitlite.ir.int_codes import INT_CODES, INT_OBJECTS
from jitlite.ir.type_parser import MOST_NESTED, TypeParser
from jitlite.ir.types import Type

LONGEST_TENSOR = 10
"""Elements of the largest tensor that is written out."""

_UNESCAPES = {text[1]: char for char, text in ESCAPES.items()}
_ESCAPED = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


# -- strings and numbers
def quote(text: str) -> str:
    """A string in double quotes. Letters stay as they are, also non-ASCII ones; control characters are escaped."""
    return quoted(text)


def unquote(token: str) -> str:
    """The string that a quoted token stands for. A backslash before anything else than an escape is kept."""

    def char(found: re.Match[str]) -> str:
        octal, byte, short, long, letter = found.groups()
        if octal:
            return chr(int(octal, 8))
        if letter is None:
            return chr(int(byte or short or long, 16))
        return _UNESCAPES.get(letter, found.group())

    return _ESCAPED.sub(char, token[1:-1])


def float_text(value: float) -> str:
    """`2.`, `0.5`, `1e-08`: 17 significant digits. Whole numbers of 1e10 to 1e16 have no dot, as in TorchScript."""
    if math.isnan(value):
        return "nan"
    if abs(value) < 1e10 and value == int(value):
        return f"{'-' if math.copysign(1, value) < 0 else ''}{abs(int(value))}."
    return f"{value:.17g}"


def complex_text(value: complex) -> str:
    imaginary = float_text(value.imag)
    return f"{float_text(value.real)}{'' if imaginary.startswith('-') else '+'}{imaginary}j"


# -- values
def value_text(value: object, type: Type | None = None, *, nested: bool = False) -> str:
    """The text of a constant or an attribute.

    Args:
        value: any constant, type, graph, or list of these. What has no text is shown as `<ClassName>`.
        type: its type, if known; decides about `annotate(...)` and how tensors are written.
        nested: the value is inside another one, where bools and devices are spelled differently.
    """
    type = None if type is None else T.without_none(type)
    if isinstance(value, enum.Enum):
        return f"{qualified_name(value.__class__)}.{value.name}"
    for cls, write in _WRITERS:
        if isinstance(value, cls):
            return write(value, type, nested)
    code = INT_CODES[value] if isinstance(value, INT_OBJECTS) else None
    return f"<{value.__class__.__name__}>" if code is None else str(code)


def _bool(value: bool, type: Type | None, nested: bool) -> str:
    return str(value) if nested else str(int(value))


def _device(value: torch.device, type: Type | None, nested: bool) -> str:
    return f"torch.device({quote(str(value))})" if nested else quote(str(value))


def _generator(value: torch.Generator, type: Type | None, nested: bool) -> str:
    return f"torch.Generator(device={quote(str(value.device))}, seed={value.initial_seed()})"


def _list(value: list[Any], type: Type | None, nested: bool) -> str:
    element = type.element if isinstance(type, T.ListType) else None
    text = f"[{', '.join(value_text(v, element, nested=True) for v in value)}]"
    if isinstance(type, T.ListType) and (not value or _is_open(type.element)):
        return f"annotate({type.annotation}, {text})"
    return text


def _dict(value: dict[Any, Any], type: Type | None, nested: bool) -> str:
    key, element = (type.key, type.value) if isinstance(type, T.DictType) else (None, None)
    pairs = (f"{value_text(k, key, nested=True)}: {value_text(v, element, nested=True)}" for k, v in value.items())
    text = f"{{{', '.join(pairs)}}}"
    if isinstance(type, T.DictType) and (not value or _is_open(type.value)):
        return f"annotate({type.annotation},{text})"
    return text


def _set(value: set[object] | frozenset[object], type: Type | None, nested: bool) -> str:
    """A set has the braces of a dict. The type tells the two apart, and which set is frozen."""
    element = type.element if isinstance(type, T.SetType) else None
    text = f"{{{', '.join(value_text(v, element, nested=True) for v in value)}}}"
    return f"annotate({type.annotation}, {text})" if nested and isinstance(type, T.SetType) else text


def _tuple(value: tuple[object, ...], type: Type | None, nested: bool) -> str:
    known = isinstance(type, T.TupleType) and len(type.elements) == len(value)
    types: Sequence[Type | None] = type.elements if known and isinstance(type, T.TupleType) else [None] * len(value)
    items = [value_text(v, t, nested=True) for v, t in zip(value, types, strict=True)]
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _is_open(element: Type) -> bool:
    """Does the text of elements not tell their common type?"""
    return element in (T.ANY, T.NUMBER) or isinstance(element, T.UnionType | T.InterfaceType)


def _known_strides(type: Type | None) -> list[int] | None:
    """The strides that a type says, None where it does not say all."""
    given = type.strides if isinstance(type, T.TensorType) else None
    known = [s for s in given or () if s is not None]
    return None if given is None or len(known) < len(given) else known


def _tensor(value: torch.Tensor, type: Type | None, nested: bool) -> str:
    if not _has_text(value):
        return "<Tensor>"
    described = isinstance(type, T.TensorType) and _is_described(value, type)
    if described and value.numel() == 1:
        return f"{{{_element_text(value.flatten()[0])}}}"
    if value.device.type != "cpu" or not (described or value.is_contiguous()):
        return "<Tensor>"
    return _elements_text(value)


def _elements_text(value: torch.Tensor) -> str:
    texts = [_element_text(v) for v in value.flatten()]
    width = max((len(t.removeprefix("-")) for t in texts), default=0) + 1
    items = "".join(f"{t:>{width}} " for t in texts)
    return f"{items}[ CPU{T.DTYPE_NAMES[value.dtype]}Type{{{','.join(map(str, value.shape))}}} ]"


def _has_text(value: torch.Tensor) -> bool:
    simple = value.layout is torch.strided and not value.is_quantized and value.device.type != "meta"
    if not simple or value.requires_grad or value.numel() > LONGEST_TENSOR or value.dtype not in T.DTYPE_NAMES:
        return False
    dense = torch.empty_like(value, memory_format=torch.preserve_format)
    return dense.stride() == value.stride()


def _is_described(value: torch.Tensor, type: T.TensorType) -> bool:
    if type.dtype != value.dtype or type.device != value.device:
        return False
    if not value.dim():  # in text, rank 0 and unknown rank look the same; for a constant, it is rank 0
        return not type.sizes
    return type.sizes == tuple(value.shape) and type.strides == value.stride()


def _element_text(element: torch.Tensor) -> str:
    number = element.item()
    if isinstance(number, complex):
        return complex_text(number)
    if not isinstance(number, float):
        return str(int(number))
    if math.isnan(number):
        return "nan"
    for digits in (6, 9, 17):
        text = f"{number:.{digits}g}"
        if torch.tensor(float(text), dtype=element.dtype).item() == number:
            break
    return text


_Writer = Callable[[Any, Type | None, bool], str]
_WRITERS: list[tuple[type, _Writer]] = [
    (bool, _bool),
    (int, lambda v, _t, _n: str(v)),
    (float, lambda v, _t, _n: float_text(v)),
    (complex, lambda v, _t, _n: complex_text(v)),
    (str, lambda v, _t, _n: quote(v)),
    (type(None), lambda _v, _t, _n: "None"),
    (torch.device, _device),
    (torch.Generator, _generator),
    (torch.Tensor, _tensor),
    (list, _list),
    (dict, _dict),
    (set, _set),
    (frozenset, _set),
    (tuple, _tuple),
    (Type, lambda v, _t, _n: str(v)),
]
"""How each kind of value is written; the first that fits (a bool is an int)."""


# -- reading
_NUMBER = r"(?:\d+\.?\d*(?:[eE][+-]?\d+)?|inf|nan)"
_COMPLEX_TOKEN = re.compile(rf"(-?{_NUMBER})([+-]{_NUMBER})j|(-?{_NUMBER})j")
_NUMBER_TOKEN = re.compile(rf"-?{_NUMBER}(?!\w)")
_TENSOR_PART = r"\([\d,.]+\) =|[\d.e+-]+ \*|[-+\w.]+"
_TENSOR_TOKEN = re.compile(rf"(?P<parts>(?:(?:{_TENSOR_PART})\s+)*)\[ CPU(?P<dtype>\w+)Type\{{(?P<shape>[\d,]*)\}} \]")
"""Numbers, and what torch puts before them: a common factor (`0.001 *`), and before that which matrix it is
(`(1,.,.) =`) where there are several."""
_ONE_ELEMENT_TOKEN = re.compile(r"\{\s*([-+\w.]+)\s*\}")
_WORDS = {"True": True, "False": False, "None": None}
_DTYPES = {name: dtype for dtype, name in T.DTYPE_NAMES.items()}


class ValueReader(TypeParser):
    """Reads values as well as types.

    Args:
        text: what to read.
        types: named types (classes, enums, interfaces) by qualified name, or by name for interfaces.
        placeholder_tensors: give zeros of the declared type for `<Tensor>` instead of an error.
    """

    def __init__(self, text: str, types: Mapping[str, Type] | None = None, placeholder_tensors: bool = False) -> None:
        self.known_types = types or {}
        self.placeholder_tensors = placeholder_tensors
        super().__init__(text, self.known_types.get, variables=False)

    def value(self, type: Type | None = None) -> object:
        """The next value, converted to `type` where its text leaves that open (`1` may be a bool)."""
        type = None if type is None else T.without_none(type)
        self._depth += 1
        if self._depth > MOST_NESTED:
            self.fail(f"more than {MOST_NESTED} values are within one another")
        found = self._tensor_value(type)
        result = self._other_value(type) if found is None else found
        self._depth -= 1
        return result

    def _other_value(self, type: Type | None) -> object:
        token = self.peek()
        if token[:1] in ('"', "'") and len(token) > 1:
            self.next()
            return torch.device(unquote(token)) if type is T.DEVICE else unquote(token)
        if token in _WORDS:
            self.next()
            return _WORDS[token]
        container = {"[": self._list_value, "(": self._tuple_value, "{": self._braced_value}.get(token)
        if container is not None:
            return container(type)
        number = self._number_value(type)
        return self._named_value(type) if number is None else number

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.position)
        if found:
            self.position = found.end()
            self._skip_blank()
        return found

    def _number_value(self, type: Type | None) -> object:
        found = self._match(_COMPLEX_TOKEN)
        if found:
            return _complex(found)
        found = self._match(_NUMBER_TOKEN)
        if found is None:
            return None
        text = found.group()
        if type is T.FLOAT or not text.removeprefix("-").isdigit():
            return float(text)
        return bool(int(text)) if type is T.BOOL else int(text)

    def _list_value(self, type: Type | None) -> list[object]:
        element = type.element if isinstance(type, T.ListType) else None
        items: list[object] = []
        self.expect("[")
        if self.peek() == "<":
            self.fail("the elements of this list of tensors are not in the text")
        self.list_of(lambda: items.append(self.value(element)), "]")
        return items

    def _braced_value(self, type: Type | None) -> object:
        if not isinstance(type, T.SetType):
            return self._dict_value(type)
        items: list[object] = []
        self.expect("{")
        self.list_of(lambda: items.append(self.value(type.element)), "}")
        return frozenset(items) if type.frozen else set(items)

    def _dict_value(self, type: Type | None) -> dict[object, object]:
        key, element = (type.key, type.value) if isinstance(type, T.DictType) else (None, None)
        items: dict[object, object] = {}

        def item() -> None:
            k = self.value(key)
            self.expect(":")
            items[k] = self.value(element)

        self.expect("{")
        self.list_of(item, "}")
        return items

    def _tuple_value(self, type: Type | None) -> tuple[object, ...]:
        elements = type.elements if isinstance(type, T.TupleType) else ()
        items: list[object] = []
        self.expect("(")
        while not self.accept(")"):
            items.append(self.value(elements[len(items)] if len(items) < len(elements) else None))
            if not self.accept(",") and self.peek() != ")":
                self.fail("expected , or )")
        made = type.python_class if isinstance(type, T.TupleType) else None
        return tuple(items) if made is None else made(*items)

    def _named_value(self, type: Type | None) -> object:
        """`annotate(...)`, `torch.device(...)`, an enum member, or a type."""
        if self._starts("annotate("):
            written = self.type()
            self.expect(",")
            value = self.value(written if type is None else type)
            self.expect(")")
            return value
        if self._starts("torch.device("):
            device = torch.device(unquote(self.next()))
            self.expect(")")
            return device
        if self._starts("torch.Generator("):
            return self._generator_value()
        if isinstance(type, T.EnumType):
            return self._enum_value(type)
        if type is None or type is T.ANY:
            if not (self.peek()[:1].isalpha() or self.peek()[:1] in ("_", "(")):
                self.fail("expected a value")
            return self.type()
        return self.fail(f"expected a value of type {type.annotation}")

    def _starts(self, text: str) -> bool:
        if not self.text.startswith(text, self.position):
            return False
        self.position += len(text)
        self._skip_blank()
        return True

    def _generator_value(self) -> torch.Generator:
        self._starts("device=")
        generator = torch.Generator(unquote(self.next()))
        self.expect(",")
        self._starts("seed=")
        generator.manual_seed(int(self.next()))
        self.expect(")")
        return generator

    def _enum_value(self, type: T.EnumType) -> object:
        if type.python_class is None:
            self.fail(f"the class of enum {type.qualified_name} is not known (give it in `types`)")
        if not self._starts(f"{type.qualified_name}.") or self.peek() not in type.python_class.__members__:
            self.fail(f"expected a member of {type.qualified_name}")
        return type.python_class[self.next()]

    # -- tensors
    def _tensor_value(self, type: Type | None) -> torch.Tensor | None:
        found = _TENSOR_TOKEN.match(self.text, self.position)
        if found:
            return self._written_tensor(found, type)
        if not isinstance(type, T.TensorType):
            return None
        if self.peek() == "<" and self._starts("<Tensor>"):
            if not self.placeholder_tensors:
                self.fail("the elements of this tensor are not in the text (placeholder_tensors=True gives zeros)")
            return self._empty(type).zero_()
        return self._tensor_of_one(type)

    def _tensor_of_one(self, type: T.TensorType) -> torch.Tensor:
        found = self._match(_ONE_ELEMENT_TOKEN)
        if not found:
            return self.fail("expected a tensor")
        if math.prod(s or 0 for s in type.sizes or ()) != 1:
            self.fail(f"a tensor of type {type} has more than the one element here")
        return self._empty(type).fill_(self._element(found.group(1)))

    def _written_tensor(self, found: re.Match[str], type: Type | None) -> torch.Tensor:
        dtype = _DTYPES.get(found["dtype"])
        if dtype is None:
            self.fail(f"no tensor has the type {found['dtype']}")
        numbers = self._numbers(re.findall(_TENSOR_PART, found["parts"]), dtype)
        shape = [int(size) for size in found["shape"].split(",") if size]
        if math.prod(shape) != len(numbers):
            self.fail(f"a tensor of shape {shape} has {math.prod(shape)} elements, here are {len(numbers)}")
        self.position = found.end()
        self._skip_blank()
        tensor = torch.tensor(numbers, dtype=dtype).reshape(shape)
        strides = _known_strides(type)
        if strides is None or tuple(strides) == tensor.stride():
            return tensor
        return torch.empty_strided(shape, strides, dtype=dtype).copy_(tensor)

    def _numbers(self, parts: list[str], dtype: torch.dtype) -> list[complex]:
        factor: float | None = None
        numbers = []
        for part in parts:
            if part.endswith("="):
                factor = None
            elif part.endswith("*"):
                factor = float(part.removesuffix(" *"))
            elif dtype.is_complex and not part.endswith("j"):
                self.fail("the imaginary parts of this tensor are not in the text, as torch leaves them out")
            else:
                number = self._element(part)
                numbers.append(number if factor is None else number * factor)
        return numbers

    def _empty(self, type: T.TensorType) -> torch.Tensor:
        sizes = [s for s in type.sizes or () if s is not None]
        if type.dtype is None or len(sizes) != len(type.sizes or ()):
            self.fail("the type says too little about this tensor: element type and sizes are needed")
        device = type.device or torch.device("cpu")
        strides = _known_strides(type)
        if strides is None:
            return torch.empty(sizes, dtype=type.dtype, device=device)
        return torch.empty_strided(sizes, strides, dtype=type.dtype, device=device)

    def _element(self, text: str) -> complex:
        found = _COMPLEX_TOKEN.fullmatch(text)
        if found:
            return _complex(found)
        try:
            return int(text) if text.removeprefix("-").isdigit() else float(text)
        except ValueError:
            return self.fail(f"{text!r} is no number")


def _complex(found: re.Match[str]) -> complex:
    real, imaginary, alone = found.groups()
    return complex(0.0, float(alone)) if real is None else complex(float(real), float(imaginary))
