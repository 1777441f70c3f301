"""From graph to bytecode.

A copy of the graph is prepared: unused values are dropped, every value gets a last use in the block that defines it,
and nodes that can be computed right where their value is needed are found. Then the blocks are emitted in order.
Values live in registers from their STORE to their last use, which is a MOVE.

How to read: `lower` is the whole story; the preparations follow, then the emitter with one method per kind of node
that is not simply an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from jitlite.base.errors.inside import NOT_RUNNABLE
from jitlite.interpreter.binding import with_checked_result
from jitlite.interpreter.code import Code, CodePlace, Operator
from jitlite.interpreter.code import Instruction as I
from jitlite.interpreter.debug_instructions import TABLE
from jitlite.interpreter.inlined_operands import find_inlined
from jitlite.interpreter.instructions import link
from jitlite.interpreter.last_uses import drop_unused, insert_last_uses
from jitlite.interpreter.run_time_types import as_at_run_time
from jitlite.ir import types as T
from jitlite.ir.compiling import depth_of, make_room
from jitlite.ir.graph import Block, Graph, Node, Value
from jitlite.ir.int_codes import dict_display
from jitlite.ir.object_flow import Likelihood, ObjectFlow
from jitlite.ir.ops import Op, fn_with_objects
from jitlite.ir.regions import Implementation, Region, regions_in
from jitlite.ir.traits import Spelling, Trait
from jitlite.ir.types import Type
from jitlite.ir.unit import Function, called_function, passed_arguments
from jitlite.operators.pass_prims import autograd_any_nonzero
from jitlite.operators.python_forms import function_of
from jitlite.operators.range_loops import count_range_loops


def code_of(function: Function) -> Code:
    """The code of a function, lowered the first time."""
    if not isinstance(function.compiled, Code):
        function.compiled = lower(function.graph, function.name)
    return function.compiled


def lower(
    graph: Graph,
    name: str = "graph",
    objects: bool = False,
    regions: Sequence[Implementation | None] = (),
    keep_nodes: bool = False,
    inline: bool = True,
) -> Code:
    """The code of a graph; the graph itself is not changed.

    Args:
        graph: what to run.
        name: of the function, for tracebacks.
        objects: may there be objects such as dtypes among the arguments that are ints?
        regions: what runs each region, in the order of `regions_in`; a region without runs its block.
        keep_nodes: note of each instruction which node it belongs to.
        inline: may the result of a node stay on the stack until it is used? Without, each result is stored.

    Raises:
        CompileError: where the graph has a node that cannot be run.
    """
    make_room(depth_of(graph))
    prepared = graph.copy()
    implemented = dict(zip((region.node for region in regions_in(prepared.block)), regions, strict=False))
    count_range_loops(prepared)
    drop_unused(prepared.block)
    insert_last_uses(prepared)
    emitter = _BytecodeEmitter(
        name, find_inlined(prepared) if inline else set(), ObjectFlow(prepared, objects), implemented
    )
    emitter.keeps_nodes = keep_nodes
    emitter.emit_block(prepared.block)
    emitter.emit(prepared.block.return_node, "RET")
    code = emitter.code
    code.inputs, code.outputs = len(prepared.inputs), len(prepared.outputs)
    code.program = link(code)
    return code


# -- emission


_Task = Callable[[], None]


class _BytecodeEmitter:
    """Writes the instructions of one graph."""

    def __init__(
        self, name: str, inlined: set[Node], flow: ObjectFlow, implemented: dict[Node, Implementation | None]
    ) -> None:
        self.code = Code(name)
        self.implemented = implemented
        self.flow = flow
        self.inlined = inlined
        self.registers: dict[Value, int] = {}
        """The register of each stored value; of a constant, its place in the constant table."""
        self.uses_emitted: dict[Value, int] = {}
        self.operators: dict[tuple[object, ...], int] = {}
        self.names: dict[str, int] = {}
        self.places: dict[Node, CodePlace] = {}
        self.keeps_nodes = False

    # -- the instruction list
    def emit(self, node: Node, opcode: str, x: int = 0, n: int = 0) -> int:
        """Append an instruction that belongs to `node`; gives its position."""
        assert opcode in TABLE
        if node not in self.places:
            self.places[node] = CodePlace(node.range, node.call_stack)
        self.code.instructions.append(I(opcode, x, n))
        self.code.places.append(self.places[node])
        if self.keeps_nodes:
            self.code.nodes.append(node)
        return len(self.code.instructions) - 1

    def patch(self, position: int, target: int) -> None:
        """Let the jump at `position` lead to `target`."""
        self.code.instructions[position] = self.code.instructions[position]._replace(x=target - position)

    @property
    def here(self) -> int:
        return len(self.code.instructions)

    def constant(self, value: object) -> int:
        self.code.constants.append(value)
        return len(self.code.constants) - 1

    def types(self, types: Sequence[Type]) -> int:
        self.code.types.extend(types)
        return len(self.code.types) - len(types)

    # -- blocks and nodes
    def emit_block(self, block: Block) -> None:
        self.store_outputs(block.param_node)
        self.emit_body(block)

    def emit_body(self, block: Block) -> None:
        for node in block.nodes:
            if node.kind == "prim::Constant":
                self.register_constant(node)
            elif node not in self.inlined:
                self.emit_tree(node)
                self.store_outputs(node)
        self.emit_tree(block.return_node)

    def store_outputs(self, node: Node) -> None:
        count = len(node.outputs)
        first = self.code.register_size + 1
        for offset, value in enumerate(node.outputs):
            self.registers[value] = first + offset
        self.code.register_size += count
        if count == 1:
            self.emit(node, "STORE", first)
        elif count:
            self.emit(node, "STOREN", first, count)

    def register_constant(self, node: Node) -> None:
        if node.output.type is not T.FUNCTION:
            self.registers[node.output] = self.constant(node.attributes.get("value"))

    def emit_tree(self, root: Node) -> None:
        """Emit a node with all nodes inlined into it (a worklist: expressions can be thousands deep)."""
        work: list[_Task] = []
        self.begin(root, work)
        while work:
            work.pop()()

    def begin(self, node: Node, work: list[_Task]) -> None:
        """Put the emission of one node on the worklist, whose last entry comes next."""
        if node.kind == "prim::Drop":
            work.extend(self.drop_task(node, v, work) for v in reversed(node.inputs))
            return
        if node.kind == "prim::Loop":
            self.emit(node, "LOADC", self.constant(0))
        work.append(lambda: self.finish(node))
        work.extend(self.use_task(node, v, work) for v in reversed(_operands(node)))

    def use_task(self, user: Node, value: Value, work: list[_Task]) -> _Task:
        if value.node in self.inlined:
            return lambda: self.begin(value.node, work)
        return lambda: self.load(user, value)

    def drop_task(self, user: Node, value: Value, work: list[_Task]) -> _Task:
        if value.node not in self.inlined:
            return lambda: self.load(user, value, "DROPR")

        def compute_and_drop() -> None:
            work.append(lambda: self._emit_only(user, "DROP"))
            self.begin(value.node, work)

        return compute_and_drop

    def _emit_only(self, node: Node, opcode: str) -> None:
        self.emit(node, opcode)

    def load(self, user: Node, value: Value, opcode: str | None = None) -> None:
        emitted = self.uses_emitted[value] = self.uses_emitted.get(value, 0) + 1
        if opcode is None:
            if value.node.kind == "prim::Constant":
                opcode = "LOADC"
            else:
                # A use in a nested block may be emitted last if the node around that block is inlined behind another
                # operand. The block may run many times, so the value has to stay (torch.jit moves it).
                last = emitted == value.use_count and user.block is value.node.block
                opcode = "MOVE" if last else "LOAD"
        self.emit(user, opcode, self.registers[value])

    def finish(self, node: Node) -> None:
        """The instructions of a node whose inputs are on the stack."""
        kind = node.kind
        if kind == "prim::Return":
            return
        if self.flow.needs_objects(node):
            self.operator(node)
            return
        if kind in Spelling.OPCODE.by_kind:
            self.emit(node, Spelling.OPCODE.by_kind[kind])
            return
        special = _SPECIAL.get(kind)
        if special is not None:
            special(self, node)
            return
        self.operator(node)

    # -- operators
    def operator(self, node: Node) -> None:
        op = node.op
        if op is None:
            given = ", ".join(v.type.annotation for v in node.inputs)
            raise NOT_RUNNABLE(f"there is no operator {node.kind}({given})", node.range)
        objects = self.flow.needs_objects(node)
        fn = fn_with_objects(op) if objects else op.fn or _STRUCTURAL_OPERATORS.get(node.kind)
        if op.overload is not None and not objects:
            fn = function_of(op, node)
        if fn is None:
            raise NOT_RUNNABLE(f"{node.kind} cannot be run by the interpreter", node.range)
        if op.attributes:
            fn = partial(fn, **{name: node.attributes[name] for name in op.attributes if name in node.attributes})
        if objects:
            self.emit(node, "OP", self.operator_index(node, op, fn, shared=False))
        elif node.kind == "aten::__getitem__" and op.schema.overload.startswith("Dict"):
            self.emit(node, "DICT_INDEX")
        elif op.schema.is_vararg:
            self.emit(node, "OPN", self.operator_index(node, op, fn), len(node.inputs))
        else:
            self.emit(node, "OP", self.operator_index(node, op, fn))

    def operator_index(self, node: Node, op: Op, fn: Callable[..., object], shared: bool = True) -> int:
        """The operator's place in the table; operators with fixed numbers of inputs and outputs are entered once."""
        schema, inputs, outputs = op.schema, len(node.inputs), len(node.outputs)
        shared = shared and not (schema.is_vararg or schema.is_varret or op.attributes)
        key = (schema.name, schema.overload, inputs, fn)
        if shared and key in self.operators:
            return self.operators[key]
        spread = outputs > 1 or node.has(Trait.SPREADS) or node.kind == "prim::TupleUnpack"
        entry = Operator(schema.name, schema.overload, fn, -1 if schema.is_vararg else inputs, outputs, spread)
        self.code.operators.append(entry)
        if shared:
            self.operators[key] = len(self.code.operators) - 1
        return len(self.code.operators) - 1

    # -- control flow and calls
    def if_(self, node: Node) -> None:
        test = self.emit(node, "JF")
        self.emit_block(node.blocks[0])
        skip = self.emit(node, "JMP")
        self.patch(test, self.here)
        self.emit_block(node.blocks[1])
        self.patch(skip, self.here)

    def loop(self, node: Node) -> None:
        head = self.emit(node, "LOOP", 0, len(node.inputs))
        self.emit_block(node.blocks[0])
        self.patch(self.emit(node, "JMP"), head)
        self.patch(head, self.here)

    def dict_(self, node: Node) -> None:
        if len(node.inputs) > 2 and self.flow.of_any(node.inputs[::2]) >= Likelihood.STORED:
            self.code.operators.append(Operator(node.kind, "", dict_display, -1, 1, False))
            self.emit(node, "OPN", len(self.code.operators) - 1, len(node.inputs))
        else:
            self.container("DICT_CONSTRUCT", node)

    def grad_of(self, node: Node) -> None:
        """Zero if all gradients are, else what the block computes."""
        self.code.operators.append(Operator("prim::AutogradAnyNonZero", "", autograd_any_nonzero, -1, 1, False))
        self.emit(node, "OPN", len(self.code.operators) - 1, len(node.inputs))
        test = self.emit(node, "JF")
        self.emit_block(node.blocks[0])
        skip = self.emit(node, "JMP")
        self.patch(test, self.here)
        for _ in node.outputs:
            self.emit(node, "LOADC", self.constant(None))
        self.patch(skip, self.here)

    def region(self, node: Node) -> None:
        """The block; before it, a call of what runs the region instead, which pushes None where it cannot."""
        implementation = self.implemented.get(node)
        if implementation is None:
            self.emit_block(node.blocks[0])
            return
        (body,) = node.blocks
        self.store_outputs(body.param_node)
        for value in body.inputs:
            self.emit(node, "LOAD", self.registers[value])
        self.emit(node, "PY_CALL", self.constant(implementation.attempt), len(node.inputs))
        self.code.register_size += 1
        result = self.code.register_size
        self.emit(node, "STORE", result)
        self.emit(node, "LOAD", result)
        self.emit(node, "LOADC", self.constant(None))
        self.emit(node, "__ISNOT__")
        test = self.emit(node, "JF")
        for value in body.inputs:
            self.emit(node, "DROPR", self.registers[value])
        self.emit(node, "MOVE", result)
        if Region(node).gives_tuple:
            self.emit(node, "LIST_UNPACK", len(node.outputs))
        skip = self.emit(node, "JMP")
        self.patch(test, self.here)
        self.emit_body(body)
        self.patch(skip, self.here)

    def try_(self, node: Node) -> None:
        start = self.emit(node, "TRY")
        self.emit_block(node.blocks[0])
        end = self.emit(node, "END_TRY")
        self.patch(start, self.here)
        self.emit_block(node.blocks[1])
        self.patch(end, self.here)

    def call_function(self, node: Node) -> None:
        callee = called_function(node)
        if callee is None:
            name = node.inputs[0].node.attributes.get("name", "?")
            raise NOT_RUNNABLE(f"the graph calls '{name}', which is only a name here", node.range)
        self.add_function(callee, node)
        self.emit(node, "CALL", len(self.code.functions) - 1)

    def add_function(self, function: Function, node: Node) -> None:
        if self.flow.of_any(node.inputs) is Likelihood.OBJECT:
            function.is_given_objects = True
        self.code.functions.append(function)

    def call_method(self, node: Node) -> None:
        if called_function(node) is not None:
            self.call_function(node)
        else:
            self.emit(node, "INTERFACE_CALL", self.constant(node.attributes["name"]), len(node.inputs))
            self.drop_missing_output(node)

    def python_call(self, node: Node) -> None:
        if "callable" not in node.attributes:
            raise NOT_RUNNABLE(f"{node.kind} stands for a Python function that is not available", node.range)
        function = node.attributes["callable"]
        if len(node.outputs) == 1:
            function = with_checked_result(function, node.outputs[0].type)
        self.emit(node, "PY_CALL", self.constant(function), len(node.inputs))
        self.drop_missing_output(node)
        if len(node.outputs) > 1:
            self.emit(node, "LIST_UNPACK", len(node.outputs))

    def drop_missing_output(self, node: Node) -> None:
        """Forget the result that the instruction pushes and the node does not have."""
        if not node.outputs:
            self.emit(node, "DROP")

    def group(self, node: Node) -> None:
        """A graph that is run in place: by what there is for it, else as a call."""
        implementation = self.implemented.get(node)
        if implementation is not None:
            self.emit(node, "PY_CALL", self.constant(implementation.attempt), len(node.inputs))
            self.drop_missing_output(node)
            if len(node.outputs) > 1:
                self.emit(node, "LIST_UNPACK", len(node.outputs))
            return
        self.add_function(Function("<group of operators>", graph=node.attributes["Subgraph"]), node)
        self.emit(node, "CALL", len(self.code.functions) - 1)

    def defer(self, opcode: str, name: str, node: Node) -> None:
        self.add_function(Function(name, graph=node.attributes["Subgraph"]), node)
        self.emit(node, opcode, len(self.code.functions) - 1, len(node.inputs))

    def raise_exception(self, node: Node) -> None:
        if len(node.inputs) == 1:
            self.emit(node, "LOADC", self.constant(None))
        self.emit(node, "RAISE_EXCEPTION")

    # -- objects, variables and containers
    def name_index(self, name: str) -> int:
        index = self.names.get(name)
        if index is None:
            index = self.names[name] = len(self.code.names)
            self.code.names.append(name)
        return index

    def variable(self, node: Node) -> None:
        self.emit(node, "VARIABLE", self.name_index(node.attributes["name"]))

    def attribute(self, node: Node) -> None:
        index = self.name_index(node.attributes["name"])
        owner: object = node.inputs[0].type
        set_it = "INIT_ATTR" if isinstance(owner, T.ClassType) and owner.is_frozen else "SET_ATTR"
        self.emit(node, "GET_ATTR" if node.kind == "prim::GetAttr" else set_it, index)

    def tuple_construct(self, node: Node) -> None:
        made, count = node.output.type, len(node.inputs)
        if isinstance(made, T.TupleType) and made.names is not None:
            self.emit(node, "NAMED_TUPLE_CONSTRUCT", self.types([made]), count)
        else:
            self.emit(node, "TUPLE_CONSTRUCT", count)

    def container(self, opcode: str, node: Node) -> None:
        self.emit(node, opcode, self.types([node.output.type]), len(node.inputs))

    def isinstance_(self, node: Node) -> None:
        wanted = [as_at_run_time(t, node.input.type) for t in node.attributes["types"]]
        self.emit(node, "ISINSTANCE", self.types(wanted), len(wanted))

    def tuple_slice(self, node: Node) -> None:
        start, end = node.attributes["beg"], node.attributes["end"]
        self.emit(node, "TUPLE_SLICE", start, end - start)

    def enter(self, node: Node) -> None:
        self.emit(node, "ENTER")
        self.drop_missing_output(node)

    def exit(self, node: Node) -> None:
        self.emit(node, "EXIT")
        self.drop_missing_output(node)

    def warn(self, node: Node) -> None:
        if len(node.inputs) == 1:
            self.emit(node, "LOADC", self.constant(2))
        self.emit(node, "WARN", node.attributes.get("warn_id", -1))


