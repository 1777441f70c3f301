"""How an operation is spelled by somebody who writes Python for torch.

`jitlite.operators.python_forms` knows which template an operation has and which function it calls; here the function
gets a name. The rules, first to last:

1. operators with a text of their own: `_BY_NAME`
2. functions of `torch`, `torch.nn.functional` and the like: the name that reaches just this function
3. functions of Python: `len`, `math.sqrt`, methods of str, list and dict
4. operators of torch without such a name: `torch.ops.aten.NAME.OVERLOAD`
5. functions that jitlite declares operators with: their text is copied into the source
"""

from __future__ import annotations

import builtins
import keyword
import operator
import types
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from jitlite.export.to_python import python_helpers
from jitlite.export.to_python.embedded_functions import embedded, refusal
from jitlite.export.to_python.python_file import PythonFile
from jitlite.frontend.tracing.traced_functions import own_function
from jitlite.ir import types as T
from jitlite.ir.code_text import (
    Text,
    code,
    dotted,
    fixed,
    holes,
    identifier,
    infix_sign,
    joined,
    literal,
    replaced,
)
from jitlite.ir.code_text import hole as numbered_hole
from jitlite.ir.formatting import format_by_position, format_with_percent, is_plain_format, is_plain_percent
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.int_codes import int_coded, is_int_coded
from jitlite.ir.ops import Op
from jitlite.ir.schema import Argument
from jitlite.operators.python_forms import CannotTranslate, Form, form_of

_REAL = (T.INT, T.FLOAT, T.BOOL)


def spelled(file: PythonFile, node: Node) -> Form:
    """How to write an operation, with all names in the template.

    Raises:
        NotSupportedError: Python has no way to say it.
    """
    own = _BY_NAME.get(node.kind)
    found = own(file, node) if own is not None else None
    op = node.op
    if found is None and op is not None and op.overload is None and op.fn is not None and not op.attributes:
        found = _of_python(file, op, node)
    return found if found is not None else _as_it_runs(file, node)


def _as_it_runs(file: PythonFile, node: Node) -> Form:
    """An operation in the form that generated code has, with public names."""
    try:
        form = form_of(node)
    except CannotTranslate as error:
        raise refusal(node, str(error)) from None
    if form.function is None:
        return form
    name, op = _name_of(file, form.function), node.op
    if name is not None:
        return _filled(form, name)
    if op is not None and op.overload is not None:
        return _overload(file, op, node)
    if op is not None and op.fn is not None and not op.attributes:
        return _filled(form, embedded(file, op.fn, node))
    raise refusal(node, "it is made by a pass, for jitlite's own interpreter")


def _filled(form: Form, name: Text) -> Form:
    return Form(
        replaced(form.template, "{f}", name), None, form.in_order, form.is_atom, form.is_statement, form.gives_sequence,
        form.constants,
    )  # fmt: skip


def call(name: Text, count: int, first: int = 0) -> Form:
    """A call with so many operands."""
    return Form(code("{}({})", name, holes(range(first, count))))


# -- names of functions


@cache
def _public_names() -> dict[int, Text]:
    """The names of functions of torch by their identity, the best one of each."""
    found: dict[int, Text] = {}
    places = {"torch": torch, "F": torch.nn.functional, "torch.linalg": torch.linalg, "torch.fft": torch.fft,
              "torch.special": torch.special, "torch.sparse": torch.sparse}  # fmt: skip
    for place, module in places.items():
        for name, each in vars(module).items():
            value = own_function(each)
            if isinstance(value, types.BuiltinFunctionType | types.FunctionType) and not name.startswith("__"):
                found.setdefault(id(value), dotted(f"{place}.{name}"))
    return found


