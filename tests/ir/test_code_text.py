"""Names and values from outside in text that something runs: whatever they are, they stay names and values."""

from __future__ import annotations

import ast
import builtins
import enum
import io
import keyword
import linecache
import unicodedata
from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

import jitlite
from jitlite import ir
from jitlite.base.source import CompileError, NotSupportedError
from jitlite.codegen.python.python_tier import translate
from jitlite.ir import code_text, value_text
from jitlite.ir.code_text import code, identifier, is_identifier, literal, made_identifier
from jitlite.ir.unit import Function
from jitlite.ir.verify import VerifyError

PACKAGE = Path(jitlite.__file__).parent
CALL = "__import__('builtins').hostile_text_ran.append(1)"
HOSTILE = [
    f'a"); {CALL}; ("', f"a'); {CALL}; ('", f"a\n{CALL}\n", f"a\r{CALL}\r#", f"a\u2028{CALL}\u2028",
    f'"""\n{CALL}\n"""', f"{{{CALL}}}", f"\\'); {CALL} #", f"a = {CALL}", f"a) or {CALL} or (", "class", "None", "a b",
    "__class__", "__reduce__", "ﬁ", "ª", "1", "", "a.b", "a\x00b", "\ud800", "{0}", "{f}", "%s", "self", "mro",
]  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_runs():
    """Whatever is done with hostile text, it does not run."""
    builtins.hostile_text_ran = []
    yield
    ran = builtins.hostile_text_ran
    del builtins.hostile_text_ran
    assert not ran, "text from outside was run"


# -- the functions that check and escape


@given(st.text() | st.sampled_from(HOSTILE))
@example("ﬁ")
def test_what_is_an_identifier_means_itself(name):
    if not is_identifier(name):
        with pytest.raises(NotSupportedError):
            identifier(name)
        return
    tree = ast.parse(code("{} = 1", identifier(name)))
    assert isinstance(tree.body[0].targets[0], ast.Name)
    assert tree.body[0].targets[0].id == name


@given(st.text() | st.sampled_from(HOSTILE))
def test_a_name_made_of_any_text_is_one(text):
    made = made_identifier(text)
    assert made.isidentifier() and not keyword.iskeyword(made) and made == unicodedata.normalize("NFKC", made)


@given(st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none()
       | st.binary() | st.sampled_from(HOSTILE))  # fmt: skip
def test_a_literal_is_the_value(value):
    assert ast.literal_eval(literal(value)) == value
    assert "\n" not in literal(value)


@given(st.text() | st.sampled_from(HOSTILE))
def test_a_comment_ends_with_its_line(text):
    shown = code_text.comment(text)
    assert len(f"x = 1  # {shown}".splitlines()) == 1
    assert ast.dump(ast.parse(f"x = 1  # {shown}\n")) == ast.dump(ast.parse("x = 1\n"))
    tree = ast.parse(f'def f():\n    """{shown}"""\n')
    assert isinstance(tree.body[0].body[0].value, ast.Constant) and len(tree.body[0].body) == 1


def test_values_without_a_literal_are_refused():
    class Evil(str):
        def __repr__(self):
            return CALL

    assert literal(Evil("a")) == "'a'"
    for value in (float("nan"), [], object(), 1j):
        with pytest.raises(NotSupportedError):
            literal(value)


WRITERS = (
    "codegen/python/python_tier.py", "codegen/python/python_writer.py", "operators/python_forms.py",
    "operators/torch_bindings.py", "export/to_python/embedded_functions.py", "export/to_python/readable_graph.py",
    "export/to_python/python_names.py", "export/to_python/python_function.py", "export/to_python/python_spelling.py",
    "export/to_python/python_checks.py", "export/to_python/python_file.py", "export/to_python/python_out.py",
    "codegen/python/vocabulary.py", "export/to_python/python_modules.py", "export/to_python/python_values.py",
    "export/to_python/python_layout.py", "export/to_python/python_variables.py",
    *(f"codegen/torchscript/{name}.py" for name in ("constants_out", "context_classes", "declarations_out",
                                                     "expressions_out", "fragments", "source_out", "type_names")),
)  # fmt: skip


def _is_literal(node):
    if isinstance(node, ast.IfExp):
        return _is_literal(node.body) and _is_literal(node.orelse)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@pytest.mark.parametrize("file", WRITERS)
