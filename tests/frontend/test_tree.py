"""The tree view: its text, its places, and building it from Python source."""

import re
import textwrap
from typing import List, Optional  # noqa: F401 - names in annotations of the functions below

import pytest
import torch  # noqa: F401

from jitlite.base.source import AnnotationError, CompileError, NotSupportedError, Source, SourceRange
from jitlite.frontend.syntax import tree as t
from jitlite.frontend.syntax.python_ast import function_in_text, function_tree, parse_expression, parse_functions
from jitlite.frontend.syntax.python_source import parse_statements

PLACE = SourceRange(Source("x"), 0, 1)


def var(name):
    return t.Var(t.Ident(name, range=PLACE), range=PLACE)


def tree_of(text):
    (definition,) = parse_functions(textwrap.dedent(text))
    return definition


def body_of(*statements):
    return tree_of("def f(x):\n" + "".join(f"    {line}\n" for s in statements for line in s.splitlines())).body


def flat(tree):
    """The tree on one line, variables by their names."""
    return re.sub(r"\(variable \(ident (\w+)\)\)", r"\1", " ".join(str(tree).split()))


# Text


def test_a_tree_of_less_than_40_characters_is_one_line():
    assert str(t.ListLiteral((), range=PLACE)) == "(list-literal (list))"
    assert str(var("a" * 20)) == f"(variable (ident {'a' * 20}))"  # 39 characters
    assert str(var("a" * 21)) == f"(variable\n  (ident {'a' * 21}))"


def test_every_part_of_a_declaration():
    definition = tree_of("def f(a, b: int = 3, *, c: Optional[str] = None) -> bool: return True")
    assert (
        str(definition)
        == textwrap.dedent(
            """
            (def
              (ident f)
              (decl
                (list
                  (param
                    (ident a)
                    (option)
                    (option)
                    (False))
                  (param
                    (ident b)
                    (option (variable (ident int)))
                    (option (const 3))
                    (False))
                  (param
                    (ident c)
                    (option
                      (subscript
                        (variable (ident Optional))
                        (list
                          (variable (ident str)))))
                    (option (None))
                    (True)))
                (option (variable (ident bool))))
              (list (return (True))))
            """
        ).strip()
    )


def test_a_class_prints_its_optional_lists():
    name = t.Ident("C", range=PLACE)
    assign = t.Assign((var("N"),), t.TrueLiteral(range=PLACE), None, range=PLACE)
    decl = t.Decl((), None, range=PLACE)
    getter = t.Def(name, decl, (t.Pass(range=PLACE),), range=PLACE)
    prop = t.Property(name, getter, None, range=PLACE)
    flat = " ".join(str(t.ClassDef(name, None, (), (prop,), (assign,), range=PLACE)).split())
    assert flat == (
        "(class (ident C) (option) (list) (option (list (property (ident C) (def (ident C) (decl (list) (option)) "
        "(list (pass))) (option)))) (option (list (assign (list (variable (ident N))) (option (True)) (option)))))"
    )
    assert str(t.ClassDef(name, None, (), None, None, range=PLACE)).endswith("(list)\n  (option)\n  (option))")
    assert str(t.Global((name,), range=PLACE)) == "(global (list (ident C)))"


