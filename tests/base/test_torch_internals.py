"""What torch does not document is declared in jitlite/torch_internals.py, and may be missing."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jitlite.base import torch_internals
from jitlite.base.source import NotSupportedError

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jitlite"
UNDOCUMENTED = re.compile(r"torch\.fx\.(experimental|graph|node|proxy|traceback|immutable_collections)\b")
"""Modules that are not documented though no underscore says so."""
MEMBERS = {
    "Tensor": {"_cdata", "_conj", "_indices", "_is_view", "_version", "_base"},
    "Module": {
        "_backward_hooks", "_buffers", "_forward_hooks", "_forward_pre_hooks", "_modules", "_parameters",
        "_non_persistent_buffers_set", "_call_impl",
    },
    "nodes and contexts of autograd": {"_raw_saved_tensors", "_sequence_nr"},
    "operators": {"_op", "_qualified_op_name", "_schema", "_overloadname", "_qualname"},
    "other objects": {"_cache_enabled", "_enabled", "_set_unwrap_func"},
    "marks of torch's": {"_boxed_call", "_torchdynamo_disable", "_torchdynamo_inline", "_torchscript_modifier"},
    "the compiler of torch.jit": {"_find_builtin"},
    "Python's": {"_field_defaults", "_field_type", "_fields", "_getframe", "_handle"},
}  # fmt: skip
"""Members of other people's objects that begin with an underscore. All supported versions of torch have them."""