def test_templates_are_literals(file):
    """Else a name from outside could come in as a template; mypy sees to all that is put into templates."""
    tree = ast.parse((PACKAGE / file).read_text())
    handed_on = [c for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f.name in ("write", "head")
                 for c in ast.walk(f)]  # fmt: skip
    for node in ast.walk(tree):
        if node in handed_on or not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        is_line = name == "write" and ast.unparse(node.func) in ("self.write", "writer.write") and "_out" not in file
        if name in ("code", "fixed") or is_line:
            assert _is_literal(node.args[0]), f"{file}:{node.lineno}: {ast.unparse(node)}"


def test_only_one_module_makes_checked_text():
    for path in PACKAGE.rglob("*.py"):
        if path.name == "code_text.py":
            continue
        tree = ast.parse(path.read_text())
        imports = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)
                   and n.module == "jitlite.ir.code_text" for a in n.names}  # fmt: skip
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                is_maker = node.func.id in {"Text", "Identifier", "Literal"} & imports
                assert not is_maker, f"{path}:{node.lineno}: only code_text.py makes {node.func.id}"


# -- graph text

CONSTANT = '%1 : int = prim::Constant[value="{}"]()'
GRAPHS = [
    'graph(%x : Tensor):\n  %y : Tensor = prim::CallMethod[name="{}"](%x)\n  return (%y)\n',
    'graph(%x : Tensor):\n  %y : Tensor = prim::GetAttr[name="{}"](%x)\n  return (%y)\n',
    'graph(%x : __torch__.M):\n  %y : Tensor = prim::CallMethod[name="{}"](%x)\n  return (%y)\n',
    'graph(%x : __torch__.M):\n  %y : Tensor = prim::GetAttr[name="{}"](%x)\n  return (%y)\n',
    'graph(%x : __torch__.M, %v : Tensor):\n   = prim::SetAttr[name="{}"](%x, %v)\n  return (%v)\n',
    'graph(%t : (int, int)):\n  %y : (int) = prim::TupleSlice[beg="{}", end=2](%t)\n  return (%y)\n',
    'graph(%t : (int, int)):\n  %y : (int) = prim::TupleSlice[beg=1, end="{}"](%t)\n  return (%y)\n',
    'graph():\n  %1 : int = prim::Constant[value="{}"]()\n  return (%1)\n',
    'graph():\n  %1 : Device = prim::Constant[value="{}"]()\n  return (%1)\n',
    'graph():\n  %1 : str = prim::Constant[value="{}"]()\n  return (%1)\n',
    'graph(%x : Tensor):\n  %a : Tensor, %b : Tensor = prim::ConstantChunk[chunks="{}", dim=0](%x)\n  return (%a)\n',
    'graph(%x : Any):\n  %y : bool = prim::isinstance[types="{}"](%x)\n  return (%y)\n',
    'graph(%n : int):\n  %y : Tensor = ^{}()(%n)\n  return (%y)\n',
    'graph(%x : Tensor):\n  %y : Tensor = aten::relu[{}=1](%x)\n  return (%y)\n',
    'graph(%x : Tensor):\n  %y : Tensor = aten::{}(%x)\n  return (%y)\n',
    'graph(%{} : Tensor):\n  return (%{})\n',
    'graph(%x : Tensor):\n  %y : NamedTuple({} : Tensor) = prim::TupleConstruct(%x)\n  return (%y)\n',
    'graph(%x : __torch__.{}):\n  return (%x)\n',
]  # fmt: skip


def _run_and_write(graph, arguments):
    """Everything that can become of a graph, as far as it is refused in words."""
    function = Function("f", graph=graph)
    for use in (
        lambda: ir.verify(graph),
        lambda: translate(graph, "f", lambda called: None).source,
        lambda: translate(graph, "f", lambda called: None).run(*arguments),
        lambda: str(graph),
        lambda: ir.parse(str(graph)),
        lambda: function,
    ):
        try:
            use()
        except (CompileError, VerifyError, jitlite.Error):
            pass
        except Exception as error:
            assert type(error).__module__ == "builtins" or "CannotTranslate" in type(error).__name__, error