def _name_of(file: PythonFile, function: object) -> Text | None:
    name = _public_names().get(id(function))
    if name is not None:
        first, _, rest = name.partition(".")
        return code("{}.{}", file.imported(first), dotted(rest))
    plain = str(getattr(function, "__name__", ""))
    if getattr(builtins, plain, None) is function:
        return file.builtin(plain)
    module = getattr(function, "__module__", None)
    if module in ("math", "cmath", "time") and isinstance(function, types.BuiltinFunctionType):
        return code("{}.{}", file.imported(module), identifier(function.__name__))
    return None


# -- Python's own functions and methods


def _of_python(file: PythonFile, op: Op, node: Node) -> Form | None:
    function: object = op.fn
    if isinstance(function, types.MethodDescriptorType):
        return _method(function.__name__, _arguments(op, node))
    if isinstance(function, operator.attrgetter):
        reduced: Any = function.__reduce__()
        return Form(code("{{0}}.{}", dotted(reduced[1][0])))
    enclosed = {name: cell.cell_contents for name, cell in _cells(function)}
    if function.__class__ is not types.FunctionType or not enclosed:
        return None
    if "name" in enclosed and isinstance(enclosed["name"], str):  # a method of the object
        return _method(enclosed["name"], len(node.inputs))
    method = enclosed.get("method")
    if isinstance(method, types.MethodDescriptorType):
        return _searching(file, method.__name__, node)
    if {"real", "complex_"} <= set(enclosed):
        return _number_function(file, enclosed["real"].__name__, node)
    return None


def _cells(function: object) -> Any:
    compiled = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    return zip(compiled.co_freevars, cells, strict=True) if compiled is not None else ()


def _arguments(op: Op, node: Node) -> int:
    """How many arguments have to be written: those behind that have their defaults are left out."""
    count = len(node.inputs)
    while count > 1 and _is_default(op.schema.arguments[count - 1], node.inputs[count - 1]):
        count -= 1
    return count


def _is_default(argument: Argument, value: Value) -> bool:
    if not argument.has_default or not is_constant(value):
        return False
    found = constant_of(value)
    return type(found) is type(argument.default) and bool(found == argument.default)


def _method(name: str, count: int) -> Form:
    return Form(code("{{0}}.{}({})", identifier(name), holes(range(1, count))))


def _searching(file: PythonFile, name: str, node: Node) -> Form:
    """`find` and the like, whose end is -1 for the end of the text, and `strip`, whose default is Python's."""
    if name.endswith("strip"):
        if constant_of(node.inputs[1], None) == " \n\t\f\v":
            return _method(name, 1)
        if is_constant(node.inputs[1]):
            return _method(name, 2)
        return Form(
            code("{{0}}.{}({}({{1}}))", identifier(name), embedded(file, python_helpers.stripped_characters, node))
        )
    if constant_of(node.inputs[3], None) == -1:
        return _method(name, 2 if constant_of(node.inputs[2], None) == 0 else 3)
    if is_constant(node.inputs[3]):
        return _method(name, 4)
    return Form(
        code("{{0}}.{}({{1}}, {{2}}, {}({{3}}))", identifier(name), embedded(file, python_helpers.search_end, node))
    )


def _number_function(file: PythonFile, name: str, node: Node) -> Form:
    if all(v.type in _REAL for v in node.inputs):
        return call(code("{}.{}", file.imported("math"), identifier(name)), len(node.inputs))
    if any(v.type is T.COMPLEX for v in node.inputs):
        return call(code("{}.{}", file.imported("cmath"), identifier(name)), len(node.inputs))
    operands = holes(range(len(node.inputs)))
    return Form(code("{}({}, {})", embedded(file, python_helpers.of_number, node), literal(name), operands))


# -- operators that have no public name

_CODED: dict[T.Type, Callable[[object], object]] = {
    T.SCALAR_TYPE: python_helpers.as_dtype, T.LAYOUT: python_helpers.as_layout,
    T.MEMORY_FORMAT: python_helpers.as_memory_format,
}  # fmt: skip


