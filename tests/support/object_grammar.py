"""What the random programs of `object_programs.py` are made of: kinds of values, templates, shared definitions."""

HEAD = """\
import math
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor, nn
"""

ANNOTATIONS = {
    "int": "int", "float": "float", "bool": "bool", "str": "str", "opt": "Optional[int]", "uni": "Union[int, str]",
    "ints": "List[int]", "strs": "List[str]", "dict": "Dict[str, int]", "deep": "Dict[str, List[int]]",
    "vec": "Tensor", "point": "Point", "box": "Box", "tally": "Tally", "color": "Color", "boxes": "List[Box]",
    "pair": "Tuple[int, str]", "maybe": "Optional[Tally]", "double": "Double", "grid": "Dict[str, Dict[str, int]]",
}  # fmt: skip
"""Kinds of values. A vec has shape (3,); Point is a NamedTuple, Box a dataclass, Tally a class, Color an enum."""

PLAIN = ("int", "float", "bool", "str", "opt", "ints", "strs", "dict", "deep", "vec", "pair", "grid")
"""Kinds of parameters and results of what is called from outside."""

LITERALS = {
    "int": ["0", "1", "2", "-3", "7", "9223372036854775808", "-170141183460469231731687303715884105728"],
    "float": ["0.0", "1.5", "-2.0", "1e300", "float('inf')"],
    "bool": ["False", "True"],
    "str": ["''", "'a'", "'Zoë'", "'日本'", "'é x'"],
    "opt": ["(None if 1 > 0 else 1)", "(4 if 1 > 0 else None)"],
    "uni": ["either(True, 3, 'u')", "either(False, 3, 'ü')"],
    "ints": ["[1, 2]", "[0]"], "strs": ["['a', 'ß']", "['']"], "dict": ["{'a': 1}", "{'ö': 2, 'b': 0}"],
    "deep": ["{'a': [1]}", "{'k': [2, 3], 'a': [0]}"], "vec": ["torch.ones(3)", "torch.tensor([1.0, -2.0, 0.5])"],
    "point": ["Point(1, 'p')", "Point(2, 'ñ', torch.zeros(3))"], "box": ["Box([1])", "Box([2, 3], 'b')"],
    "tally": ["Tally(1)", "Tally(2)"], "color": ["Color.RED", "Color.BLUE"], "boxes": ["[Box([1]), Box([])]"],
    "double": ["Double(3)"],
    "grid": ["{'a': {'b': 1}}", "{'ü': {'a': 0}}"], "pair": ["(0, 'z')"],
    "maybe": ["(Tally(1) if 1 > 0 else None)", "(None if 1 > 0 else Tally(2))"],
}  # fmt: skip
EXPRESSIONS = {
    "int": [
        "(<int> + <int>)", "(<int> - <int>)", "(<int> * <int>) % 18446744073709551629",
        "<int> // <int>", "<int> % <int>", "(<int> & <int>)",
        "(<int> ^ 5)", "(<int> >> 2)", "abs(<int>)", "-<int>", "min(<int>, <int>)", "(<int> if <bool> else <int>)",
        "len(<str>)", "len(<ints>)", "<ints>[0]", "<ints>[-1]", "<ints>[<int> % 3]", "sum(<ints>)", "<dict>['a']",
        "<dict>.get('b', <int>)", "<point>.x", "len(<box>.items)", "<tally>.n", "<tally>.bump(<int>)",
        "<double>.bump(<int>)", "<double>.step(2)", "<tally>.step(<int>)", "len(<tally>)",
        "<color>.value", "int(Level.HIGH)", "<pair>[0]", "helper(<int>, <ints>)", "descend(<int> % 4, <ints>)",
        "<ints>.index(<int>)", "<deep>['a'][0]", "len(<deep>)", "<str>.find(<str>)", "int(<bool>)", "ord(<str>[0])",
        "(lambda q: q + <int>)(<int>)", "sum([c for c in <ints>])", "<ints>.count(1)", "int(<vec>[0])", "<vec>.numel()",
        "len([b for b in <boxes>])", "unwrapped(<opt>)", "len(<strs>)", "max(<ints>)", "len(<boxes>)",
    ],
    "float": ["(<float> + <float>)", "(<float> * 0.5)", "float(<int>)", "<int> / 4", "(<float> if <bool> else <float>)",
              "math.sqrt(abs(<float>))", "float(<vec>.sum())", "min(<float>, 2.0)", "(<float> / <float>)",
              "math.pow(<float>, 2.0)"],
    "bool": [
        "(<int> < <int>)", "(<int> == <int>)", "(not <bool>)", "(<bool> and <bool>)", "(<bool> or <bool>)",
        "(<str> == <str>)", "(<color> == Color.RED)", "(<color> is Color.BLUE)", "(<opt> is None)", "(<int> in <ints>)",
        "('a' in <dict>)", "isinstance(<uni>, str)", "(Level.HIGH > <int> % 3)", "any(c > 1 for c in <ints>)",
        "all(c < 4 for c in <ints>)", "(<point>.t is None)", "(<tally> is <tally>)", "(<ints> == <ints>)",
        "(<maybe> is not None)", "bool((<vec> > 0).any())", "<str>.isalpha()", "(<pair> == <pair>)", "(<float> > 0.5)",
    ],
    "str": [
        "(<str> + <str>)[:6]", "str(<int>)[:5]", "<str>.upper()", "<str>[1:]", "<str>[::-1]", "<point>.y", "<box>.name",
        "<color>.name", "f'{@int}|{@str}'[:6]", "'{}-{}'.format(<str>, <bool>)[:6]", "'/'.join(<strs>)[:6]",
        "<pair>[1]", "<strs>[0]", "(<str> if <bool> else <str>)", "<str>.replace('a', 'ä')", "label(<uni>)",
    ],
    "opt": ["(<int> if <bool> == <bool> else None)", "(None if <bool> == <bool> else <int>)", "<dict>.get(<str>)",
            "found(<ints>, <int>)"],
    "uni": ["either(<bool>, <int>, <str>)"],
    "ints": ["[<int>, <int>]", "<ints>[1:]", "(<ints> + <ints>)[:5]", "[c + <int> for c in <ints>]", "sorted(<ints>)",
             "<box>.items", "<deep>['a']", "list(range(<int> % 4))", "<ints>[::-1]", "list(<dict>.values())",
             "(<ints> if <bool> else <ints>)", "<tally>.log", "[len(c) for c in <strs>]"],
    "strs": ["[<str>, <str>]", "<str>.split('a')", "list(<dict>.keys())", "sorted(<strs>)", "<strs>[:1]",
             "[c.lower() for c in <strs>]"],
    "dict": ["{<str>: <int>}", "{'a': <int>, <str>: <int>}", "{c: len(c) for c in <strs>}", "<dict>.copy()",
             "<grid>['a']"],
    "deep": ["{'a': <ints>, <str>: <ints>}", "{<str>: [<int>]}"],
    "vec": ["(<vec> + <vec>)", "(<vec> * <float>)", "<vec>.clone()", "<vec>.view(3)", "torch.relu(<vec>)",
            "<vec>[torch.tensor([2, 0, 1])]", "(<vec> if <bool> else <vec>)", "torch.where(<vec> > 0, <vec>, <vec>)",
            "<vec>[None][0]", "<vec>.flip(0)", "torch.full([3], <float>)", "<vec>.expand(2, 3)[1]"],
    "point": ["Point(<int>, <str>)", "Point(<int>, <str>, <vec>)", "(<point> if <bool> else <point>)"],
    "box": ["Box(<ints>)", "Box(<ints>, <str>)", "<boxes>[0]", "<boxes>[-1]", "(<box> if <bool> else <box>)"],
    "tally": ["Tally(<int>)", "(<tally> if <bool> else <tally>)", "<tally>.me()"],
    "color": ["(Color.RED if <bool> else Color.BLUE)"],
    "double": ["Double(<int>)", "(<double> if <bool> else <double>)"],
    "grid": ["{'a': <dict>, <str>: <dict>}", "<grid>.copy()"],
    "boxes": ["[<box>]", "[<box>, <box>]", "<boxes>[:1]"],
    "pair": ["(<int>, <str>)", "(<pair> if <bool> else <pair>)"],
    "maybe": ["(<tally> if <bool> == <bool> else None)"],
}  # fmt: skip
STATEMENTS = {
    "int": ["@int += <int>", "print(@int, <str>)", "@int = @int % 1000003"],
    "float": ["@float *= 0.5", "print(@float)"], "bool": ["assert @bool, 'not ' + <str>"], "str": ["@str += <str>[:2]"],
    "ints": ["@ints.append(<int>)", "@ints[0] = <int>", "@ints[-1] += <int>", "@ints.pop()", "@ints.extend(<ints>[:2])",
             "@ints.sort()", "del @ints[0]", "@ints += [<int>]", "print(@ints)", "@ints[<int> % 3] = <int>"],
    "strs": ["@strs.append(<str>)", "@strs[0] = <str>"],
    "dict": ["@dict[<str>] = <int>", "@dict['a'] += 1", "del @dict['a']", "@dict.update(<dict>)", "print(@dict)"],
    "deep": ["@deep[<str>] = <ints>", "@deep['a'].append(<int>)", "@deep['a'] = @deep['a'][:2]"],
    "vec": ["@vec += <vec>", "@vec[0] = <float>", "@vec.mul_(<float>)", "@vec[1:] = 0.5", "@vec[@vec > 0] = <float>",
            "@vec.copy_(<vec>)", "@vec[torch.tensor(1)] += 1", "@vec[torch.tensor(2)].add_(1)",
            "@vec[<int> % 3] = <float>", "@vec[1:] += @vec[:2].clone()"],
    "point": ["print(@point.y, @point.x)"],
    "box": ["@box.items.append(<int>)", "@box.name = <str>", "@box.items = <ints>", "@box.items[0] += 1"],
    "tally": ["@tally.n += 1", "@tally.log.append(<int>)", "@tally.bump(<int>)", "@tally.last = <opt>",
              "@tally.last = None", "print(@tally.step(<int>))"],
    "boxes": ["@boxes.append(<box>)", "@boxes[0].name = <str>", "@boxes[0] = <box>"],
    "double": ["@double.n -= 1", "@double.log.append(<int>)"],
    "grid": ["@grid[<str>] = <dict>", "@grid['a']['b'] = <int>", "del @grid['a']", "@grid['a'].update(<dict>)"],
    "maybe": [], "opt": [], "uni": [], "pair": [], "color": ["print(@color.name)"],
}  # fmt: skip