STATEMENTS = {
    "a = b = 1": "(assign (list a b) (option (const 1)) (option))",
    "a: int = 1": "(assign (list a) (option (const 1)) (option int))",
    "a = []  # type: int": "(assign (list a) (option (list-literal (list))) (option int))",
    "a, *b = x": "(assign (list (tuple-literal (list a (starred b)))) (option x) (option))",
    "a **= 2": "(aug_assign a (pow operator) (const 2))",
    "a //= 2": "(aug_assign a (floordiv) (const 2))",
    "a @= x": "(aug_assign a (@) x)",
    "return": "(return (None))",
    "raise E from x": "(raise from E x)",
    "raise": "(raise again)",
    "assert x, 'm'": "(assert x (option (string_literal m)))",
    "assert x": "(assert x (option))",
    "pass": "(pass)",
    "del x, x[0]": "(del (list x (subscript x (list (const 0)))))",
    "'text'": "(expression statement (string_literal text))",
    "while x: break": "(while x (list (break)))",
    "for i, j in x: continue": "(for (list (tuple-literal (list i j))) (list x) (list (continue)))",
    "while x: break\nelse: pass": "(loop else (while x (list (break))) (list (pass)))",
    "try: pass\nfinally: return": "(try (list (pass)) (list) (list) (list (return (None))))",
    "try: pass\nexcept E as e: raise e\nexcept: pass\nelse: return": "(try (list (pass))"
    " (list (except (option E) (option (ident e)) (list (raise e))) (except (option) (option) (list (pass))))"
    " (list (return (None))) (list))",
    "if x: pass\nelif y: pass": "(if x (list (pass)) (list (if y (list (pass)) (list))))",
    "with x as a, y: pass": "(with (list (withitem x (option a)) (withitem y (option))) (list (pass)))",
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_statement(text):
    (statement,) = body_of(text)
    assert flat(statement) == STATEMENTS[text]


EXPRESSIONS = {
    "1": "(const 1)",
    "0x10": "(const 16)",
    "1e10": "(const 10000000000.0)",
    "3j": "(const 3j)",
    "True": "(True)",
    "None": "(None)",
    "...": "(dots)",
    "'q\"'": '(string_literal q")',
    "'a' 'b'": "(string_literal ab)",
    "-1": "(unary minus (const 1))",
    "+x": "(unary plus x)",
    "~x": "(~ x)",
    "a // b": "(floordiv a b)",
    "a ** b": "(pow operator a b)",
    "a or b and c": "(or a (and b c))",
    "a and b and c": "(and (and a b) c)",
    "1 < 2 <= 3": "(and (< (const 1) (const 2)) (le (const 2) (const 3)))",
    "1 not in x": "(not (in (const 1) x))",
    "x is not None": "(is not x (None))",
    "a if c else b": "(if c a b)",
    "a.b(1, *x, k=2)": "(apply (. a (ident b)) (list (const 1) (starred x)) (list (attribute (ident k) (const 2))))",
    "x[1:, ..., None]": "(subscript x (list (slice expr (option (const 1)) (option) (option)) (dots) (None)))",
    "x[()]": "(subscript x (list (tuple-literal (list))))",
    "{}": "(dict-literal (list) (list))",
    "{1: 2}": "(dict-literal (list (const 1)) (list (const 2)))",
    "[i for i in x]": "(list comprehension i i x)",
    "f(i for i in x)": "(apply f (list (list comprehension i i x)) (list))",
    "{k: 1 for k in x}": "(dict comprehension k (const 1) k x)",
    "[i for i in x if i]": "(list comprehension i i x (list (if i)))",
    "{i: j for i in x for j in y if j}": "(dict comprehension i j i x (list (for j y) (if j)))",
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression(text):
    assert flat(parse_expression(text)) == EXPRESSIONS[text]


@pytest.mark.parametrize(
    "f_string, text",
    [
        ("f'{a} b {c}'", "{} b {}"),
        ("f'{a:.2f}'", "{:.2f}"),
        ("f'{a!r:>{n}}|'", "{!r:>{}}|"),
        ("f'{{{a}}}'", "{{{}}}"),
        ("f'{a=}'", "a={!r}"),
        ("'{' f'{a}'", "{{{}"),
    ],
)
def test_f_strings_become_format(f_string, text):
    apply = parse_expression(f_string)
    assert isinstance(apply, t.Apply) and isinstance(apply.callee, t.Select)
    assert apply.callee.value == t.StringLiteral(text, range=PLACE)
    names = {"a": 2.5, "n": 7, "c": "s"}
    values = [names[arg.name.name] for arg in apply.args]
    assert text.format(*values) == eval(f_string, names)


def test_trees_compare_by_content():
    assert parse_expression("f(x)  +1") == parse_expression("f(x)+1")
    assert parse_expression("f(x)") != parse_expression("f(y)")
    assert len({parse_expression("x"), parse_expression(" x")}) == 1


def test_walk_gives_parents_first():
    kinds = [type(tree).__name__ for tree in parse_expression("a + b[1]").walk()]
    assert kinds == ["BinOp", "Var", "Ident", "Subscript", "Var", "Ident", "Const"]


# Places


@pytest.mark.parametrize(
    "text, covered",
    [
        ("(a + b) * c", "a + b) * c"),
        ("f(x, k=1)", "f(x, k=1"),
        ("x[1, 2]", "x[1, 2]"),
        ("[a, b]", "[a, b"),
        ("not a", "not a"),
        ("'abc'", "'abc"),
        ("a .b", "a .b"),
        ("c if a else b", "c if a else b"),
        ("[i for i in x]", "[i for i in x"),
        ("10_000", "10_000"),
    ],
)
def test_range_of_expression(text, covered):
    assert parse_expression(text).range.text == covered


def test_range_of_statement_starts_with_its_keyword():
    texts = [s.range.text for s in body_of("return x", "if x: y = 1", "x += 1", "del x")]
    assert texts == ["return x", "if x: y = 1", "x += 1", "del x"]


def test_columns_count_characters():
    (statement,) = body_of("é = g('ü', x)")
    assert isinstance(statement, t.Assign) and isinstance(statement.value, t.Apply)
    argument = statement.value.args[1]
    assert argument.range.text == "x" and argument.range.column == 4 + 11


def nested_in_a_method():
    def decorated(fn):
        return fn

    @decorated
    def inner(x: int) -> int:
        text = """
kept as it is
    even here"""
        # a comment further left than the code
        return x + len(text)

    return inner


def test_indented_source_keeps_columns_and_strings():
    function = function_tree(nested_in_a_method())
    returned = function.definition.body[-1]
    assert returned.range.column == 8
    assert returned.range.text == "return x + len(text"
    with open(__file__) as file:
        assert file.readlines()[returned.range.line - 1].strip() == "return x + len(text)"
    assert isinstance(function.definition.body[0], t.Assign)
    assert function.definition.body[0].value == t.StringLiteral("\nkept as it is\n    even here", range=PLACE)


class Holder:
    def method(self, x, y: int = 4, *, z: float = 1.0):
        return x


def test_methods_and_defaults():
    function = function_tree(Holder().method, name="forward", self_name="__torch__.Holder")
    assert function.definition.name.name == "forward"
    first, second, third, fourth = function.definition.decl.params
    assert first.type == var("__torch__.Holder")
    assert second.type is None
    assert third.default is None
    assert fourth.kwarg_only
    assert function.defaults == {"y": 4, "z": 1.0}


def positional_only(x, /, y):
    return x, y


def test_positional_only_parameters_are_parameters():
    assert [p.ident.name for p in function_tree(positional_only).definition.decl.params] == ["x", "y"]


# Type comments


def whole_comment(x, y, z=None):
    # type: (int, List[str], Optional[int]) -> bool  # noqa
    return True


def comment_per_parameter(
    x,  # type: int
    y=None,  # type: Optional[List[int]]
    *,
    z,  # type: float
):
    # type: (...) -> float
    return 1.0


class CommentedMethod:
    def f(self, x):
        # type: (int) -> int
        return x


def signature(fn, **options):
    decl = function_tree(fn, **options).definition.decl
    return [None if p.type is None else p.type.range.text for p in decl.params], str(decl.return_type)


def test_type_comments_are_annotations():
    assert signature(whole_comment) == (["int", "List[str]", "Optional[int]"], "(variable (ident bool))")
    assert signature(comment_per_parameter) == (["int", "Optional[List[int]]", "float"], "(variable (ident float))")
    types, returned = signature(CommentedMethod.f, self_name="C")
    assert types[1] == "int" and returned == "(variable (ident int))"


@pytest.mark.parametrize(
    "text, message",
    [
        ("def f(x, y):\n    # type: (int) -> int\n    return x", "(1) did not match the number of function parameters"),
        ("def f(x):\n    #type: (int) -> int\n    return x", "annotation prefix in line 2"),
        ("def f(x,  # type: int\n    y):\n    return x", "Return type line"),
        ("def f(x):\n    return x  # type: int", "belongs to no parameter"),
        ("def f(x):\n    # type: (int -> int\n    return x", "invalid Python"),
        ("def f(\n    # type: int\n    x):\n    # type: (...) -> int\n    return x", "no parameter on the line"),
    ],
)  # fmt: skip
def test_wrong_type_comments(text, message):
    with pytest.raises(CompileError) as error:
        parse_functions(text)
    assert message in str(error.value)
    assert "~" in str(error.value)


def test_nested_functions_have_defaults_and_types():
    nested, lambda_ = body_of("def g(a, b: int = 2) -> int: return a\ny = lambda a, *, c=x: a + c")
    assert [p.default is None for p in nested.decl.params] == [True, False]
    assert str(nested.decl.return_type) == "(variable (ident int))"
    assert str(lambda_.value.body.right) == "(variable (ident c))"
    assert lambda_.value.decl.params[1].kwarg_only


# What is not TorchScript


REJECTED = {  # statement: what is underlined, part of the message
    "y[0]: int": ("y[0]: int", "without assigned value"),
    "try: pass\nexcept* E: pass": ("try", "exception groups aren't supported"),
    "return __jit_x": ("__jit_x", "can't start with __jit"),
    "async def g(): pass": ("async def", "async function definitions aren't supported"),
    "@f\ndef g(): pass": ("f", "decorators of nested functions aren't supported"),
    "class C: pass": ("class", "class definitions aren't supported"),
    "return b'x'": ("b'x'", "bytes literals"),
    "nonlocal y": ("nonlocal", "nonlocal variables aren't supported"),
    "import math": ("import", "import statements aren't supported in a text"),
    "from math import pi": ("from", "import statements aren't supported in a text"),
    "yield x": ("yield", "yield expressions aren't supported"),
    "self.y: int = 1": ("self.y: int", "must be declared in __init__"),
    "with x as (a, b): pass": ("(a, b", "plain name"),
    "match x:\n    case [1 as a] | [2, a]: pass": ("[", "a pattern with `|` that captures names"),
}


@pytest.mark.parametrize("text", REJECTED)
def test_rejection_names_construct_and_place(text):
    underlined, message = REJECTED[text]
    with pytest.raises((NotSupportedError, AnnotationError)) as error:
        body_of(text)
    assert message in error.value.message
    assert error.value.range is not None
    assert error.value.range.text == underlined


@pytest.mark.parametrize("header, underlined", [("*args", "*args"), ("x, **options", "**options")])
def test_variable_numbers_of_arguments(header, underlined):
    with pytest.raises(NotSupportedError, match="variable number of arguments") as error:
        parse_functions(f"def f({header}): pass")
    assert error.value.range.text == underlined


def test_error_shows_file_line_and_caret():
    def fails(x):
        y = 1
        return y + b"x"

    with pytest.raises(NotSupportedError) as error:
        function_tree(fails)
    line = fails.__code__.co_firstlineno + 2
    first, place, head, between, source, carets, hint, more = str(error.value).splitlines()
    assert place == f'  at File "{__file__}", line {line}, in fails'
    assert (head, between) == ("    def fails(x):", "        y = 1")
    assert first == f"{__file__}:{line}:19: bytes literals aren't supported"
    assert source == '        return y + b"x"'
    assert carets.startswith(" " * 19 + "~" * 3)
    assert hint.startswith("hint: use a str") and more == "more: jitlite explain J0401"


async def asynchronous(x):
    return x


def made_by_exec():
    names = {}
    exec("def f(x): return x", names)
    return names["f"]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: len, "'len' is not a Python function"),
        (lambda: 3, "'3' is not a Python function but int"),
        (lambda: asynchronous, "async function definitions"),
        (lambda: eval("lambda x: x"), "Can't get source for '<lambda>' (<string>:1)"),
        (made_by_exec, "Can't get source for 'f' (<string>:1)"),
    ],
)
def test_what_has_no_definition(make, message):
    with pytest.raises(CompileError) as error:
        function_tree(make())
    assert message in str(error.value)


