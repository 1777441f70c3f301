"""Graphs as TorchScript text, the source that an archive keeps.

    graph(%x.1 : Tensor, %n.1 : int):                 def f(x: Tensor,
      %3 : int = prim::Constant[value=1]()                n: int) -> Tensor:
      %4 : Tensor = aten::mul(%x.1, %n.1)       =>      return torch.add(torch.mul(x, n), 1)
      %5 : Tensor = aten::add(%4, %3, %3)
      return (%5)

How to read: `SourceFile` is one file of an archive; `_FunctionWriter` writes one function into it, a method for each
kind of statement; what stands in the statements is in `expressions_out.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jitlite.base.errors.ways_out import NOT_IN_ARCHIVE
from jitlite.base.source import SourceRange
from jitlite.codegen.torchscript.constants_out import ConstantTable, ConstantWriter
from jitlite.codegen.torchscript.expressions_out import (
    CLOSE_INDEX,
    OPEN_INDEX,
    RESERVED,
    Expressions,
    expression,
    first_keyword,
)
from jitlite.codegen.torchscript.fragments import LINE_END, Fragment, Lines, fragment, joined
from jitlite.codegen.torchscript.inlining import has_own_name, inlined_nodes
from jitlite.codegen.torchscript.lowering import lowered
from jitlite.codegen.torchscript.type_names import TypeNames, is_identifier, is_named, valid_identifier
from jitlite.ir import code_text as texts
from jitlite.ir import types as T
from jitlite.ir.code_text import EMPTY, Identifier, Text, blanks, code, fixed, identifier, with_digits
from jitlite.ir.graph import Block, Node, Value
from jitlite.ir.node_attributes import str_attribute
from jitlite.ir.schema import Argument
from jitlite.ir.structure import Loop
from jitlite.ir.types import Type
from jitlite.ir.unit import Function, called_function

OLDEST_VERSION = 3
"""The version that is written where no operator needs a newer one."""

VERSIONS: dict[str, int] = {
    **dict.fromkeys(
        ("aten::div.Scalar", "aten::div.Scalar_mode", "aten::div.Tensor", "aten::div.Tensor_mode", "aten::div.out",
         "aten::div.out_mode", "aten::div_.Scalar", "aten::div_.Scalar_mode", "aten::div_.Tensor",
         "aten::div_.Tensor_mode"), 4,
    ),
    **dict.fromkeys(("aten::full", "aten::full.out"), 5),
    **dict.fromkeys(("aten::linspace", "aten::linspace.out"), 8),
    **dict.fromkeys(("aten::logspace", "aten::logspace.out"), 9),
    **dict.fromkeys(("aten::gelu", "aten::gelu.out"), 10),
}  # fmt: skip
"""Since which version of the format an operator means what it means now."""

_LONG = 40
"""An expression of as many characters, the indentation counted, gets a line of its own."""


class Dependencies:
    """The named things that a program mentions, in the order in which it does."""

    def __init__(self) -> None:
        self.found: dict[Any, None] = {}
        self._nameless: set[Type] = set()
        """Types that mention no named thing."""
        self._ending: set[Function] = set()
        """Functions that do not call themselves, nor does what they call."""

    def add(self, named: object) -> None:
        """Enter a named type or a function."""
        self.found.setdefault(named)

    def add_type(self, type: Type) -> None:
        """Enter the named types in a type, and in the attributes of classes."""
        if type in self._nameless:
            return
        todo, seen, is_nameless = [type], set[Type](), True
        while todo:
            t = todo.pop()
            if t in seen:
                continue
            seen.add(t)
            if is_named(t):
                is_nameless = False
                if t in self.found and isinstance(t, T.ClassType):
                    continue
                self.add(t)
            parts = t.attributes.values() if isinstance(t, T.ClassType) else t.contained
            todo += reversed(list(parts))
        if is_nameless:
            self._nameless.add(type)

    def refuse_recursion(self, function: Function) -> None:
        """See that a function does not call itself, if only by way of others.

        Raises:
            NotSupportedError: it does, or one that it calls does.
        """
        open_calls: dict[Function, Iterator[tuple[Node, Function]]] = {}
        if function not in self._ending:
            open_calls[function] = _calls(function)
        while open_calls:
            caller = next(reversed(open_calls))
            node, callee = next(open_calls[caller], (None, None))
            if node is None or callee is None:
                open_calls.popitem()
                self._ending.add(caller)
            elif callee in open_calls:
                raise NOT_IN_ARCHIVE(
                    f"'{callee.name}' calls itself, which functions of an archive cannot", node.range,
                    hint="write it as a loop",
                )  # fmt: skip
            elif callee not in self._ending:
                open_calls[callee] = _calls(callee)


def _calls(function: Function) -> Iterator[tuple[Node, Function]]:
    for node in list(function.graph.all_nodes()):
        callee = called_function(node)
        if callee is not None:
            yield node, callee


class SourceFile:
    """One file of an archive's source.

    Args:
        is_ours: jitlite alone will read it; formats and functions that call themselves need no other form then.

    Attributes:
        lines: what has been written.
        version: the oldest version of the format that it can be read as.
    """

    def __init__(
        self, names: TypeNames, table: ConstantTable, dependencies: Dependencies, *, is_ours: bool = False
    ) -> None:
        self.names = names
        self.is_ours = is_ours
        self.dependencies = dependencies
        self.constants = ConstantWriter(names, table, dependencies.add)
        self.lines = Lines()
        self.version = OLDEST_VERSION
        self.next_numbers: dict[str, int] = {}
        """The number that the next value that wants a name gets, if somebody has the name."""

    def function(self, function: Function, level: int = 0, name: str | None = None) -> None:
        """Write a function, or, indented, a method.

        Raises:
            NotSupportedError: where there is something in it that TorchScript has not.
        """
        _FunctionWriter(self, level).function(function, name or function.name)

    def __str__(self) -> str:
        return str(self.lines)


def function_source(function: Function) -> str:
    """The text of a function as an archive holds it, without what it calls.

    Raises:
        NotSupportedError: where there is something in it that TorchScript has not.
    """
    return source_with_constants(function)[0]


def source_with_constants(function: Function) -> tuple[str, list[Any]]:
    """The same, and the constants that the text calls `CONSTANTS.c0`, `CONSTANTS.c1` ..."""
    table = ConstantTable()
    file = SourceFile(TypeNames(), table, Dependencies())
    file.function(function)
    return str(file), [value for value, _ in table.values]


class _FunctionWriter(Expressions):
    """Writes one function."""

    def __init__(self, file: SourceFile, level: int) -> None:
        super().__init__(file.names, file.constants)
        self.file = file
        self.level = level
        self.used: set[str] = set()
        self.in_place: set[Node] = set()
        self.annotated: set[Value] = set()
        self.written_constants: set[Node] = set()
        self.split_until: dict[Node, int] = {}
        """Nodes written in place, and the last of their inputs that has been looked at for a line of its own."""

    # -- lines and names
    def line(self, range: SourceRange | None, *pieces: Text | Fragment) -> None:
        self.file.lines.write(range, blanks(2 * self.level), *pieces, LINE_END)

    def new_name(self, wanted: Identifier) -> Identifier:
        numbers, name = self.file.next_numbers, wanted
        while name in self.used or name in RESERVED:
            number = numbers.get(name, 0)
            numbers[name] = number + 1
            name = with_digits(wanted, number)
        self.used.add(name)
        return name

    def declare(self, values: Sequence[Value]) -> list[Fragment]:
        """Give values names of their own."""
        for value in values:
            self.variables[value] = self.new_name(_wanted_name(value))
        return [self.use(v) for v in values]

    def is_long(self, text: str) -> bool:
        return len(text) + 2 * self.level >= _LONG

    # -- functions
    def function(self, function: Function, name: str) -> None:
        if not self.file.is_ours:
            self.file.dependencies.refuse_recursion(function)
        graph = lowered(function.graph, is_ours=self.file.is_ours)
        if len(graph.outputs) != 1:
            raise NOT_IN_ARCHIVE(f"'{name}' gives {len(graph.outputs)} values; in an archive it is one", function.range)
        if not is_identifier(name):
            raise NOT_IN_ARCHIVE(f"a function cannot have the name '{name}' in an archive", function.range)
        place = function.range
        parameters: list[Text] = []
        star = first_keyword(function.schema)
        last = max((i for i, a in enumerate(function.schema.arguments) if not a.has_default), default=-1)
        for i, (value, argument) in enumerate(zip(graph.inputs, function.schema.arguments, strict=True)):
            if i == star:
                parameters.append(fixed("*"))
            parameters.append(self.parameter(value, argument, place, has_default=i > last or star is not None))
        returned = function.schema.returns[0].type
        self.file.dependencies.add_type(returned)
        given = texts.joined(",\n    ", parameters)
        self.line(place, code("def {}({}) -> {}:", identifier(name), given, self.names.text(returned, place)))
        self.body(graph.block)

    def parameter(self, value: Value, argument: Argument, place: SourceRange | None, *, has_default: bool) -> Text:
        self.file.dependencies.add_type(argument.type)
        name = self.variables[value] = self.new_name(valid_identifier(argument.name))
        self.annotated.add(value)
        text = code("{}: {}", name, self.names.text(argument.type, place))
        if not argument.has_default or not has_default:
            return text
        return code("{}={}", text, self.constants.text(_default(argument), argument.type, place))

    def body(self, block: Block) -> None:
        """The statements of a function, indented."""
        constants: list[Node] = []
        self.collect_constants(block, constants)
        self.in_place |= inlined_nodes(block)
        self.level += 1
        for node in constants:
            self.node(node)
        self.block(block, has_more=bool(block.outputs))
        self.node(block.return_node)
        self.level -= 1

    def collect_constants(self, block: Block, found: list[Node]) -> None:
        for node in (*block.nodes, block.return_node):
            for value in node.inputs:
                source = value.node
                if source.kind == "prim::Constant" and source not in self.written_constants:
                    self.written_constants.add(source)
                    found.append(source)
            for inner in node.blocks:
                self.collect_constants(inner, found)

    def block(self, block: Block, *, has_more: bool) -> None:
        """The statements of a block; `has_more` where others follow in the same one."""
        if not has_more and block.is_empty:
            self.line(block.return_node.range, _PASS)
        for node in block.nodes:
            if node.kind != "prim::Constant":
                self.node(node)

    # -- statements
    def node(self, node: Node) -> None:
        for value in (*node.inputs, *node.outputs):
            self.file.dependencies.add_type(value.type)
        for t in node.attributes.get("types", ()) if node.kind == "prim::isinstance" else ():
            self.file.dependencies.add_type(t)
        write = _STATEMENTS.get(node.kind)
        if write is not None:
            write(self, node)
            return
        self.note_version(node)
        written = fragment(node.range, *expression(self, node))
        is_constant = node.kind == "prim::Constant"
        if node not in self.in_place or (is_constant and self.is_long(written.text)):
            self.assign(node, written)
            return
        self.expressions[node.output] = written
        if not is_constant and self.is_long(written.text):
            self.split(node.output)

    def note_version(self, node: Node) -> None:
        resolved = node.op
        if resolved is not None:
            self.file.version = max(self.file.version, VERSIONS.get(resolved.schema.qualified, 0))

    def assign(self, node: Node, written: Fragment) -> None:
        """`a, b = written`"""
        targets = self.declare(node.outputs)
        self.line(node.range, *joined(targets), *([_EQUALS] if targets else []), written)

    def split(self, value: Value) -> None:
        """Give a line of its own to all that is evaluated before a long expression: it would come too late else."""
        (use,) = value.uses
        found: list[Value] = []
        user, offset = use.user, use.offset
        while True:
            known = self.split_until.get(user)
            for i in range(offset, -1 if known is None else known, -1):
                source = user.inputs[i].node
                if source.kind != "prim::Constant" and source in self.in_place:
                    found.append(user.inputs[i])
            self.split_until[user] = offset
            if known is not None or user not in self.in_place:
                break
            (use,) = user.output.uses
            user, offset = use.user, use.offset - 1  # the user itself is still being written
        for early in reversed(found):
            self.assign(early.node, self.use(early))

    def return_(self, node: Node) -> None:
        if node.inputs:
            self.line(node.range, fixed("return "), *self.operands(node))

    def unpack(self, node: Node) -> None:
        targets = self.declare(node.outputs)
        self.line(node.range, *joined(targets), *([fixed(", = ")] if targets else []), self.use(node.input))

    def set_attribute(self, node: Node) -> None:
        owner, value = node.inputs
        name = str_attribute(node, "name")
        if not is_identifier(name):
            raise NOT_IN_ARCHIVE(
                f"an archive cannot assign to the attribute '{name}': its name has other letters than ASCII's",
                node.range,
            )
        self.line(node.range, self.use(owner), code(".{} = ", identifier(name)), self.use(value))

    def deferred(self, node: Node) -> None:
        """`fork` and `awaitable`: the graph is a function inside this one."""
        form = identifier(node.kind.partition("::")[2])
        name = self.new_name(identifier("__forked_function" if form == "fork" else f"__{form}_function"))
        graph = lowered(node.attributes["Subgraph"], is_ours=self.file.is_ours)
        self.line(node.range, code("def {}():", name))
        for inner, outer in zip(graph.inputs, node.inputs, strict=True):
            self.expressions[inner] = self.use(outer)
        self.body(graph.block)
        self.assign(node, fragment(node.range, code("{}({})", form, name)))

    def enter(self, node: Node) -> None:
        pieces: list[Text | Fragment] = [fixed("with "), self.use(node.inputs[0])]
        if node.outputs and node.outputs[0].has_uses:
            pieces += [fixed(" as "), *self.declare(node.outputs)]
        self.line(node.range, *pieces, _COLON)
        self.level += 1

    def exit(self, node: Node) -> None:
        previous = node.prev
        while previous is not None and previous.kind == "prim::Constant":
            previous = previous.prev
        if previous is not None and previous.kind == "prim::Enter":
            self.line(node.range, _PASS)
        self.level -= 1

    def container_index(self, node: Node) -> None:
        container, key = map(self.use, node.inputs)
        (target,) = self.declare(node.outputs)
        annotation = code(" : {} = ", self.type_text(node))
        self.line(node.range, target, annotation, container, OPEN_INDEX, key, CLOSE_INDEX)

    # -- control flow
    def branch(self, node: Node) -> None:
        self.declare(node.outputs)
        heads: tuple[list[Text | Fragment], ...] = [fixed("if "), self.use(node.input)], [fixed("else")]
        for head, block in zip(heads, node.blocks, strict=True):
            self.line(node.range, *head, _COLON)
            self.level += 1
            self.block(block, has_more=bool(node.outputs))
            self.assign_results(node, block)
            self.level -= 1

    def assign_results(self, node: Node, block: Block) -> None:
        """What a branch gives becomes what the `if` gives."""
        wider = [self.is_wider(v, [b.outputs[i] for b in node.blocks]) for i, v in enumerate(node.outputs)]
        if not any(wider):
            self.assign_all(node.range, node.outputs, block.outputs)
            return
        for target, source in zip(node.outputs, block.outputs, strict=True):  # readers would not find the type
            annotation = code(" : {}", self.names.text(target.type, node.range))
            self.line(node.range, self.use(target), annotation, _EQUALS, self.use(source))

    def is_wider(self, target: Value, sources: Sequence[Value]) -> bool:
        """Is the type of what branches give not told by what each of them assigns?"""
        if isinstance(target.type, T.UnionType) and not isinstance(target.type, T.OptionalType):
            return len(target.node.outputs) > 1 and any(T.unshaped(v.type) is not target.type for v in sources)
        if isinstance(target.type, T.UnionType):
            return False
        return T.unify_all([T.unshaped(v.type) for v in sources]) is not T.unshaped(target.type)

    def assign_all(self, place: SourceRange | None, targets: Sequence[Value], sources: Sequence[Value]) -> None:
        """`a, b = x, y`"""
        if not targets:
            return
        pieces = joined([self.use(v) for v in targets])
        is_first = targets[0] not in self.annotated and targets[0] not in self.expressions
        if len(targets) == 1 and is_first and isinstance(targets[0].type, T.UnionType):
            pieces.append(code(" : {}", self.names.text(targets[0].type, place)))
            self.annotated.add(targets[0])
        self.line(place, *pieces, _EQUALS, *joined(self.use(v) for v in sources))

    def loop(self, node: Node) -> None:
        loop, body = Loop(node), node.blocks[0]
        is_for = _is_for(node)
        self.declare(node.outputs)
        for _, parameter, _, output in loop.carried:
            self.expressions[parameter] = self.use(output)
        for start, _, _, output in loop.carried:
            annotation = EMPTY
            if self.must_annotate(output, start):
                annotation = code(": {}", self.names.text(output.type, node.range))
            self.line(node.range, self.use(output), annotation, _EQUALS, self.use(start))
        (number,) = self.declare([loop.index])
        if is_for:
            count = self.use(loop.max_iterations)
            self.line(node.range, fixed("for "), number, fixed(" in range("), count, fixed("):"))
        else:  # what counts the iterations of a `for` holds the condition of a `while`
            self.assign_all(node.range, [loop.index], [loop.start_condition])
            self.line(node.range, fixed("while "), number, _COLON)
        first = 1 if is_for else 0
        self.level += 1
        self.block(body, has_more=len(body.inputs) > first)
        self.assign_all(node.range, body.inputs[first:], body.outputs[first:])
        self.level -= 1

    def must_annotate(self, target: Value, start: Value) -> bool:
        if isinstance(target.type, T.UnionType):
            known = target in self.annotated
            self.annotated.add(target)
            return not known
        return T.unshaped(target.type) is not T.unshaped(start.type)


def _is_for(node: Node) -> bool:
    loop = Loop(node)
    return not loop.has_condition and (loop.is_bounded or loop.index.has_uses)


_PASS, _EQUALS, _COLON = fixed("pass"), fixed(" = "), fixed(":")


def _wanted_name(value: Value) -> Identifier:
    if value.node.kind == "prim::GetAttr":
        name = value.node.attributes["name"]
        return valid_identifier(f"_{name}" if name.isdigit() else name)
    if not has_own_name(value):
        return identifier("_")
    base, dot, number = value.name.rpartition(".")
    return valid_identifier(base if dot and number.isdigit() else value.name)


def _default(argument: Argument) -> Any:
    broadcast = isinstance(argument.type, T.ListType) and argument.size is not None
    if broadcast and isinstance(argument.default, int | float):
        return [argument.default] * (argument.size or 0)
    return argument.default


_STATEMENTS: dict[str, Callable[[_FunctionWriter, Node], None]] = {
    "prim::Return": _FunctionWriter.return_,
    "prim::If": _FunctionWriter.branch,
    "prim::Loop": _FunctionWriter.loop,
    "prim::TupleUnpack": _FunctionWriter.unpack,
    "prim::ListUnpack": _FunctionWriter.unpack,
    "prim::SetAttr": _FunctionWriter.set_attribute,
    "prim::fork": _FunctionWriter.deferred,
    "prim::awaitable": _FunctionWriter.deferred,
    "prim::Enter": _FunctionWriter.enter,
    "prim::Exit": _FunctionWriter.exit,
    "prim::ModuleContainerIndex": _FunctionWriter.container_index,
}
"""Kinds that are statements of a form of their own; all others are expressions."""