DEFINITIONS = (
    "class Color(Enum):\n    RED = 1\n    BLUE = 2",
    "class Level(IntEnum):\n    LOW = 0\n    HIGH = 1",
    "class Point(NamedTuple):\n    x: int\n    y: str\n    t: Optional[Tensor] = None",
    "@dataclass\nclass Box:\n    items: List[int]\n    name: str = 'box'",
    """class Guard:
    def __init__(self, log: List[int], swallows: bool):
        self.log = log
        self.swallows = swallows

    def __enter__(self) -> None:
        self.log.append(1)

    def __exit__(self, t: Any, e: Any, tb: Any) -> bool:
        self.log.append(2)
        return self.swallows""",
    """def unwrapped(o: Optional[int]) -> int:
    if o is None:
        return -1
    return o + 1""",
    """def found(xs: List[int], x: int) -> Optional[int]:
    for i, y in enumerate(xs):
        if x == y:
            return i
    return None""",
    """def either(b: bool, n: int, s: str) -> Union[int, str]:
    if b:
        return n
    return s""",
    """def label(u: Union[int, str]) -> str:
    if isinstance(u, int):
        return str(u)[:4]
    return u""",
)
"""What every program begins with."""

TALLY = (
    "def __init__(self, n: int):\n    self.n: int = n\n    self.log: List[int] = [n]\n"
    "    self.last: Optional[int] = None",
    "def __len__(self) -> int:\n    return len(self.log)",
    "def me(self) -> 'Tally':\n    self.n += 1\n    return self",
    "def step(self, by: int = 2) -> int:\n    self.n += by\n    return self.n",
)
"""Methods of the class Tally, beside one that is written at random."""

DOUBLE = (
    "def __init__(self, n: int):\n    super().__init__(n * 2)\n    self.extra = 1",
    "def step(self, by: int = 3) -> int:\n    self.extra += 1\n    return super().step(by) + self.extra",
)
"""Methods of a class that inherits from it."""
