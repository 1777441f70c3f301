"""What the front end says of programs that it refuses: the words that programs written for TorchScript look for."""

import collections
import copy
import io
import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union  # noqa: UP035 - the spellings are the subject

import pytest
import torch

import jitlite
from jitlite.base.source import AnnotationError

Bare = collections.namedtuple("Bare", ["size"])


class Opens:
    def __init__(self):
        self.depth = 0

    def __enter__(self, by: int):
        self.depth += by

    def __exit__(self, kind: Any, value: Any, trace: Any):
        pass


class Closes:
    def __init__(self):
        self.depth = 0

    def __enter__(self):
        self.depth += 1

    def __exit__(self, kind: Any, value: int, trace: Any):
        pass


class Plain:
    def __init__(self):
        self.depth = 0


@jitlite.ignore
class LeftToPython:
    def __init__(self):
        self.depth = 0


class Doubling(torch.nn.Module):
    def forward(self, x):
        return 2 * x


doubling = Doubling()


def strings_for_ints():
    xs: List[int] = ["one"]
    return xs


def list_for_int():
    n: int = [1]
    return n


def list_for_union():
    n: Union[int, str] = [1]
    return n


def list_for_neither():
    xs: Union[List[int], List[str]] = [1.5]
    return xs


def empty_of_two_kinds():
    d: Union[Dict[str, int], Dict[str, float]] = {}
    return d


def values_of_dict():
    d: Dict[str, int] = {"a": 1.5}
    return d


def generated_keys():
    d: Dict[int, int] = {k: 1 for k in ["a"]}
    return d


def keys_of_two_types():
    return {"a": 1, 2: 3}


def method_of_int(n: int):
    return n.add(1)


def method_of_optional(x: Optional[torch.Tensor]):
    return x.relu()


def no_index(x):
    return x.__getitem__()


def keyword_of_slice(xs: List[int]):
    return xs[slice(0, stop=1)]


def no_range():
    return [i for i in range()]


def long_range():
    return [i for i in range(1, 2, 3, 4)]


def keyword_of_print(x):
    print(x, color="red")


def builtin_as_value(x):
    return torch.relu


def class_as_value():
    return io.StringIO


def class_of_modules():
    return Doubling()


def class_left_to_python():
    return LeftToPython()


def foreign_module(x):
    return doubling(x)


def unknown_in_module(x):
    return math.cosinus(x)


def too_few():
    a, b, c = 1, 2
    return a, b, c


def too_many():
    a, b = 1, 2, 3
    return a, b


def changing_index(n: int):
    return (1, "a")[n]


def untyped_field():
    return Bare(1)


def opens(cm: Opens):
    with cm:
        pass


def closes(cm: Closes):
    with cm:
        pass


def opens_int():
    with 1:
        pass


def deletes(p: Plain):
    del p["key"]


def adds_in_place(p: Plain):
    p += 1
    return p


def several_types(xs: List[torch.Tensor]):
    return [xs] + [[1]]


REFUSED = [  # function, a part of the message, what is underlined
    (strings_for_ints, "List type annotation `List[int]` did not match the types of the given list elements", '["one'),
    (list_for_int, "Expected an annotation of type List but got int", "[1"),
    (list_for_union, "Expected an Union type annotation with an inner List type", "[1"),
    (list_for_neither, "none of those types match the types of the given list elements", "[1.5"),
    (empty_of_two_kinds, "multiple possible Dict type candidates in the Union annotation", None),
    (values_of_dict, "the type of values given by the dict literal is float", None),
    (generated_keys, "Dict type annotation `Dict[int, int]` did not match the type of an actual key type `str`", None),
    (keys_of_two_types, "Dicts may only contain homogeneous keys", None),
    (method_of_int, "'int' object has no attribute or method 'add'", "add"),
    (method_of_optional, "hint: it may be None here", "relu"),
    (no_index, "expected exactly 1 argument", None),
    (keyword_of_slice, "Slice does not accept any keyword arguments", None),
    (no_range, "range expected at least 1 arguments, got 0", None),
    (long_range, "range expected at most 3 arguments, got 4", None),
    (keyword_of_print, "print has no parameter 'color'", None),
    (builtin_as_value, "builtin cannot be used as a value", "torch.relu"),
    (class_as_value, "python value of type 'type' cannot be used as a value", "StringIO"),
    (class_of_modules, "cannot be compiled since it inherits from nn.Module", None),
    (class_left_to_python, "Cannot instantiate class 'LeftToPython'", "LeftToPython"),
    (foreign_module, "not a submodule of the caller", None),
    (unknown_in_module, "object has no attribute cosinus", "cosinus"),
    (too_few, "need 3 values to unpack, found only 2", None),
    (too_many, "too many values to unpack: need 2 but found 3", None),
    (changing_index, "because we cannot resolve the output type", None),
    (untyped_field, "Expected a value of type 'Tensor (inferred)' for argument 'size'", None),
    (opens, "__enter__ must have only one argument", "cm"),
    (closes, "argument 2 of __exit__ must have Any type", "cm"),
    (opens_int, "must return an object", "1"),
    (deletes, "Class does not define __delitem__", 'p["key"'),
    (adds_in_place, "Cannot emit inplace op", None),
    (several_types, "previously matched to type", None),
]