def coded_operand(file: PythonFile, type: T.Type, value: Value, hole: Text, node: Node) -> tuple[Text, object] | Text:
    """How to write what may be a number and stands for a dtype or the like: a text, or a constant for the hole."""
    if is_constant(value):
        return hole, int_coded(type, constant_of(value))
    if value.node.kind in ("prim::dtype", "prim::layout") or value.type is T.NONE:
        return hole
    plain = type.element if isinstance(type, T.OptionalType) else type
    return code("{}({})", embedded(file, _CODED[plain], node), hole)


def _member(owner: Text, name: str) -> Text:
    if keyword.iskeyword(name):
        return code("getattr({}, {})", owner, literal(name))
    return code("{}.{}", owner, identifier(name))


def _overload(file: PythonFile, op: Op, node: Node) -> Form:
    schema = op.schema
    namespace, _, base = schema.name.partition("::")
    name = _member(
        _member(_member(code("{}.ops", file.imported("torch")), namespace), base), schema.overload or "default"
    )
    constants: list[tuple[int, object]] = []
    written: list[Text] = []
    by_name = False
    for position, value in enumerate(node.inputs):
        argument = schema.arguments[position] if position < len(schema.arguments) else None
        hole = numbered_hole(position)
        if argument is not None and _is_default(argument, value):
            by_name = True
            continue
        if argument is not None and is_int_coded(argument.declared_type):
            found = coded_operand(file, argument.declared_type, value, hole, node)
            if isinstance(found, tuple):
                hole = found[0]
                constants.append((position, found[1]))
            else:
                hole = found
        named = argument is not None and (argument.kwarg_only or by_name)
        written.append(code("{}={}", identifier(argument.name), hole) if named and argument is not None else hole)
    template = code("{}({})", name, joined(", ", written))
    returned = schema.returns[0].declared_type if len(schema.returns) == 1 else T.NONE
    if is_int_coded(returned):
        template = code("{}({})", embedded(file, _CODED[returned], node), template)
    return Form(template, constants=tuple(constants))


# -- functions whose text is copied


# -- operators with a text of their own


def _text(template: Text, *, is_atom: bool = True, in_order: bool = True) -> Callable[[PythonFile, Node], Form]:
    return lambda file, node: Form(template, is_atom=is_atom, in_order=in_order)


def _with_dtype(template: Text, position: int) -> Callable[[PythonFile, Node], Form | None]:
    """A template in which one operand is a dtype."""

    def make(file: PythonFile, node: Node) -> Form:
        hole = numbered_hole(position)
        found = coded_operand(file, T.SCALAR_TYPE, node.inputs[position], hole, node)
        constants = ((position, found[1]),) if isinstance(found, tuple) else ()
        written = found[0] if isinstance(found, tuple) else found
        return Form(
            replaced(replaced(template, hole, written), "torch.", code("{}.", file.imported("torch"))),
            constants=constants,
        )

    return make


def _tensor(function: str) -> Callable[[PythonFile, Node], Form | None]:
    """`torch.tensor(data, dtype=.., device=.., requires_grad=..)`, without what is not given."""

    def make(file: PythonFile, node: Node) -> Form | None:
        if node.op is None or node.op.overload is not None:
            return None
        written, constants = [numbered_hole(0)], []
        for position, argument in list(enumerate(node.op.schema.arguments))[1 : len(node.inputs)]:
            value, hole = node.inputs[position], numbered_hole(position)
            if _is_default(argument, value):
                continue
            if argument.name == "dtype":
                found = coded_operand(file, T.SCALAR_TYPE, value, hole, node)
                hole = found[0] if isinstance(found, tuple) else found
                constants += [(position, found[1])] if isinstance(found, tuple) else []
            written.append(code("{}={}", identifier(argument.name), hole))
        name = code("{}.{}", file.imported("torch"), identifier(function))
        return Form(code("{}({})", name, joined(", ", written)), constants=tuple(constants))

    return make