def test_text_that_is_not_python():
    with pytest.raises(CompileError, match="invalid Python") as error:
        parse_functions("def f(x):\n    return x +\n", "some.py")
    assert str(error.value).startswith("some.py:2:")
    with pytest.raises(NotSupportedError, match="expected a function definition"):
        parse_functions("x = 1")


def test_text_may_start_indented():
    first, second = parse_functions("\n    # comment\n    def f(x): return x\n    def g(y): return y\n")
    assert (first.name.name, second.name.name) == ("f", "g")
    assert second.range.line == 4 and second.range.column == 4


def test_expression_in_a_string_stands_in_the_string():
    literal = parse_expression("'List[int]'")
    inner = parse_expression(literal.value, literal.range)
    assert inner.indices[0].range.text == "int"
    assert inner.indices[0].range.start == 6
    escaped = parse_expression(r"'\x69nt'")
    assert parse_expression(escaped.value, escaped.range).range is escaped.range


# Size


def test_ten_thousand_statements():
    definition = tree_of("def f(x):\n" + "    x = x + 1\n" * 10_000)
    assert len(definition.body) == 10_000
    assert definition.body[-1].range.line == 10_001
    assert str(definition).count("(assign") == 10_000


def test_long_chains():
    assert flat(parse_expression("a" + " + a" * 500)).count("(+") == 500
    assert flat(parse_expression("a" + ".f()" * 300)).count("(apply") == 300
    assert flat(parse_expression("a" + " and a" * 500)).count("(and") == 500
    (chain,) = body_of("if x: pass\n" + "elif x: pass\n" * 500)
    assert str(chain).count("(if") == 501


def test_a_function_met_near_the_end_of_the_stack_is_refused_with_its_place():
    parsed = parse_statements(Source("def f(x):\n    return x\n", "t.py"))
    (node,) = parsed.body
    refused, built = [], []

    def descend():
        try:
            descend()
        except RecursionError:
            pass
        if not built:
            try:
                built.append(function_in_text(parsed, node, 3, is_method=False))
            except CompileError as error:
                refused.append(error)
            except RecursionError:  # not even the builder could be made
                pass

    descend()
    assert built and refused
    assert {str(error).splitlines()[0] for error in refused} <= {
        "t.py:1:0: this code is nested too deeply",
        "t.py:2:4: this code is nested too deeply",
    }


@pytest.mark.parametrize("text", ["-" * 2000 + "a", "[" * 500 + "]" * 500, "a if b else " * 2000 + "c"])
def test_too_deep_is_an_error_of_the_program(text):
    with pytest.raises(CompileError, match="too deeply|too many nested"):
        body_of(f"return {text}")
