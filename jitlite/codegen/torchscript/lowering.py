"""Graphs in terms of TorchScript alone, before they are written.

jitlite knows some operators that TorchScript has not. Those with an equal there are replaced by it; the others are
found, and refused, when they are written.
"""

from __future__ import annotations

from collections.abc import Callable

from jitlite.base.errors.ways_out import NOT_IN_ARCHIVE
from jitlite.codegen.torchscript.container_indices import lower_index
from jitlite.codegen.torchscript.formats_out import LOWERINGS as FORMATS
from jitlite.codegen.torchscript.item_lowering import lower_assignment, lower_item, lower_set_item
from jitlite.codegen.torchscript.shown_out import LOWERINGS as SHOWN
from jitlite.codegen.torchscript.shown_out import refuse_texts_of_objects, shows_as_text
from jitlite.codegen.torchscript.unknown_containers import drop_unused_sets, lower_lookup, refuse_unknown_containers
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Node, Value
from jitlite.ir.loop_forms import canonicalize_modified_loops

_Lower = Callable[[Node], bool]


def lowered(graph: Graph, *, is_ours: bool = False) -> Graph:
    """A copy of the graph without what TorchScript has another way to say.

    Args:
        is_ours: jitlite alone will read the text, so formats stay what they are.

    Raises:
        NotSupportedError: where it is Python that TorchScript has not.
    """
    refuse_texts_of_objects(graph)
    graph = graph.copy()
    canonicalize_modified_loops(graph)
    for node in graph.all_nodes():
        lower = _BY_KIND.get(node.kind, _bools_as_numbers)
        if is_ours and node.kind in FORMATS:
            continue
        with graph.inserting_before(node):
            graph.current_range = node.range
            if lower(node):
                node.destroy()
    for node in list(graph.all_nodes()):
        if node.kind in ("prim::MakeException", "prim::NewException") and not node.output.has_uses:
            node.destroy()
    drop_unused_sets(graph)
    _refuse_constructs(graph)
    refuse_unknown_containers(graph)
    return graph


def _refuse_constructs(graph: Graph) -> None:
    for node in graph.all_nodes():
        if node.kind in _CONSTRUCTS:
            what, hint = _CONSTRUCTS[node.kind]
            message = f"TorchScript has no {what}, so that it has no place in an archive"
            raise NOT_IN_ARCHIVE(message, node.range, hint=hint)


def _replace(node: Node, kind: str, inputs: list[Value]) -> bool:
    made = node.graph.insert(kind, inputs, [o.type for o in node.outputs], range=node.range)
    for old, new in zip(node.outputs, made.outputs, strict=True):
        new.copy_metadata(old)
        old.replace_all_uses_with(new)
    return True


def _drop(node: Node) -> bool:
    return True


def _raise(node: Node) -> bool:
    """`raise` of an exception that was just made. What it comes from is told by tracebacks only, which TorchScript
    has not."""
    made = node.inputs[0].node
    if made.kind == "prim::MakeException":
        return _replace(node, "prim::RaiseException", list(made.inputs))
    if made.kind == "prim::NewException":
        return _replace(node, "prim::RaiseException", [_message(made), made.inputs[0]])
    return False


def _message(made: Node) -> Value:
    """The text of an exception with other arguments than one text: as in torch.jit, what goes by keyword is no part of
    it."""
    graph = made.graph
    args = made.inputs[1 : len(made.inputs) - len(made.attributes.get("keywords", ()))]
    if not args:
        return graph.insert_constant("")
    if len(args) == 1:
        text = args[0]
    else:
        text = graph.insert("prim::TupleConstruct", args, [T.TupleType.of(a.type for a in args)]).output
    return text if text.type is T.STRING else graph.insert("aten::str", [text], [T.STRING]).output


def _get_cell(node: Node) -> bool:
    return _replace(node, "aten::__getitem__", [node.input, node.graph.insert_constant(0)])


def _set_cell(node: Node) -> bool:
    cell, value = node.inputs
    node.graph.insert("aten::_set_item", [cell, node.graph.insert_constant(0), value], [cell.type])
    return True


