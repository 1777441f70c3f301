"""What is printed, formatted and raised shows lists of scripts as what they are in Python."""

from __future__ import annotations

import pytest
import torch
from accepted_python import T34, Table, check_case, source_of
from strategies import compile_source

import jitlite
from jitlite.base.source import CompileError

SOURCES = {
    "shape": ("x: Tensor, c: bool", "x.shape"),
    "size": ("x: Tensor, c: bool", "x.size()"),
    "slice": ("x: Tensor, c: bool", "x.shape[1:]"),
    "empty slice": ("x: Tensor, c: bool", "x.shape[2:]"),
    "sum with a tuple": ("x: Tensor, c: bool", "(1,) + x.shape + (2, 3)"),
    "multiple": ("x: Tensor, c: bool", "x.shape * 2"),
    "chosen": ("x: Tensor, c: bool", "(x.shape if c else x[0].shape)"),
    "broadcast": ("x: Tensor, c: bool", "torch.broadcast_shapes(x.shape, (1, 4))"),
    "strides": ("x: Tensor, c: bool", "x.stride()"),
    "split": ("x: Tensor, c: bool", "x.split(1)"),
    "chunk": ("x: Tensor, c: bool", "torch.chunk(x, 2)"),
    "rows": ("x: Tensor, c: bool", "x.unbind()"),
    "positions": ("x: Tensor, c: bool", "x.nonzero(as_tuple=True)"),
    "in tuples": ("x: Tensor, c: bool", "(x.shape, (x.stride(), 1))"),
    "in a list": ("x: Tensor, c: bool", "[x.shape]"),
    "of a function": ("x: Tensor, c: bool", "shape_of(x)"),
    "in a tuple of a function": ("x: Tensor, c: bool", "shape_and_rank(x)"),
    "element of a tuple of a function": ("x: Tensor, c: bool", "shape_and_rank(x)[0]"),
    "a list": ("x: Tensor, c: bool", "list(x.shape)"),
    "a sorted list": ("x: Tensor, c: bool", "sorted(x.shape)"),
    "elements": ("x: Tensor, c: bool", "[n for n in x.shape]"),
    "a list of numbers": ("x: Tensor, c: bool", "x.long().flatten().tolist()"),
    "parts of a text": ("x: Tensor, c: bool", "'a b'.split(' ')"),
    "a tuple of a list": ("x: Tensor, c: bool", "tuple(x.shape)"),
    "a tuple of one": ("x: Tensor, c: bool", "tuple(x.shape[1:])"),
    "keys": ("x: Tensor, c: bool", "dict(a=1).keys()"),
    "values": ("x: Tensor, c: bool", "dict(a=1).values()"),
    "items": ("x: Tensor, c: bool", "dict(a=1).items()"),
}
"""What is shown, by where it comes from."""

WAYS = {
    "field": "return f'{@}'",
    "field and text": "return f'a{@}b', len(f'{@}')",
    "str": "return str(@)",
    "print": "print('a', @, c)\nreturn 0",
    "variable": "v = @\nfor i in range(2):\n if c:\n  v = @\nreturn f'{v}', str((v, 1))",
    "joined": "return ', '.join([str(@), '{}'.format(@)])",
    "error": "if c:\n raise ValueError(f'bad {@}')\nreturn 0",
    "assertion": "assert not c, f'bad {@}'\nreturn 0",
}
HEAD = """
def shape_of(x: Tensor):
    return x.shape

def shape_and_rank(x: Tensor):
    return x.shape, x.dim()
"""


def _body(name: str, way: str) -> str:
    shown = SOURCES[name][1]
    return WAYS[way].replace("@", shown.replace("'", '"') if "f'" in WAYS[way] else shown)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SOURCES)
def test_is_shown_as_in_python(name, way):
    if name in ("in a list", "a tuple of a list", "a tuple of one") and way == "variable":
        pytest.skip("neither a tuple of unknown length nor what a list holds that others have is followed")
    table: Table = {name: (SOURCES[name][0], _body(name, way), [[T34, True], [T34, False]])}
    check_case(table, name, head=HEAD)