@pytest.mark.parametrize(("function", "words", "underlined"), REFUSED, ids=[f.__name__ for f, _, _ in REFUSED])
def test_refused(function, words, underlined):
    with pytest.raises(jitlite.CompileError) as caught:
        jitlite.script(function)
    text = str(caught.value)
    assert words in text
    if underlined is not None:
        lines = text.splitlines()
        marks = next(i for i, line in enumerate(lines) if line.endswith("<--- HERE"))
        start = lines[marks].index("~")
        assert lines[marks - 1][start:].startswith(underlined)
        assert lines[marks].count("~") == len(underlined)


def test_bad_annotations_are_value_errors_too():
    def unknown(x: Dict[str, io.StringIO]):
        return x

    with pytest.raises(AnnotationError, match="Unknown type annotation") as caught:
        jitlite.script(unknown)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("*a, *b = (1, 2)", "Only one starred expression is allowed on the lhs"),
        ("[*a] = (1, 2)", "A Starred expression may only appear on the lhs within the presence of another"),
        ("for *a in [(1, 2)]: pass", "A Starred expression may only appear on the lhs"),
        ("break", "SyntaxError: 'break' outside loop"),
    ],
)
def test_refused_in_texts(line, words):
    with pytest.raises(jitlite.CompileError, match=words):
        jitlite.CompilationUnit(f"def f():\n    {line}\n    return 1\n")


def test_broadcasting_list_needs_a_number():
    with pytest.raises(jitlite.CompileError, match="must be a positive integer: BroadcastingListN"):
        jitlite.CompilationUnit("def f(x: BroadcastingListN[int]):\n    return x\n")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("def f(a,  # type: int\n      b,  # type: int\n      ):\n    # type: (int, int) -> int\n", "Return type line"),
        ("def f(a,  # type: int\n      b\n      ):\n    # type: (...) -> int\n", r"Number of type annotations \(1\)"),
        ("def f(a):\n    # type: (int, int) -> int\n", r"did not match the number of function parameters \(1\)"),
    ],
)
def test_type_comments_that_do_not_fit(header, words):
    with pytest.raises(jitlite.CompileError, match=words):
        jitlite.CompilationUnit(f"{header}    return a\n")


def test_type_comments_behind_the_signature_are_comments():
    unit = jitlite.CompilationUnit(
        "def f(a,  # type: int\n      ):\n    # type: (...) -> int\n    # type: int\n    return a\n"
    )
    assert unit.f(3) == 3


# -- arguments from Python


def union_of_lists(x: Union[List[int], Dict[str, int]]):
    return 1


def bare_tuple(x: Bare):
    return x.size


def plain_object(p: Plain):
    return p.depth


@jitlite.interface
class Speaks:
    def speak(self, x: int) -> int:
        pass


def heard(s: Speaks):
    return s.speak(1)


class Other(NamedTuple):
    width: torch.Tensor


@pytest.mark.parametrize(
    ("function", "value", "words"),
    [
        (
            union_of_lists,
            ["a"],
            "Expected a member of Union[List[int], Dict[str, int]] but instead found type List[str]",
        ),
        (bare_tuple, Other(torch.ones(1)), "found type 'Other (aka NamedTuple(width))'"),
        (plain_object, torch.ones(1), "missing attribute depth"),
        (heard, 3, "its class 'int' is not compatible with interface __torch__"),
    ],
)
def test_refused_arguments(function, value, words):
    with pytest.raises(RuntimeError) as caught:
        jitlite.script(function)(value)
    assert words in str(caught.value)


# -- what is accepted


@jitlite.ignore
def last(x, *more):
    return more[-1] if more else x


@jitlite.ignore
def no_tensor() -> torch.Tensor:
    return (1, 2)


class Counts:
    @jitlite.ignore
    def __call__(self, *xs) -> int:
        return len(xs)