def _formatted(file: PythonFile, node: Node) -> Form:
    """`"...".format(...)` where the text is known and is one that programs may use; else as the operator is."""
    text = constant_of(node.inputs[0], None)
    if isinstance(text, str) and is_plain_format(text):
        return _method("format", len(node.inputs))
    return call(embedded(file, format_by_position, node), len(node.inputs))


def _percent(file: PythonFile, node: Node) -> Form:
    text = constant_of(node.inputs[0], None)
    if not isinstance(text, str) or not is_plain_percent(text):
        return call(embedded(file, format_with_percent, node), len(node.inputs))
    if len(node.inputs) == 2:
        return Form(fixed("{0} % {1}"), is_atom=False)
    return Form(code("{{0}} % ({},)", holes(range(1, len(node.inputs)))), is_atom=False)


def _sort(file: PythonFile, node: Node) -> Form | None:
    if node.op is None or node.op.overload is not None:
        return None
    if constant_of(node.inputs[1], None) is False:
        return Form(fixed("{0}.sort()"))
    return Form(fixed("{0}.sort(reverse={1})"))


def _sorted(file: PythonFile, node: Node) -> Form:
    return call(file.builtin("sorted"), 1)


def _square_root(file: PythonFile, node: Node) -> Form | None:
    if node.op is None or node.op.overload is not None or not all(v.type in _REAL for v in node.inputs):
        return None
    return call(code("{}.{}", file.imported("math"), identifier(node.kind.partition("::")[2])), len(node.inputs))


def _torch(name: str) -> Callable[[PythonFile, Node], Form | None]:
    def make(file: PythonFile, node: Node) -> Form | None:
        if node.op is None or node.op.overload is not None:
            return None
        return call(code("{}.{}", file.imported("torch"), identifier(name)), len(node.inputs))

    return make


def _identity(sign: str) -> Callable[[PythonFile, Node], Form]:
    """`x is True`; Python warns of `x is 1`, which it decides for itself."""

    def make(file: PythonFile, node: Node) -> Form:
        literals = [constant_of(v) for v in node.inputs if is_constant(v)]
        if all(v is None or isinstance(v, bool) for v in literals):
            return Form(code("{{0}} {} {{1}}", infix_sign(sign)), is_atom=False)
        name = fixed("is_" if sign == "is" else "is_not")
        return call(code("{}.{}", file.imported("operator"), name), 2)

    return make


def _slice(file: PythonFile, node: Node) -> Form | None:
    """`x[1:]` of a list or text; that of a tensor is said otherwise."""
    if node.op is None or node.op.overload is not None:
        return None
    start, end = (fixed("") if constant_of(node.inputs[i], 0) is None else numbered_hole(i) for i in (1, 2))
    step = fixed("") if constant_of(node.inputs[3], None) == 1 else fixed(":{3}")
    return Form(code("{{0}}[{}:{}{}]", start, end, step))


def _to(file: PythonFile, node: Node) -> Form | None:
    """`x.to(device, dtype)` with what is known not to be None."""
    if node.op is None or node.op.overload is not None or node.op.schema.overload == "prim_other":
        return None
    written: list[Text] = []
    constants: list[tuple[int, object]] = []
    for position, argument in list(enumerate(node.op.schema.arguments))[1 : len(node.inputs)]:
        value, hole = node.inputs[position], numbered_hole(position)
        if is_constant(value) and constant_of(value) in (None, False):
            continue
        if isinstance(value.type, T.OptionalType):
            return None
        if argument.name == "dtype":
            found = coded_operand(file, T.SCALAR_TYPE, value, hole, node)
            hole = found[0] if isinstance(found, tuple) else found
            constants += [(position, found[1])] if isinstance(found, tuple) else []
        written.append(
            hole if argument.name == "device" or not written else code("{}={}", identifier(argument.name), hole)
        )
    return Form(code("{{0}}.to({})", joined(", ", written)), constants=tuple(constants)) if written else None