def _operands(node: Node) -> Sequence[Value]:
    """The inputs that are loaded before the node's own instruction."""
    if node.kind in ("prim::Exit", "prim::Uninitialized"):  # EXIT knows what was entered
        return ()
    return passed_arguments(node)


_STRUCTURAL_OPERATORS: dict[str, Callable[..., object]] = {"prim::TupleUnpack": tuple}
"""Structural kinds that TorchScript runs as operators."""

_SPECIAL: dict[str, Callable[[_BytecodeEmitter, Node], object]] = {
    "prim::If": _BytecodeEmitter.if_,
    "prim::Loop": _BytecodeEmitter.loop,
    "prim::Try": _BytecodeEmitter.try_,
    "prim::GradOf": _BytecodeEmitter.grad_of,
    "prim::Region": _BytecodeEmitter.region,
    **dict.fromkeys(Spelling.REGION.by_kind, _BytecodeEmitter.group),
    "prim::FunctionalGraph": _BytecodeEmitter.group,
    "prim::CallFunction": _BytecodeEmitter.call_function,
    "prim::CallMethod": _BytecodeEmitter.call_method,
    "prim::PythonOp": _BytecodeEmitter.python_call,
    "prim::IgnoredPythonOp": _BytecodeEmitter.python_call,
    "prim::fork": lambda e, node: e.defer("FORK", "<forked function>", node),
    "prim::awaitable": lambda e, node: e.defer("AWAITABLE", "<awaitable function>", node),
    "prim::RaiseException": _BytecodeEmitter.raise_exception,
    "prim::GetAttr": _BytecodeEmitter.attribute,
    "prim::SetAttr": _BytecodeEmitter.attribute,
    "prim::TupleConstruct": _BytecodeEmitter.tuple_construct,
    "prim::TupleSlice": _BytecodeEmitter.tuple_slice,
    "prim::ListConstruct": lambda e, node: e.container("LIST_CONSTRUCT", node),
    "prim::DictConstruct": _BytecodeEmitter.dict_,
    "prim::ListUnpack": lambda e, node: e.emit(node, "LIST_UNPACK", len(node.outputs)),
    "prim::CreateObject": lambda e, node: e.emit(node, "CREATE_OBJECT", e.types([node.output.type])),
    "prim::isinstance": _BytecodeEmitter.isinstance_,
    "prim::Uninitialized": lambda e, node: e.emit(node, "UN_INITIALIZED"),
    "prim::Enter": _BytecodeEmitter.enter,
    "prim::Exit": _BytecodeEmitter.exit,
    "aten::warn": _BytecodeEmitter.warn,
    "aten::format": lambda e, node: e.emit(node, "FORMAT", len(node.inputs)),
    "prim::Variable": _BytecodeEmitter.variable,
}
"""Kinds with an instruction of their own."""