counts = Counts()


def test_ignored_functions_take_any_number_of_tensors():
    def f(x, y):
        return last(x), last(x, y), last(x, x, y), counts(x), counts(x, y)

    x, y = torch.ones(1), torch.zeros(1)
    assert jitlite.script(f)(x, y) == (x, y, y, 1, 2)


def test_results_of_ignored_functions_are_checked():
    def f():
        return no_tensor()

    with pytest.raises(RuntimeError, match=r"expected value of type Tensor for return value but instead got .* tuple"):
        jitlite.script(f)()


def test_devices_by_keyword():
    def f():
        return torch.device(type="cpu"), torch.device("cpu", index=0), torch.device(type="cpu", index=1)

    assert jitlite.script(f)() == f()


def test_names_in_annotations_mean_what_they_meant_when_the_function_was_defined():
    place, number = torch.device, int

    class Holder:
        def first(self, xs: List[place]) -> place:
            return xs[0]

        def count(self, n: Optional[number], pairs: Dict[str, Tuple[number, place]]) -> number:
            return len(pairs)

    def f():
        h = Holder()
        return h.first([torch.device("cpu")]), h.count(None, {"a": (1, torch.device("cpu"))})

    assert jitlite.script(f)() == (torch.device("cpu"), 1)


def test_dict_of_an_empty_list_takes_the_annotated_type():
    def f():
        d: Dict[int, str] = dict([])  # noqa: C406
        d[1] = "a"
        return d

    assert jitlite.script(f)() == {1: "a"}


def test_tolist_of_bools_and_complex_numbers():
    def f(x, z):
        bools: List[bool] = x.tolist()
        numbers: List[complex] = z.tolist()
        return bools, numbers

    assert jitlite.script(f)(torch.tensor([True]), torch.tensor([1j])) == ([True], [1j])


def test_a_power_of_large_ints_is_a_float_at_once():
    def f(a: int, b: int):
        return math.pow(a, b)

    assert jitlite.script(f)(3, 2) == 9.0
    with pytest.raises(OverflowError):
        jitlite.script(f)(2**32, 2**32)


def test_a_number_stands_for_a_list_of_fixed_length():
    unit = jitlite.CompilationUnit("def f(x: BroadcastingList3[float]):\n    return x\n")
    assert unit.f(1.5) == [1.5, 1.5, 1.5] == unit.f((1.5, 1.5, 1.5))


def test_a_tensor_unpacks_into_a_tuple_parameter():
    def f(x: Tuple[torch.Tensor, torch.Tensor]):
        return x[1]

    assert jitlite.script(f)(torch.arange(2)) == 1


def test_legacy_tensor_classes_warn():
    def f(x: torch.LongTensor):
        return x

    with pytest.warns(UserWarning, match="TorchScript will treat type annotations of Tensor"):
        jitlite.script(f)


# -- modules with methods from text


class Scaled(jitlite.ScriptModule):
    def __init__(self):
        super().__init__()
        self.scale = 3
        self.define("def scaled(self, x: int):\n    return self.scale * x\n")

    @jitlite.script_method
    def forward(self, x: int):
        return self.scaled(x) + 1


def test_methods_from_text_can_be_called_by_others():
    assert Scaled()(2) == 7


def test_forward_from_text():
    module = jitlite.ScriptModule()
    module.define("def forward(self, x: int):\n    return x + 1\n")
    assert module(1) == 2 == copy.deepcopy(module)(1)


def test_constants_and_initialization():
    class Fixed(jitlite.ScriptModule):
        __constants__ = ["n"]

        def __init__(self, complete):
            if complete:
                super().__init__()
                self.n = 1

    with pytest.raises(RuntimeError, match="super"):
        Fixed(False)
    for kind in (RuntimeError, AttributeError):
        with pytest.raises(kind, match="Cannot mutate TorchScript constant"):
            Fixed(True).n = 2


def test_unwrapping_an_optional():
    def f(x: Optional[int]):
        return jitlite._unwrap_optional(x) + 1

    assert jitlite.script(f)(2) == 3 == f(2)
    for function in (f, jitlite.script(f)):
        with pytest.raises(AssertionError, match="Unwrapping null optional"):
            function(None)


def test_a_block_left_to_python():
    def f(n: int):
        text = ""
        with jitlite._IgnoreContextManager(n="inp:int", text="out:str"):
            text = "".join(str(i) for i in {n, n + 1})
        return text

    assert jitlite.script(f)(1) == "12" == f(1)


# -- the layout: where in its function, how the compiler came there