SHOWN: Table = {
    "representation": ("x: Tensor, c: bool", "return f'{x.shape!r:>30}', repr(x.shape), repr('a')", [[T34, True]]),
    "percent": ("x: Tensor, c: bool", "return '%s %r' % (x.shape, x.stride()), '%s' % (x.shape,)", [[T34, True]]),
    "percent of a size": ("x: Tensor, c: bool", "return '%s-%s' % x.shape", [[T34, True], [T34[0], True]]),
    "a format for lists": ("x: Tensor, c: bool", "return f'{x.shape:5}'", [[T34, True]]),
    "arguments of exceptions": ("x: Tensor, c: bool", "raise ValueError('v', x.shape, (x.stride(), 1))", [[T34, True]]),
    "a range": (
        "n: int, c: bool",
        "print(range(n))\nreturn f'{range(1, n, 2)}', str(range(n))",
        [[3, True], [0, True]],
    ),
    "separators": ("n: int, c: bool", "print(n, 'a', c, sep='{|}')\nprint(sep='-')\nprint(n, end='\\n')", [[3, True]]),
    "specifications": (
        "n: float, c: bool",
        "return format(n, '.2f'), format(n), format('a', '>3' if c else '<4'), format(n, '')",
        [[3.25, True], [1.0, False]],
    ),
    "sizes that may be none": (
        "x: Tensor, c: bool",
        "s = x.shape if c else None\nif s is not None:\n return f'{s}'\nreturn 'none'",
        [[T34, True], [T34, False]],
    ),
    "a list that grows": (
        "x: Tensor, c: bool",
        "s = list(x.shape)\nfor i in range(3):\n s = s + [i]\nreturn f'{s}'",
        [[T34, True]],
    ),
    "a size that grows": (
        "x: Tensor, c: bool",
        "s = x.shape\nt = 0\nfor i in range(3):\n s = s + (i,)\n while t < 2:\n  t += 1\n  s = s[1:]\nreturn f'{s}'",
        [[T34, True]],
    ),
    "a conversion of tensors": (
        "x: Tensor, c: bool",
        "return x.type(torch.int32), x.type(dtype=torch.bool)",
        [[T34, True]],
    ),
}
UNSAVED = {
    "representation": "!r:>30",
    "percent": "%r",
    "a format for lists": "",
    "a range": "no ranges as values",
    "specifications": "",
}


@pytest.mark.parametrize("name", SHOWN)
def test_ways_to_show(name):
    check_case(SHOWN, name, UNSAVED)


PRINTED: Table = {
    "end": (
        "n: int",
        "print(n, end='')\nprint(n, 'a', sep='', end='\\n\\n')\nprint(n, [1.5], end=' ')\nprint(end='x')",
        [[3]],
    ),
    "a text that is computed": (
        "n: int, s: str",
        "for i in range(n):\n print(i, end=s if i < n - 1 else '\\n')",
        [[3, ", "]],
    ),
    "tensors": ("x: Tensor", "print('x', x, x.shape, end='.')", [[torch.ones(2)]]),
    "what is so anyway": (
        "n: int",
        "print(n, file=sys.stdout, flush=n > 1)\nprint(n, n, file=None, sep=None, end=None)\nprint(n, end='\\n')",
        [[3]],
    ),
}


@pytest.mark.parametrize("name", PRINTED)
def test_keywords_of_print(name):
    unsaved = dict.fromkeys(PRINTED.keys() - {"what is so anyway"}, "without an end of line")
    check_case(PRINTED, name, unsaved, "import sys")


def test_print_to_the_standard_error(capsys):
    body = "print(n, [1.5], file=sys.stderr)\nprint(n, 3, sep='-', end='!', file=sys.stderr)"
    function = compile_source(source_of("n: int", body, "import sys"))["f"]
    scripted = jitlite.script(function)
    written = {"__name__": "written"}
    exec(jitlite.to_python(scripted).source, written)
    for run in (function, scripted, written["f"]):
        run(4)
        assert capsys.readouterr() == ("", "4 [1.5]\n4-3!")


REFUSED = {
    "return x.type()": "without a dtype",
    "print(x, color='red')": "no parameter 'color'",
    "print(x, end=3)": "a text for 'end'",
    "print(x, file=x)": "sys.stdout and sys.stderr only",
    "return repr(x, x)": "takes 1 to 1 arguments",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_refused(body):
    namespace = compile_source(source_of("x: Tensor", body))
    with pytest.raises(CompileError, match=REFUSED[body]) as caught:
        jitlite.script(namespace["f"])
    assert "HERE" in str(caught.value)


def test_a_list_that_comes_from_several_places_is_a_list():
    namespace = compile_source(source_of("x: Tensor, c: bool", "s = x.shape if c else [1]\nreturn f'{s}'"))
    assert jitlite.script(namespace["f"])(torch.ones(2), True) == "[2]"
