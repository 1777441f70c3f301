"""What the program of an archive reaches when it runs: attributes and methods of its own classes, nothing else."""

from __future__ import annotations

import io

import pytest
import torch
from test_archive_hostile import CODE, archive, with_code
from test_archive_hostile import name as name_in_pickle

import jitlite

HEAD = CODE[: CODE.index("    w = self.w")].replace("-> Tensor:", "-> Any:", 1)
CLASS = """class C:
  backward : Any
  v : int
  _base : Any
  def numpy(self: __torch__.C) -> Any:
    return 1
"""
INTERFACE = """class I(Interface):
  def numpy(self: __torch__.I) -> Any:
    pass
  def format(self: __torch__.I,
    x: Any) -> Any:
    pass
class MI(ModuleInterface):
  def forward(self, x: Tensor) -> Any:
    pass
  def state_dict(self) -> Any:
    pass
"""

WRONG: dict[str, str] = {
    "an attribute of a tensor": "    return unchecked_cast(__torch__.C, x).backward\n",
    "an attribute that is set": "    a = unchecked_cast(__torch__.C, x)\n    a.v = 3\n    return 1\n",
    "a method of a tensor": "    return (unchecked_cast(__torch__.I, x)).numpy()\n",
    "a method of a text": '    return (unchecked_cast(__torch__.I, "{0.__class__}")).format(x)\n',
    "a method of a module": "    return (unchecked_cast(__torch__.MI, self)).state_dict()\n",
    "by way of Any": "    a = annotate(Any, x)\n    return unchecked_cast(__torch__.C, a).backward\n",
    "by way of None": "    a = annotate(Optional[Tensor], x)\n    return unchecked_cast(__torch__.C, a).backward\n",
    "in a tuple": "    a = unchecked_cast(Tuple[__torch__.C, int], (x, 1))\n    return ((a)[0]).backward\n",
    "in an Optional": "    a = unchecked_cast(Optional[__torch__.C], x)\n"
    "    return (torch._unwrap_optional(a)).backward\n",
    "in a union": "    a = unchecked_cast(Union[__torch__.C, int], x)\n"
    "    return unchecked_cast(__torch__.C, a).backward\n",
    "in a list": "    a = unchecked_cast(List[__torch__.C], [x])\n    return ((a)[0]).backward\n",
    "in a list of anything": "    a = annotate(List[__torch__.C], [])\n    b = unchecked_cast(List[Any], a)\n"
    "    _0 = torch.append(b, x)\n    return ((a)[0]).backward\n",
    "in a dict": '    a = unchecked_cast(Dict[str, __torch__.C], {"a": x})\n    return ((a)["a"]).backward\n',
    "behind another test": "    if isinstance(self.n, int):\n      a = unchecked_cast(__torch__.C, x)\n    else:\n"
    "      a = unchecked_cast(__torch__.C, x)\n    return a.backward\n",
    "the other branch": "    a = annotate(Any, x)\n    if isinstance(a, __torch__.C):\n      b = 1\n    else:\n"
    "      b = (unchecked_cast(__torch__.C, a)).v\n    return b\n",
    "what is not set": "    return (uninitialized(__torch__.C)).backward\n",
}
"""Bodies of `forward` that take a value for an object of a class."""


def load(code: str):
    return jitlite.load(io.BytesIO(with_code(code)))


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("executor", ["profiling", "off"])
def test_values_that_are_taken_for_objects(kind, executor):
    loaded = load(HEAD + WRONG[kind] + CLASS + INTERFACE)
    x = torch.ones(2)
    with jitlite.options.override(executor=executor):
        for _ in range(3):
            with pytest.raises((TypeError, AttributeError, jitlite.CompileError)) as caught:
                loaded(x)
    if isinstance(caught.value, TypeError):
        assert "the program takes" in str(caught.value)
    for convert in (jitlite.to_python, jitlite.to_fx):
        try:
            made = convert(loaded)
            if convert is jitlite.to_fx:
                made(x)
            else:
                raised(made.source, x)
        except (TypeError, AttributeError, jitlite.Error, RuntimeError, AssertionError):
            continue
        raise AssertionError(f"{convert.__name__} gives what runs it")


def raised(source: str, x: torch.Tensor) -> None:
    """Run the source that was written."""
    found: dict = {"__name__": "written"}
    exec(source, found)
    made = next(v for n, v in found.items() if isinstance(v, type) and issubclass(v, torch.nn.Module) and n == "M")
    made()(x)


RIGHT = (
    HEAD
    + """    a = annotate(Any, x)
    c = __torch__.C.__new__(__torch__.C)
    c.v = 4
    b = annotate(Any, c)
    if isinstance(b, __torch__.C):
      d = unchecked_cast(__torch__.C, b)
      e = d.v
    else:
      e = 3
    f = annotate(Optional[__torch__.C], c)
    if torch.__isnot__(f, None):
      e0 = torch.add(e, (unchecked_cast(__torch__.C, f)).v)
    else:
      e0 = e
    g = unchecked_cast(__torch__.C, b)
    return torch.add(e0, g.v)
"""
    + CLASS
)


def test_objects_that_are_what_they_are_taken_for():
    loaded = load(RIGHT)
    assert loaded(torch.ones(2)) == 12
    assert str(loaded.graph).count("prim::checked_cast") == 1
    buffer = io.BytesIO()
    jitlite.save(loaded, buffer)
    again = jitlite.load(io.BytesIO(buffer.getvalue()))
    assert again(torch.ones(2)) == 12
    assert str(again.graph).count("prim::checked_cast") == 1


NAMES = ("__class__", "__globals__", "__init__", "__dict__", "__reduce_ex__", "__code__", "gi_frame", "f_globals")


def load_object(code: str):
    data = b"\x80\x02" + name_in_pickle("__torch__", "D") + b")\x81}b."
    return jitlite.load(io.BytesIO(archive({"data.pkl": data, "code/__torch__.py": code.encode()})))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["", "(Module)"])
def test_names_with_a_meaning_in_python(name, kind):
    with pytest.raises(jitlite.CompileError, match="no name for an attribute"):
        load_object(f"class D{kind}:\n  v : int\n  {name} : Any\n")


@pytest.mark.parametrize("name", ["__getattribute__", "__del__", "__reduce_ex__", "__class__", "__torch_function__"])
@pytest.mark.parametrize("kind", ["", "(Interface)", "(Module)"])
def test_methods_with_a_meaning_in_python(name, kind):
    code = f"class D{kind}:\n  def {name}(self: __torch__.D,\n    x: Any) -> Any:\n    pass\n"
    with pytest.raises(jitlite.CompileError, match="no name for a method"):
        load_object(code)


class Normed(torch.nn.Module):
    """Methods whose names are special, though Python has no meaning for them."""

    def __norm__(self, x):
        return x / 2

    def __html__(self, x):
        return x

    def forward(self, x):
        return self.__html__(self.__norm__(x))


def test_special_names_that_python_does_not_know_are_for_scripts_alone():
    """Whatever library looks for such a name, it does not find what an archive has under it."""
    data = jitlite.script(Normed()).save_to_buffer()
    for _ in range(2):
        loaded = jitlite.load(io.BytesIO(data))
        assert loaded(torch.tensor(3.0)) == 1.5
        for name in ("__norm__", "__html__"):
            assert not hasattr(loaded, name) and not hasattr(type(loaded), name)
        data = loaded.save_to_buffer()
    code = "class D:\n  def __html__(self: __torch__.D) -> int:\n    return 1\n"
    assert not hasattr(load_object(code), "__html__")