def error_of(obj):
    with pytest.raises(jitlite.CompileError) as caught:
        jitlite.script(obj)
    return caught.value


def deep(x):
    a = x + 1
    b = a + 1
    c = b + 1
    return c + nothing_like_it  # noqa: F821


def middle(x):
    return deep(x)


def outermost(x):
    return middle(x)


def test_the_function_around_is_shown():
    def short(x):
        y = x + 1  # noqa: F841
        return nothing_like_it  # noqa: F821

    error = error_of(short)
    lines = str(error).splitlines()
    assert lines[1] == f'  at File "{__file__}", line {error.range.line}, in short'
    assert [line.split("#")[0].strip() for line in lines[2:5]] == [
        "def short(x):",
        "y = x + 1",
        "return nothing_like_it",
    ]


def test_of_a_long_function_the_head_and_the_line_before_are_shown():
    lines = [line.strip() for line in str(error_of(deep)).splitlines()]
    head = lines.index("def deep(x):")
    assert lines[head + 1 : head + 4] == ["...", "c = b + 1", "return c + nothing_like_it  # noqa: F821"]


def test_the_lines_behind_the_place_are_shown():
    def early(x):
        y = nothing_like_it  # noqa: F821
        return y

    assert "<--- HERE\n        return y" in str(error_of(early))


def test_the_callers_are_shown_with_their_heads():
    lines = [line.strip() for line in str(error_of(outermost)).splitlines()]
    assert len(lines) <= 15
    calls = [line for line in lines if "is being compiled since it was called from" in line]
    assert [line.split("'")[1] for line in calls] == ["deep", "middle"]
    assert f"{__file__}:" in calls[0]


def test_chains_of_calls_name_the_function_though_a_class_is_on_the_way():
    class Wrong:
        def __init__(self):
            self.n = 1

        def method(self) -> int:
            return issubclass(self.n, int)

    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.held = Wrong()

        def forward(self) -> int:
            return self.held.method()

    text = str(error_of(Holder()))
    assert "'method' is being compiled since it was called from 'forward'" in text
    assert "failed to convert Python type: " in text and "Wrong" in text
    assert "def forward(self) -> int:" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(x):\n  x + 1 = x\n", "unexpected expression"),
        ("def f(x):\n  a, *1 = x\n", "Cannot pack a tuple into a non-variable"),
        ("def f(x):\n  a, b += x\n", "augmented assignment can only have one LHS expression"),
        ('def f(x):\n  print("\n")\n', "expected a valid token"),
        ("def f(x):\n  return x ? 1\n", "invalid Python"),
    ],
)
def test_texts_that_are_no_python(text, words):
    with pytest.raises(jitlite.CompileError, match=words):
        jitlite.CompilationUnit(text)


def test_the_places_in_texts():
    with pytest.raises(jitlite.CompileError) as caught:
        jitlite.CompilationUnit("def f(x: Tensor):\n  y = x.tolist()\n  return y\n")
    assert caught.value.range.text == "x.tolist("
    with pytest.raises(jitlite.CompileError) as caught:
        jitlite.CompilationUnit('def f():\n  with "text" as t:\n    pass\n')
    assert caught.value.range.text == '"text"'


def test_a_type_comment_of_another_length_is_told_at_the_head():
    def two(a):
        # type: (int, int) -> int
        return a

    error = error_of(two)
    assert error.range.text == "def two(a"
    assert "# type: (int, int) -> int" in str(error)


def test_a_jump_outside_a_loop_in_a_function_that_is_never_called():
    text = "def f(n: int):\n  for i in range(n):\n    def g():\n      if n > 1:\n        break\n  return n\n"
    with pytest.raises(jitlite.CompileError, match="SyntaxError: 'break' outside loop"):
        jitlite.CompilationUnit(text)
    assert jitlite.CompilationUnit(text.replace("if n > 1:", "while True:")).f(2) == 2


def test_a_module_of_another_kind_is_refused_by_the_names_of_both():
    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.ReLU()

        def forward(self, x):
            return self.inner(x)

    scripted = jitlite.script(Outer())
    with pytest.raises(RuntimeError, match="for field 'inner', but found '.*Tanh .*'"):
        scripted.inner = jitlite.script(torch.nn.Tanh())


def test_an_interface_has_no_methods_of_other_bases():
    class Base:
        def one(self, x: int) -> int:
            return x

    with pytest.raises(jitlite.NotSupportedError, match="does not support inheritance yet.*'one'"):

        @jitlite.interface
        class Derived(Base):
            def two(self, x: int) -> int:
                pass