@pytest.mark.parametrize("template", GRAPHS)
def test_graph_text_never_runs(template):
    for text in HOSTILE:
        for written in (text, text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")):
            try:
                graph = ir.parse(template.replace("{}", written))
            except CompileError:
                continue
            _run_and_write(graph, (torch.ones(2),) * len(graph.inputs))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('%y : Tensor = prim::CallMethod[name="abs() if print() else x.abs"](%x)', "object of a class"),
        ("%y : Tensor = prim::CallMethod[name=3](%o)", "name of prim::CallMethod is a str"),
        ('%y : (int) = prim::TupleSlice[beg="1", end=2](%t)', "beg of prim::TupleSlice is an int"),
        ("%y : (int) = prim::TupleSlice[beg=True, end=2](%t)", "beg of prim::TupleSlice is an int"),
        ('%y : int = prim::Constant[value="1"]()', "str"),
        ('%y : Tensor = aten::relu[inplace="x"](%x)', "no attribute inplace"),
        ('%y : Tensor = prim::GetAttr[name="__globals__"](%o)', "has no attribute '__globals__'"),
        ('%y : Tensor = prim::CallMethod[name="__reduce_ex__"](%o)', "has no method '__reduce_ex__'"),
        ("%y : bool = prim::isinstance[types=int](%x)", "a list of types"),
        ('%a : Tensor, %b : Tensor = prim::ConstantChunk[chunks="2", dim=0](%x)', "chunks of prim::ConstantChunk"),
    ],
)
def test_attributes_of_nodes_are_held_to_their_declaration(line, message):
    text = f"graph(%x : Tensor, %t : (int, int), %o : __torch__.M):\n  {line}\n  return (%x)\n"
    with pytest.raises(CompileError, match=message):
        ir.parse(text)


def test_who_writes_source_asks_again():
    graph = ir.parse("graph(%t : (int, int)):\n  %y : (int) = prim::TupleSlice[beg=1, end=2](%t)\n  return (%y)\n")
    next(graph.nodes).attributes["beg"] = CALL
    with pytest.raises(NotSupportedError, match="beg of prim::TupleSlice is an int"):
        translate(graph, "f", lambda called: None)


# -- modules whose attributes have any name