def _assert(node: Node) -> bool:
    graph, (condition, message) = node.graph, node.inputs
    if condition.type is not T.BOOL:
        condition = graph.insert("aten::Bool", [condition], [T.BOOL]).output
    branch = graph.insert("prim::If", [condition])
    branch.add_block()
    with graph.inserting_at_end(branch.add_block()):
        graph.insert("prim::RaiseException", [message, graph.insert_constant("builtins.AssertionError")])
    return True


def _number_of_bool(node: Node) -> bool:
    return node.input.type is T.BOOL and _replace(node, "aten::Int", [node.input])


def _listed(node: Node) -> bool:
    """`backward` and `grad` take lists; jitlite also takes the one tensor."""
    resolved = node.op
    if resolved is None or resolved.schema.overload not in ("Tensor", "outputs", "inputs"):
        return False
    inputs = list(node.inputs)
    for i, argument in enumerate(resolved.schema.arguments):
        t = argument.type
        if inputs[i].type is T.NONE or argument.name not in _LISTS or isinstance(inputs[i].type, T.ListType):
            continue
        element = T.OptionalType.of(T.TENSOR) if argument.name in _LISTS_OF_OPTIONAL else T.TENSOR
        if T.without_none(t) is T.TENSOR and T.may_be_none(inputs[i].type):
            return False  # None means something else than a list with None in it
        inputs[i] = node.graph.insert("prim::ListConstruct", [inputs[i]], [T.ListType.of(element)]).output
    return _replace(node, node.kind, inputs)


def _math_power(node: Node) -> bool:
    """`math.pow`, which is `pow` of floats there."""
    graph = node.graph
    floats = [graph.insert("aten::Float", [v], [T.FLOAT]).output if v.type is T.INT else v for v in node.inputs]
    return _replace(node, "aten::pow", floats)


def _int_as_float(node: Node) -> bool:
    """An int that is taken for a float: there it becomes one."""
    is_int = node.input.type is T.INT and T.without_none(node.output.type) is T.FLOAT
    return is_int and _replace(node, "aten::Float", [node.input])


def _always_plain(node: Node) -> bool:
    """There no tensor is of a class of its own."""
    node.output.replace_all_uses_with(node.graph.insert_constant(True))
    return True


def _checked_int(node: Node) -> bool:
    """A number where an int is wanted: as an int, after an exception is raised for any other number."""
    graph, number = node.graph, node.input
    is_index = node.kind == "prim::AsIndex"
    test = graph.insert("prim::isinstance", [number], [T.BOOL])
    test.attributes["types"] = [T.BOOL, T.FLOAT, T.COMPLEX] if is_index else [T.FLOAT, T.COMPLEX]
    branch = graph.insert("prim::If", [test.output])
    with graph.inserting_at_end(branch.add_block()):
        message = "only integers can index a tensor" if is_index else "this number cannot be interpreted as an integer"
        kind = "builtins.IndexError" if is_index else "builtins.TypeError"
        graph.insert("prim::RaiseException", [graph.insert_constant(message), graph.insert_constant(kind)])
    branch.add_block()
    return _replace(node, "aten::Int", [number])


def _divmod_of_numbers(node: Node) -> bool:
    """`divmod` of numbers that may be ints or floats, as two operators."""
    if T.NUMBER not in (v.type for v in node.inputs):
        return False
    for kind, output in zip(("aten::floordiv", "aten::remainder"), node.outputs, strict=True):
        made = node.graph.insert(kind, node.inputs, [output.type], range=node.range).output
        made.copy_metadata(output)
        output.replace_all_uses_with(made)
    return True


def _warn(node: Node) -> bool:
    """A warning of a category: there all are of one."""
    return _replace(node, "aten::warn", [node.inputs[0], node.graph.insert_constant(2)])


_LISTS_OF_OPTIONAL = frozenset({"grad_tensors", "grad_outputs"})
_LISTS = frozenset({"tensors", "outputs", "inputs"}) | _LISTS_OF_OPTIONAL


def _bools_as_numbers(node: Node) -> bool:
    """Where a bool stands for a number, say so: `int(b)`."""
    if T.BOOL not in [v.type for v in node.inputs] or node.blocks:
        return False
    resolved = node.op
    if resolved is None:
        return False
    for i, argument in enumerate(resolved.schema.arguments[: len(node.inputs)]):
        value = node.inputs[i]
        if value.type is T.BOOL and argument.type in (T.INT, T.NUMBER):
            node.replace_input(i, node.graph.insert("aten::Int", [value], [T.INT]).output)
    return False