_ELEMENT_KINDS = ("int", "float", "bool", "complex")


def _tolist(file: PythonFile, node: Node) -> Form:
    dim, kind = (constant_of(v, None) for v in node.inputs[1:3])
    if not isinstance(dim, int) or not isinstance(kind, int):
        raise refusal(node, "the type of the list is not known")
    if not 0 <= kind < len(_ELEMENT_KINDS):
        raise refusal(node, "the type of the list is not known")
    name = literal(_ELEMENT_KINDS[kind])
    return Form(code("{}({{0}}, {}, {})", embedded(file, python_helpers.tolist, node), dim, name))


def _warning(file: PythonFile, node: Node) -> Form:
    return Form(code("{}.warn({{0}})", file.imported("warnings")))


def _warning_of(file: PythonFile, node: Node) -> Form:
    cls = constant_of(node.inputs[1], None)
    if not isinstance(cls, str):
        raise refusal(node, "the category of the warning is not known")
    return Form(code("{}.warn({{0}}, {})", file.imported("warnings"), file.exception(cls)))


_BY_NAME: dict[str, Callable[[PythonFile, Node], Form | None]] = {
    "aten::__range_length": _text(fixed("len(range({0}, {1}, {2}))")),
    "aten::is_scripting": _text(fixed("True")),
    "aten::_get_tracing_state": _text(fixed("False")),
    "aten::has_torch_function": _text(fixed("False")),
    "aten::format": _formatted,
    "aten::percentFormat": _percent,
    "aten::str": lambda file, node: call(file.builtin("str"), 1),
    "aten::warn": _warning,
    "prim::WarnOf": _warning_of,
    "aten::sort": _sort,
    "aten::sorted": lambda file, node: None if node.op is None or node.op.overload else _sorted(file, node),
    "aten::tensor": _tensor("tensor"),
    "aten::as_tensor": _tensor("as_tensor"),
    "aten::size": lambda file, node: call_list(file, node, fixed("{0}.shape")) if len(node.inputs) == 1 else None,
    "aten::stride": lambda file, node: call_list(file, node, fixed("{0}.stride()")) if len(node.inputs) == 1 else None,
    "aten::is_grad_enabled": _torch("is_grad_enabled"),
    "aten::set_grad_enabled": _torch("set_grad_enabled"),
    "aten::manual_seed": lambda file, node: _torch("manual_seed")(file, node) if len(node.inputs) == 1 else None,
    "aten::slice": _slice,
    "aten::dict": lambda file, node: call(file.builtin("dict"), len(node.inputs)),
    "aten::divmod": lambda file, node: call(file.builtin("divmod"), 2),
    "aten::numpy_T": _text(fixed("{0}.T")),
    "aten::mT": _text(fixed("{0}.mT")),
    "aten::mH": _text(fixed("{0}.mH")),
    "aten::matrix_H": _text(fixed("{0}.H")),
    "prim::rangelist": lambda file, node: Form(code("{}({}({{0}}))", file.builtin('list'), file.builtin('range'))),
    "aten::cpu": _text(fixed("{0}.cpu()")),
    "aten::cuda": _text(fixed("{0}.cuda()")),
    "aten::device": lambda file, node: call(code("{}.device", file.imported('torch')), len(node.inputs)),
    "aten::to": _to,
    "aten::__is__": _identity("is"),
    "aten::__isnot__": _identity("is not"),
    "prim::tolist": _tolist,
    "prim::StringIndex": _text(fixed("{0}[{1}]")),
    "prim::ModuleContainerIndex": _text(fixed("{0}[{1}]")),
    "prim::AddStatValue": lambda file, node: call(embedded(file, python_helpers.statement, node), 2),
}  # fmt: skip


def call_list(file: PythonFile, node: Node, template: Text) -> Form:
    """A list of some sequence."""
    return Form(code("{}({})", file.builtin("list"), template))
