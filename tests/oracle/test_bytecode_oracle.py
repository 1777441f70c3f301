"""Instructions compared with those torch writes into its bytecode files.

torch's form leaves out trailing arguments that have their default values, so the programs here use operators without
such arguments.
"""

import io
import pickle
import zipfile
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import pytest
import torch
from torch import Tensor, nn

from jitlite.interpreter.bytecode import lower
from jitlite.interpreter.check import check_code
from jitlite.ir.parser import parse


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        return lambda *args: (module, name, args)

    def persistent_load(self, pid):
        return pid


def _bytecode(module):
    archive = zipfile.ZipFile(io.BytesIO(module._save_to_buffer_for_lite_interpreter()))
    (_, body, _) = _Unpickler(io.BytesIO(archive.read("archive/bytecode.pkl"))).load()[1]
    return dict(body)


class Loops(nn.Module):
    def forward(self, x: Tensor, n: int):
        y = x
        total = 0
        for i in range(n):
            if i % 2 == 0:
                y = y * x
                total += i
            elif i == 7:
                break
        return y, total, [1, n]


class Whiles(nn.Module):
    def forward(self, n: int) -> int:
        while n > 0:
            if n == 5:
                return -1
            n -= 3
        return n * n


class Containers(nn.Module):
    def forward(self, xs: List[int], d: Dict[str, int], k: str):
        a, b = xs
        xs.append(a)
        d[k] = b
        t = (a, b, d[k])
        return t[1:], [d[k], a], {"a": b, "b": 1}, t[-1]


class Optionals(nn.Module):
    def forward(self, n: Optional[int], a: Any) -> int:
        if n is not None:
            r = n
        else:
            r = 2
        if isinstance(a, int):
            r = r * a
        if not isinstance(a, (int, str)):
            raise ValueError("bad " + str(r))
        return r


class Tensors(nn.Module):
    def forward(self, x: Tensor, y: Tensor):
        a = torch.relu(x.mm(y).mul(x))
        b = a.dim() if x.dtype == torch.float32 else 3
        return a.view(b, 2), torch.sigmoid(a * y) * (x * y), "{} {}".format(b, a.dim())


class Strings(nn.Module):
    def forward(self, s: str, n: int):
        print(s, n)
        out: List[str] = []
        for c in s:
            if c == "a" or n > 3:
                out.append(c.upper())
        return out, not (n > 1), s + str(n)


class Pair(NamedTuple):
    left: Tensor
    right: int


class Named(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tuple[Pair, int]:
        p = Pair(x, n)
        q = Pair(p.left, p.right * 2)
        return q, q.right


@pytest.mark.parametrize("cls", [Loops, Whiles, Containers, Optionals, Tensors, Strings, Named])
@pytest.mark.filterwarnings("ignore")
def test_same_instructions(cls):
    module = torch.jit.script(cls())
    # Functions are inlined before torch writes bytecode; these programs call none, so the graphs are the same
    code = lower(parse(str(module.graph)))
    check_code(code)
    expected = _bytecode(module)
    assert [tuple(i) for i in code.instructions] == [tuple(i) for i in expected["instructions"]]
    # the constants of a graph's text are ints where torch.jit has dtypes, as in the file
    assert [c for c in code.constants if isinstance(c, int | str)] == [
        c for c in expected["constants"] if isinstance(c, int | str)
    ]
    assert code.register_size == expected["register_size"]
    assert [(o.name, o.overload) for o in code.operators] == [o[:2] for o in expected["operators"]]