def _type_in_text(node: Node) -> bool:
    """The class of a value, where it only becomes text and its name is known."""
    name = _class_name(node.input.type)
    if name is None or not all(shows_as_text(use.user) for use in node.output.uses):
        return False
    node.output.replace_all_uses_with(node.graph.insert_constant(f"<class '{name}'>"))
    return True


def _class_name(t: T.Type) -> str | None:
    """What Python calls the class of values of a type; None where it may be one of several."""
    if isinstance(t, T.TupleType):
        return "tuple" if t.names is None else None
    kinds = {T.TensorType: "torch.Tensor", T.ListType: "list", T.DictType: "dict"}
    return next((name for kind, name in kinds.items() if isinstance(t, kind)), _CLASS_NAMES.get(t))


_CLASS_NAMES: dict[T.Type, str] = {
    T.INT: "int", T.FLOAT: "float", T.BOOL: "bool", T.COMPLEX: "complex", T.STRING: "str", T.NONE: "NoneType",
}  # fmt: skip


_BY_KIND: dict[str, _Lower] = {
    "prim::Drop": _drop,
    "prim::Raise": _raise,
    "prim::RaiseFrom": _raise,
    "prim::GetCell": _get_cell,
    "prim::SetCell": _set_cell,
    "aten::__contains__": lower_lookup,
    "aten::_assert": _assert,
    "aten::ScalarImplicit": _number_of_bool,
    "aten::backward": _listed,
    "aten::grad": _listed,
    "aten::copy_": lower_assignment,
    "aten::mathpow": _math_power,
    "prim::TensorItem": lower_item,
    "prim::SetTensorItem": lower_set_item,
    "prim::ModuleContainerIndex": lower_index,
    "prim::PythonType": _type_in_text,
    **SHOWN,
    "prim::unchecked_cast": _int_as_float,
    "prim::WarnOf": _warn,
    "aten::divmod": _divmod_of_numbers,
    "prim::AsInt": _checked_int,
    "python::is_plain_tensor": _always_plain,
    "prim::AsIndex": _checked_int,
    **FORMATS,
}

_CONSTRUCTS: dict[str, tuple[str, str]] = {
    "prim::Try": ("try statement", "test for what may go wrong before it does"),
    "prim::NewException": ("exceptions as values", "raise the exception where it is made"),
    "prim::MakeException": ("exceptions as values", "raise the exception where it is made"),
    "prim::Raise": ("way to raise an exception that was kept", "raise the exception where it is made"),
    "prim::RaiseFrom": ("way to raise an exception that was kept", "raise the exception where it is made"),
    "prim::IsException": ("caught exceptions", "test for what may go wrong before it does"),
    "prim::ExceptionInfo": ("caught exceptions", "test for what may go wrong before it does"),
    "python::class_name": ("classes as values", "write its name"),
    "python::exception_args": ("caught exceptions", "test for what may go wrong before it does"),
    "prim::PythonType": ("classes as values", "write its name"),
    "prim::Closure": ("functions as values", "give it as a function of its own"),
    "python::print": ("print to sys.stderr, or without an end of line", "print whole lines to the standard output"),
    "python::int": ("int() with a base", "compute the number from the digits"),
    "python::hypot": ("math.hypot", "write math.sqrt(x * x + y * y)"),
    "python::dist": ("math.dist", "write the root of the sum of squares"),
    "python::fsum": ("math.fsum", "write sum(values)"),
    "python::log2": ("math.log2", "write math.log(x) / math.log(2)"),
    "python::nextafter": ("math.nextafter", "compute it with torch.nextafter"),
    "python::ulp": ("math.ulp", "compute it with torch.nextafter"),
    "python::cbrt": ("math.cbrt", "write x ** (1 / 3) for what is not negative"),
    "python::exp2": ("math.exp2", "write 2.0 ** x"),
}  # fmt: skip
"""Python that jitlite compiles and TorchScript has not: what it is, and a way out."""