def torch_names(tree: ast.AST) -> list[tuple[int, str]]:
    """Every name of torch that a module uses, with its line, written in full."""
    found, aliases, inner = [], {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    found.append((node.lineno, alias.name))
                    aliases[alias.asname or "torch"] = alias.name if alias.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            for alias in node.names:
                found.append((node.lineno, f"{node.module}.{alias.name}"))
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            aliases |= {t.id: aliases[node.value.id] for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            aliases |= {node.target.id: aliases[node.value.id]} if isinstance(node.target, ast.Name) else {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            parts, base = [], node
            while isinstance(base, ast.Attribute):
                inner.add(id(base))
                parts.insert(0, base.attr)
                base = base.value
            if isinstance(base, ast.Name) and base.id in aliases:
                found.append((node.lineno, ".".join([aliases[base.id], *parts])))
    return found


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def is_undocumented(name: str) -> bool:
    """Has torch this name for itself? Operators do not count."""
    if name.startswith("torch.ops."):
        return False
    return UNDOCUMENTED.match(name) is not None or any(map(is_private, name.split(".")))


DECLARED = {name for names in torch_internals.USED_IN_PLACE.values() for name in names}
WHOLE = {name for name in DECLARED if not inspect.ismodule(torch_internals.resolve(name))}
"""Names whose documented members belong to them. Of a module that torch has for itself, each member is declared."""


def declared_name(name: str) -> str | None:
    """The declaration of `USED_IN_PLACE` that a use of the name relies on."""
    if name in DECLARED:
        return name
    parts = name.split(".")
    heads = [".".join(parts[:i]) for i in range(len(parts)) if not any(map(is_private, parts[i:]))]
    return next((head for head in heads if head in WHOLE), None)


def is_leak(name: str) -> bool:
    """Is the use of the name undeclared?"""
    return is_undocumented(name) and name != "torch._C" and declared_name(name) is None


@pytest.fixture(scope="module")
def trees():
    """What Python makes of each file of the package but the one that declares."""
    found = {p.relative_to(ROOT): ast.parse(p.read_text()) for p in sorted(PACKAGE.rglob("*.py"))}
    del found[Path("jitlite/base/torch_internals.py")]
    return found


@pytest.fixture(scope="module")
def uses(trees):
    """Every use of a name of torch: file, line, name."""
    return [(path, line, name) for path, tree in trees.items() for line, name in torch_names(tree)]


def test_undocumented_names_of_torch_are_declared(uses):
    leaks = [f"{path}:{line}: {name}" for path, line, name in uses if is_leak(name)]
    assert not leaks, "declare in jitlite/torch_internals.py:\n" + "\n".join(leaks)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch\ntorch._C._new_thing()", "torch._C._new_thing"),
        ("from torch._new import thing", "torch._new.thing"),
        ("import torch._new.part as p\np.thing()", "torch._new.part.thing"),
        ("from torch import fx\nfx._lazy.thing", "torch.fx._lazy.thing"),
        ("import torch as t\nt.autograd._functions.Resize", "torch.autograd._functions.Resize"),
        ("from torch.fx.experimental import symbolic_shapes", "torch.fx.experimental.symbolic_shapes"),
        ("import torch\n_torch = torch\n_torch._thing()", "torch._thing"),
    ],
)
def test_a_leak_is_found(source, name):
    assert name in [found for _, found in torch_names(ast.parse(source)) if is_leak(found)]


def test_what_is_used_in_place_exists_and_is_used(uses):
    used = {declared_name(name) for _, _, name in uses}
    dynamic = {f"torch._C.{name}" for name in ("_nn", "_fft", "_linalg", "_nested", "_sparse", "_special")}
    for name in DECLARED:
        torch_internals.resolve(name)
        assert name in used | dynamic, f"nothing uses {name}"


def test_private_members_of_other_objects_are_known(trees):
    ours, used = set(), {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                ours.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                ours.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                ours.add(node.attr)
            elif isinstance(node, ast.Attribute) and is_private(node.attr):
                used.setdefault(node.attr, f"{path}:{node.lineno}")
    in_names = {part for name in DECLARED for part in name.split(".")}
    operators = {name for name in used if hasattr(torch.ops.aten, name)}
    known = ours | in_names | operators | set().union(*MEMBERS.values()) | {"_C"}
    assert not {name: place for name, place in used.items() if name not in known}


def test_each_is_used_and_found_here(trees):
    text = "\n".join((ROOT / path).read_text() for path in trees)
    for name, declared in torch_internals.INTERNALS.items():
        assert f"torch_internals.{name}" in text, f"nothing uses {name}"
        assert re.match(r"torch\.", declared.places[0]) and declared.purpose and declared.lost
    for used in re.findall(r"torch_internals\.([A-Za-z_]+)", text):
        assert used in torch_internals.INTERNALS or used in vars(torch_internals), f"{used} is not declared"


@pytest.fixture
def torch_without(monkeypatch):
    """A torch that lacks what is declared under these names of `INTERNALS`."""
    missing = set()
    resolve = torch_internals.resolve

    def lacking(place):
        if any(place in torch_internals.INTERNALS[name].places for name in missing):
            raise AttributeError(f"no {place}")
        return resolve(place)

    monkeypatch.setattr(torch_internals, "resolve", lacking)

    def lose(*names):
        missing.update(names)
        torch_internals.forget()

    torch_internals.forget()
    yield lose
    monkeypatch.undo()
    torch_internals.forget()


@pytest.mark.parametrize("name", list(torch_internals.INTERNALS))
def test_without_it(name, torch_without):
    """There is a fallback, or an error that says what is missing."""
    torch_without(name)
    declared = torch_internals.INTERNALS[name]
    state = torch_internals.find(declared)
    assert state.place is None and "no torch." in state.reason
    if declared.fallback is None:
        with pytest.raises(NotSupportedError, match=re.escape(declared.places[0])):
            getattr(torch_internals, name)
    else:
        getattr(torch_internals, name)
        assert name in vars(torch_internals), "looked up once"


def test_a_trial_that_fails_counts_as_missing():
    declared = torch_internals.Internal(("torch.compiler.is_compiling",), "x", "y", lambda: 1, lambda found: 1 / 0)
    state = torch_internals.find(declared)
    assert state.value == 1 and "ZeroDivisionError" in state.reason


def test_a_name_that_is_not_declared():
    with pytest.raises(AttributeError, match="no_such_thing"):
        torch_internals.no_such_thing  # noqa: B018


WITHOUT_ALL = """
import sys, torch
from jitlite.base.source import NotSupportedError
import jitlite
from jitlite.base import torch_internals

def lacking(place):
    raise AttributeError(place)

torch_internals.forget()
torch_internals.resolve = lacking

@jitlite.script
def f(x: torch.Tensor, n: int) -> torch.Tensor:
    for i in range(n):
        x = x + i if bool(x.sum() > 0) else x - i
    return x

assert f(torch.ones(2), 3).tolist() == [4.0, 4.0]
model = jitlite.script(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
model(torch.ones(1, 2)).sum().backward()
future = jitlite.fork(f, torch.ones(2), 3)
assert jitlite.wait(future).tolist() == [4.0, 4.0]
import io
file = io.BytesIO()
jitlite.save(model, file)
file.seek(0)
assert jitlite.load(file)(torch.ones(1, 2)).shape == (1, 2)
jitlite.freeze(model.eval())
assert jitlite.to_fx(model)(torch.ones(1, 2)).shape == (1, 2)
jitlite.passes.registry.names()
try:
    jitlite.trace(torch.relu, torch.ones(2))
except NotSupportedError as error:
    assert "torch.autograd.Function.apply" in str(error), error
else:
    raise AssertionError("a trace needs to see autograd functions")
assert torch.autograd.Function.apply and torch.ones(2).shape == (2,), "what a trace takes the place of is put back"
"""


def test_scripts_archives_and_fx_need_none_of_them(tmp_path):
    file = tmp_path / "without_all.py"
    file.write_text(WITHOUT_ALL)
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run([sys.executable, file], env=os.environ | paths, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