class Reads(nn.Module):
    """Reads attributes of a module whatever they are called."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__()
        if kind == "parameter":
            self._parameters[name] = nn.Parameter(torch.ones(2))
        elif kind == "buffer":
            self._buffers[name] = torch.ones(2)
        elif kind == "submodule":
            self._modules[name] = nn.Linear(2, 2)
        else:
            self.__dict__[name] = torch.ones(2)

    def forward(self, x):
        return x * 2


def _module(name, kind):
    """A compiled module that reads an attribute of this name: compiled with another one, which is then renamed."""
    module = Reads(name, kind)
    scope = {"torch": torch, "nn": nn, "__name__": __name__}
    read = f"getattr(self, {name!r})" if kind != "submodule" else f"getattr(self, {name!r})(x)"
    text = (
        f"def forward(self, x):\n    return x * {read}\n"
        if kind != "submodule"
        else (f"def forward(self, x):\n    return {read}\n")
    )
    filename = f"<test {name!r} {kind}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), scope)
    kind_of_module = type("Reads", (Reads,), {"forward": scope["forward"], "__module__": __name__})
    module.__class__ = kind_of_module
    return jitlite.script(module)


def _is_clean(error):
    return isinstance(error, CompileError | NotSupportedError | TypeError | ValueError | RuntimeError | AttributeError)


@pytest.mark.parametrize("kind", ["parameter", "buffer", "submodule", "attribute"])
def test_names_of_attributes_never_run(kind, tmp_path):
    x = torch.ones(1, 2)
    for name in HOSTILE:
        try:
            module = _module(name, kind)
        except Exception as error:
            assert _is_clean(error), (name, error)
            continue
        buffer = io.BytesIO()

        def python():
            program = jitlite.to_python(module)
            exec(compile(program.source, "<source>", "exec"), {"__name__": "generated", "__file__": str(tmp_path)})

        def archive():
            jitlite.save(module, buffer)
            return jitlite.load(io.BytesIO(buffer.getvalue()))(x)

        for write in (
            lambda: module(x),
            lambda: jitlite.to_fx(module)(x),
            lambda: jitlite.to_fx(module).code,
            lambda: jitlite.to_exported(module, (x,)).module()(x),
            python,
            archive,
        ):
            try:
                write()
            except Exception as error:
                assert _is_clean(error), (name, error)


def test_a_submodule_of_any_printable_name_goes_through_fx():
    x = torch.ones(1, 2)
    for name in ("class", "conv-1", "0", "a b"):
        module = _module(name, "submodule")
        assert torch.equal(jitlite.to_fx(module)(x), module(x))


# -- other names and texts


def test_members_of_enums_in_the_source():
    class Color(enum.Enum):
        RED = f'"""\n{CALL}\n"""'
        BLUE = "blue\r\u2028'"

    def f(c: Color) -> str:
        if c == Color.RED:
            return c.value
        return "no"

    program = jitlite.to_python(jitlite.script(f))
    scope = {"__name__": "generated"}
    exec(compile(program.source, "<source>", "exec"), scope)
    assert scope["f"](scope["Color"].RED) == Color.RED.value


def test_texts_are_texts_in_every_form():
    for text in HOSTILE:
        if text in ("\ud800",):
            continue

        def f(x: torch.Tensor, given: str) -> str:
            if given == "raise":
                raise ValueError(given)
            return given

        scripted = jitlite.script(f)
        assert scripted(torch.ones(1), text) == text
        graph = ir.parse(
            f"graph():\n  %1 : str = prim::Constant[value={value_text.value_text(text)}]()\n  return (%1)\n"
        )
        assert translate(graph, text, lambda called: None).run() == text


def test_names_of_files_end_no_line():
    """Places in source are comments of generated code, of graph text and of FX nodes."""
    filename = f"/tmp/x\n{CALL}\n.py"
    text = "def f(x):\n    return x + 1\n"
    scope = {"__name__": __name__}
    exec(compile(text, filename, "exec"), scope)
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scripted = jitlite.script(scope["f"])
    scripted(torch.ones(1))
    shown = translate(scripted.graph, "f", lambda called: None).source
    exec(compile(shown, "<source>", "exec"), {})
    assert str(ir.parse(str(scripted.graph))) == ir.parse(str(scripted.graph)).__str__()
    made = jitlite.to_fx(scripted)
    exec(compile(made.print_readable(print_output=False), "<readable>", "exec"), {"torch": torch})


def test_numbers_of_dtypes_that_there_are_not():
    graph = ir.parse(
        "graph(%x : Tensor):\n  %1 : int = prim::Constant[value=-2147483648]()\n"
        "  %2 : bool = prim::Constant[value=0]()\n"
        "  %3 : NoneType = prim::Constant()\n  %y : Tensor = aten::to(%x, %1, %2, %2, %3)\n  return (%y)\n"
    )
    from jitlite.base.source import Error

    with pytest.raises((Error, CompileError), match="-2147483648"):
        translate(graph, "f", lambda called: None).run(torch.ones(1))


@pytest.mark.parametrize(
    "members",
    [
        "_order_ = 'A B'\n  A = 1", "__new__ = 1", "__init__ = 1", "__class__ = 1", "mro = 1", "_value_ = 1",
        "_missing_ = 3", "_generate_next_value_ = 1", "A = 1\n  A = 2", "_ignore_ = 'a'", "__slots__ = 'a'",
        "_sunder_ = 1", "__eq__ = 1",
    ],
)  # fmt: skip
def test_enums_of_archives_that_python_would_not_make(members):
    text = f"class Color(Enum):\n  {members}\ndef f(c: Color) -> bool:\n  return c == c\n"
    with pytest.raises(CompileError, match="Enum has no member|defined twice"):
        jitlite.CompilationUnit(text)


def test_members_of_one_value_are_one():
    unit = jitlite.CompilationUnit(
        "class Color(Enum):\n  A = 1\n  B = 1\ndef f() -> bool:\n  return Color.A == Color.B\n"
    )
    assert unit.f()


def test_functions_that_double_have_a_bound():
    """`h2 = h1(h1(x))` and so on: inlined, 31 of them would be two thousand million nodes."""
    lines = ["def h0(x: Tensor) -> Tensor:", "    return x + 1"]
    for k in range(1, 31):
        lines += [f"def h{k}(x: Tensor) -> Tensor:", f"    return h{k - 1}(h{k - 1}(x))"]
    lines += ["def top(x: Tensor, go: bool) -> Tensor:", "    if go:", "        x = h30(x)", "    return x * h3(x)"]
    unit = jitlite.CompilationUnit("\n".join(lines))
    assert unit.top(torch.ones(1), False) == 9
    kinds = [node.kind for node in unit.top.optimized_graph.all_nodes()]
    assert kinds.count("prim::CallFunction") == 1
    assert unit.h10(torch.ones(1)) == 1025
