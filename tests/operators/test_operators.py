"""Every operator that jitlite declares does what Python does."""

import functools
import math
import sys
import time
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from operator_cases import CASES
from operator_meanings import MEANINGS
from operator_samples import BIG, argument_samples, fresh, outcome, plain

import jitlite
from jitlite.base.source import Error
from jitlite.debug.outcome import compare, observe
from jitlite.ir import types as T
from jitlite.ir.constants import QualifiedClassName
from jitlite.ir.ops import Effect, declared_ops, lookup, op
from jitlite.operators import gradient_prims
from jitlite.operators.operator_docs import operators_markdown
from jitlite.operators.pass_prims import _MACHINERY
from jitlite.operators.prims import Await, make_exception

ROOT = Path(__file__).parents[2]
DECLARED = {o.schema.qualified: o for o in declared_ops() if not o.schema.qualified.startswith("law::")}
"""The operators that jitlite declares; tests have some of their own."""
MACHINERY = [schema.partition("(")[0] for schema, _ in _MACHINERY]
IN_CASES = {name for case in CASES for name in case.names}


def meaning_of(operator):
    """The second definition of an operator on Python values, or None for operators that are tested otherwise."""
    if operator.schema.qualified in MEANINGS:
        return MEANINGS[operator.schema.qualified]
    if operator.fn is None or operator.schema.qualified in IN_CASES:
        return None
    return MEANINGS.get(operator.name)


ON_VALUES = [o for o in DECLARED.values() if meaning_of(o)]


# -- what is declared


def test_every_torchscript_operator_is_declared_as_torch_has_it():
    _, *listed = (ROOT / "tests/oracle/data/jit_only_schemas.txt").read_text().splitlines()
    ours = {str(o.schema) for o in DECLARED.values()}
    assert [schema for schema in listed if schema not in ours] == []


def test_every_operator_is_found_by_its_name():
    for operator in DECLARED.values():
        assert operator in lookup(operator.name)


def test_overloads_are_in_torch_order():
    assert [o.schema.overload for o in lookup("aten::pow")][-1] == "int_to_int"
    for name in ("aten::add", "aten::eq", "aten::log", "aten::sorted", "prim::max"):
        namespace, _, base = name.partition("::")
        expected = getattr(getattr(torch.ops, namespace), base).overloads()
        found = [o.schema.overload or "default" for o in lookup(name)]
        assert [f for f in found if f in expected] == [e for e in expected if e in found]


def test_effects_agree_with_schemas():
    for operator in DECLARED.values():
        if operator.schema.is_mutable:
            assert operator.effect in (Effect.WRITE, Effect.RANDOM, Effect.SIDE), operator
        else:
            assert operator.effect is not Effect.WRITE, operator


def test_every_operator_has_documentation():
    assert [o for o in DECLARED.values() if not o.doc.rstrip().endswith((".", "?"))] == []


def test_documentation_is_up_to_date():
    page = (ROOT / "docs/operators.md").read_text()
    assert page == operators_markdown(), "run python -m jitlite.operators.operator_docs"


@pytest.mark.parametrize(
    "schema",
    ["aten::relu(Tensor self) -> Tensor", "aten::relu.mine(int self) -> int", "aten::conv2d(Tensor x) -> Tensor"],
    ids=["overload_of_torch", "overload_beside_torch", "other_schema"],
)
def test_an_operator_of_torch_is_not_declared_by_others(schema):
    before = lookup(schema.partition("(")[0].partition(".")[0])
    with pytest.raises(ValueError, match="is an operator of torch's: declare yours in a namespace of your own"):
        op(schema)(lambda self: self)
    assert lookup(schema.partition("(")[0].partition(".")[0]) == before


def test_an_operator_is_declared_once():
    with pytest.raises(ValueError, match="declared twice"):
        op("aten::neg.int(int a) -> int")(abs)


# -- what operators on Python values do


@pytest.mark.parametrize("operator", ON_VALUES, ids=lambda o: o.schema.qualified)
def test_does_what_python_does(operator):
    meaning = meaning_of(operator)
    for arguments in argument_samples(operator.schema):
        assert outcome(operator.fn, arguments) == outcome(meaning, arguments), arguments


@pytest.mark.parametrize("operator", ON_VALUES, ids=lambda o: o.schema.qualified)
def test_keeps_its_promises(operator):
    """Total operators do not raise, pure ones leave their arguments, and those that give an argument back do so."""
    returns = operator.schema.returns
    for arguments in argument_samples(operator.schema, 300):
        given = fresh(arguments)
        try:
            result = operator.fn(*given)
        except Exception:
            assert not operator.total, arguments
            continue
        if not operator.schema.is_mutable:
            assert plain(given) == plain(arguments)
        if returns and returns[0].alias and returns[0].alias.is_write:
            assert result is given[0]
        if len(returns) != 1:
            assert type(result) is tuple and len(result) == len(returns) if returns else result is None


def _odd_tensors():
    dense = torch.eye(2)
    return {
        "sparse": dense.to_sparse(), "sparse rows": dense.to_sparse_csr(), "oneDNN": dense.to_mkldnn(),
        "quantized": torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8), "complex": dense.to(torch.complex64),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "bits": torch.empty(2, dtype=torch.bits8),
        "meta": torch.empty(2, device="meta"), "no number": torch.empty(0), "a number": torch.ones(()),
    }  # fmt: skip


TOTAL_ON_TENSORS = [
    op
    for name in (
        "dim",
        "numel",
        "is_floating_point",
        "is_complex",
        "clone",
        "detach",
        "contiguous",
        "zeros_like",
        "alias",
    )
    for op in lookup(f"aten::{name}")
    if op.total and op.schema.arguments[0].type is T.TENSOR
]


@pytest.mark.parametrize("operator", TOTAL_ON_TENSORS, ids=lambda o: o.schema.qualified)
@pytest.mark.filterwarnings("ignore")
def test_total_operators_take_every_tensor(operator):
    assert len(TOTAL_ON_TENSORS) >= 6
    for tensor in _odd_tensors().values():
        operator.fn(tensor, *(a.default for a in operator.schema.arguments[1:]))


@pytest.mark.parametrize(
    "text", ["x.contiguous()", "x.clone(memory_format=torch.channels_last)", "torch.zeros_like(x)"]
)
def test_what_may_raise_is_not_dropped(text):
    call = jitlite.CompilationUnit(f"def f(x):\n    {text}\n    return 1\n").f
    for tensor in _odd_tensors().values():
        try:
            eval(text, {"torch": torch, "x": tensor})
        except Exception as error:
            with pytest.raises(type(error)):
                call(tensor)
        else:
            assert call(tensor) == 1


WITHOUT_LIMIT = ["add", "sub", "mul", "floordiv", "remainder", "div", "eq", "ne", "lt", "le", "gt", "ge", "gcd",
                 "__and__", "__or__", "__xor__", "divmod"]  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_LIMIT)
def test_ints_have_no_limit(name):
    operator = DECLARED[f"aten::{name}.int"]
    for a in [*BIG, -3]:
        for b in [*BIG, 7, 0]:
            assert outcome(operator.fn, (a, b)) == outcome(MEANINGS[f"aten::{name}"], (a, b))


def test_the_promise_of_totality_counts_with_large_ints():
    largest = {"int": 10**400, "float": math.inf, "complex": complex(math.nan, 1), "bool": True}
    for operator in ON_VALUES:
        types = [str(a.type) for a in operator.schema.arguments]
        if operator.total and set(types) <= {"int", "float", "complex", "bool"}:
            operator.fn(*(largest[t] for t in types))


def test_a_root_of_a_negative_number_is_no_complex_number():
    power = DECLARED["aten::pow.float"].fn
    with pytest.raises(ValueError, match="complex number"):
        power(-8.0, 0.5)
    assert power(2, 3) == 8 and type(power(2, 3)) is int
    assert power(2, -1) == 0.5
    assert power(-8 + 0j, 0.5) == (-8 + 0j) ** 0.5
    with pytest.raises(ZeroDivisionError):
        power(0, -1)


@pytest.mark.parametrize("value", [torch.ones(2), torch.nn.Parameter(torch.ones(2)), 1, True, None, [1], (1, "a")])
def test_types_are_the_classes_of_objects(value):
    assert DECLARED["prim::PythonType"].fn(value) is type(value)


def test_errors_are_pythons():
    for name, arguments, error in [
        ("aten::div.int", (1, 0), ZeroDivisionError),
        ("aten::remainder.int", (1, 0), ZeroDivisionError),
        ("aten::floordiv.float", (1.0, 0.0), ZeroDivisionError),
        ("aten::sqrt.float", (-1.0,), ValueError),
        ("aten::exp.float", (1000.0,), OverflowError),
        ("aten::Int.str", ("x",), ValueError),
        ("aten::__getitem__.t", ([1], 5), IndexError),
        ("aten::__getitem__.Dict_str", ({}, "b"), KeyError),
        ("aten::index.str", ("abc", "x", 0, -1), ValueError),
        ("aten::remove.int", ([1], 2), ValueError),
        ("aten::chr", (-1,), ValueError),
        ("aten::__lshift__.int", (1, -1), ValueError),
        ("aten::_unwrap_optional", (None,), AssertionError),
        ("aten::hash.generic", ([],), TypeError),
        ("aten::len.Tensor", (torch.tensor(1),), TypeError),
        ("aten::_assert", (False, "m"), AssertionError),
        ("aten::_assert.Tensor", (torch.tensor(0), "m"), AssertionError),
        ("aten::list_with_default", ([1], [1]), ValueError),
        ("prim::ConstantChunk", (torch.ones(2),), RuntimeError),
        ("prim::tolist", (torch.ones(2), 2, 1), RuntimeError),
        ("prim::tolist", (torch.ones(2), 1, 0), RuntimeError),
        ("aten::_tensor_to_list", (torch.ones(2),), RuntimeError),
        ("aten::_ncf_unsqueeze", (torch.ones(2, 2), 4), RuntimeError),
        ("aten::broadcast_shapes", ([2], [3]), RuntimeError),
        ("aten::tensor", (["a"], None, None, False), (TypeError, ValueError)),
    ]:
        fn = DECLARED[name].fn
        if name == "prim::ConstantChunk":
            fn = functools.partial(fn, chunks=3, dim=0)
        with pytest.raises(error):
            fn(*arguments)


def test_lists_are_sorted_by_the_elements_own_order():
    class Backwards:
        def __init__(self, n):
            self.n = n

        def __lt__(self, other):
            return self.n > other.n

    elements = [Backwards(n) for n in (2, 3, 1)]
    assert [e.n for e in DECLARED["aten::sorted.any"].fn(elements)] == [3, 2, 1]
    DECLARED["aten::sort.any"].fn(elements, True)
    assert [e.n for e in elements] == [1, 2, 3]


def test_results_share_their_elements_but_not_themselves():
    inner = []
    for name in ("copy.t", "list.t"):
        source = [inner]
        copied = DECLARED[f"aten::{name}"].fn(source)
        assert copied is not source and copied[0] is inner
    table = {"a": inner}
    assert DECLARED["aten::values.str"].fn(table)[0] is inner
    assert DECLARED["aten::dict.Dict_str"].fn(table) is not table


# -- what the others do


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.names[0])
def test_case(case):
    for name in case.names:
        operator = DECLARED[name]
        assert set(operator.attributes) == set(case.attributes)
        fn = functools.partial(operator.fn, **case.attributes) if case.attributes else operator.fn
        for arguments in case.arguments:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert outcome(fn, arguments) == outcome(case.meaning, arguments), (name, arguments)


def test_in_place_operators_give_the_tensor_itself():
    t = torch.ones(2)
    for name, *rest in [
        ("aten::copy_.int", 3), ("aten::copy_.Tensor", torch.ones(2)), ("aten::_no_grad_zero_",),
        ("aten::_no_grad_fill_", 1.0), ("prim::MKLDNNHardSwish_",), ("prim::MKLDNNScalarMul_", 2),
        ("aten::index_put_.hacked_twin", [torch.tensor([0])], torch.tensor(1.0), False),
    ]:  # fmt: skip
        assert DECLARED[name].fn(t, *rest) is t
    assert DECLARED["aten::as_tensor"].fn(t, None, None) is t
    assert DECLARED["aten::to.prim_other"].fn(t, False, False) is t
    assert DECLARED["aten::to.prim_other"].fn(t, False, True) is not t
    assert DECLARED["prim::data"].fn(t).data_ptr() == t.data_ptr()
    assert DECLARED["prim::unchecked_cast"].fn(t) is t
    assert DECLARED["prim::checked_cast"].fn(t, types=[T.TENSOR]) is t
    with pytest.raises(TypeError, match="of type int"):
        DECLARED["prim::checked_cast"].fn(t, types=[T.INT])


def test_onednn_layout_is_kept():
    t = torch.tensor([[-4.0, 1.0]])
    result = DECLARED["prim::MKLDNNHardSwish"].fn(t.to_mkldnn())
    assert result.is_mkldnn and torch.equal(result.to_dense(), torch.nn.functional.hardswish(t))


def test_identity_of_objects():
    x = object()
    assert DECLARED["prim::id"].fn(x) == id(x)
    assert DECLARED["aten::_unwrap_optional"].fn(x) is x
    assert DECLARED["aten::hash.generic"].fn("a") == hash("a")


def test_random_operators_take_a_generator():
    for name, method, a, b in [
        ("aten::_no_grad_normal_", "normal_", 1.0, 2.0),
        ("aten::_no_grad_uniform_", "uniform_", 2.0, 5.0),
    ]:
        t = torch.zeros(5, requires_grad=True)
        assert DECLARED[name].fn(t, a, b, torch.Generator().manual_seed(3)) is t
        expected = getattr(torch.zeros(5), method)(a, b, generator=torch.Generator().manual_seed(3))
        assert torch.equal(t.detach(), expected) and t.grad_fn is None


def test_embeddings_are_renormed_in_place():
    weight = torch.tensor([[3.0, 4.0], [0.0, 1.0]], requires_grad=True)
    result = DECLARED["aten::_no_grad_embedding_renorm_"].fn(weight, torch.tensor([0]), 1.0, 2.0)
    assert result is weight and weight.grad_fn is None
    torch.testing.assert_close(weight.detach(), torch.tensor([[0.6, 0.8], [0.0, 1.0]]))


def test_generators():
    made = DECLARED["aten::Generator"].fn(None, 5)
    assert DECLARED["aten::initial_seed"].fn(made) == 5
    assert DECLARED["aten::manual_seed.generator"].fn(made, 6) is made and made.initial_seed() == 6
    assert DECLARED["aten::seed"].fn(made) == made.initial_seed() != 6
    assert DECLARED["aten::Generator"].fn(torch.device("cpu"), None).device.type == "cpu"
    with torch.random.fork_rng():
        DECLARED["aten::manual_seed"].fn(7)
        assert torch.initial_seed() == 7


def test_autograd():
    x = torch.ones(2, requires_grad=True)
    DECLARED["aten::backward"].fn((x * 3).sum(), None, None, False)
    assert DECLARED["prim::grad"].fn(x).tolist() == [3, 3]
    DECLARED["aten::backward.TensorList"].fn([x * 2], [torch.ones(2)], None, False)
    assert x.grad.tolist() == [5, 5]
    DECLARED["aten::backward.Tensor"].fn((x * 2).sum(), None, None, False)
    for name, one in (("aten::grad.Tensor", x), ("aten::grad.inputs", [x])):
        assert DECLARED[name].fn((x * 5).sum(), one, None, None, False, False)[0].tolist() == [5, 5]
    assert DECLARED["aten::grad.outputs"].fn([x * 6], x, [torch.ones(2)], None, False, False)[0].tolist() == [6, 6]
    grads = DECLARED["aten::grad"].fn([(x * 4).sum()], [x, torch.ones(1, requires_grad=True)], None, None, False, True)
    assert type(grads) is list and grads[0].tolist() == [4, 4] and grads[1] is None


def test_grad_mode():
    try:
        DECLARED["aten::set_grad_enabled"].fn(False)
        assert not torch.is_grad_enabled() and DECLARED["aten::is_grad_enabled"].fn() is False
    finally:
        torch.set_grad_enabled(True)


def test_autocast_is_read():
    with torch.autocast("cpu", torch.float16):
        assert DECLARED["aten::is_autocast_cpu_enabled"].fn() is True
        assert DECLARED["aten::get_autocast_dtype"].fn("cpu") is torch.float16


def test_cuda():
    move = DECLARED["aten::cuda"].fn
    if torch.cuda.is_available():
        assert move(torch.ones(1)).is_cuda
    else:
        with pytest.raises((AssertionError, RuntimeError)):
            move(torch.ones(1))


def test_print_warn_and_save(capsys, tmp_path):
    DECLARED["prim::Print"].fn(1, "a", [2.0], torch.float32)
    assert capsys.readouterr().out == "1 a [2.0] torch.float32\n"
    with pytest.warns(UserWarning, match="careful"):
        DECLARED["aten::warn"].fn("careful", 2)
    DECLARED["aten::save"].fn([torch.ones(2), 1], str(tmp_path / "x.pt"))
    tensor, number = torch.load(tmp_path / "x.pt")
    assert tensor.tolist() == [1, 1] and number == 1


def test_clock_runs():
    first = DECLARED["prim::TimePoint"].fn()
    time.sleep(0.001)
    assert DECLARED["prim::TimePoint"].fn() - first >= 1_000_000


# -- exceptions


class Custom(ValueError):
    pass


class Demanding(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


@pytest.mark.parametrize(
    "message, name, expected",
    [
        ("neg", "builtins.ValueError", ValueError("neg")),
        ("", "builtins.KeyError", KeyError("")),
        ("", "builtins.ValueError", ValueError()),
        ("m", f"__torch__.{__name__}.Custom", Custom("m")),
        ("m", f"{__name__}.Custom", Custom("m")),
        ("m", "__torch__.no_such_module.Custom", Error("__torch__.no_such_module.Custom: m")),
        ("m", "builtins.print", Error("print: m")),
        ("AssertionError: small", None, AssertionError("small")),
        ("AssertionError: ", None, AssertionError()),
        ("something else", None, Error("something else")),
    ],
)
def test_exceptions(message, name, expected):
    made = make_exception(message, name)
    assert type(made) is type(expected) and made.args == expected.args
    with pytest.raises(type(expected)):
        DECLARED["prim::RaiseException"].fn(message, name)


class Constructed(Exception):
    def __init__(self, message):
        raise SystemError("code of the class has run")


class Created(Exception):
    def __new__(cls, message):
        raise SystemError("code of the class has run")


class Inherits(Constructed):
    pass


class Meta(type):
    def __call__(cls, *args):
        raise SystemError("code of the class has run")

    def __instancecheck__(cls, value):
        raise SystemError("code of the class has run")


class OfMeta(Exception, metaclass=Meta):
    pass


class OfSystem(OSError):
    def __init__(self, *args):
        raise SystemError("code of the class has run")


@pytest.mark.parametrize("cls", [Constructed, Created, Inherits, OfMeta, OfSystem, Demanding])
def test_names_from_outside_run_no_code_of_exception_classes(cls):
    """A name in graph text or in an archive may be anybody's; a class that the compiler met is the program's own."""
    name = f"__torch__.{__name__}.{cls.__name__}"
    assert DECLARED["prim::IsException"].fn(ValueError(), name) is False
    for made in (make_exception("m", name), DECLARED["prim::NewException"].fn(name, "m", 2, keywords=["k"])):
        assert type(made) is cls and made.args[0] == "m"
        assert DECLARED["prim::IsException"].fn(made, name) is True
    if cls is not Demanding:
        with pytest.raises(SystemError, match="has run"):
            DECLARED["prim::NewException"].fn(QualifiedClassName(name, cls), "m")


def test_a_module_that_makes_its_names_is_not_asked(monkeypatch):
    module = ModuleType("lazy_names")
    module.__getattr__ = lambda name: pytest.fail("code of the module has run")
    monkeypatch.setitem(sys.modules, "lazy_names", module)
    assert type(make_exception("m", "lazy_names.Failure")) is Error


def test_local_exception_classes():
    class Local(Exception):
        pass

    assert type(make_exception("m", QualifiedClassName("__torch__.Local", Local))) is Local


# -- futures


def test_a_result_is_computed_once_when_waited_for():
    calls = []
    awaited = Await(lambda: calls.append(1) or 5)
    assert calls == []
    assert DECLARED["prim::awaitable_wait"].fn(awaited) == 5 == awaited.wait()
    assert calls == [1]
    assert DECLARED["prim::awaitable_nowait"].fn(3).wait() == 3


def test_wait():
    future = torch.futures.Future()
    future.set_result(4)
    assert DECLARED["aten::wait"].fn(future) == 4


# -- other processes and other machinery


QUESTIONS = ("local_value", "is_owner", "confirmed_by_owner", "owner", "owner_name")


def test_remote_references():
    reference = SimpleNamespace(
        to_here=lambda timeout: ("here", timeout), local_value=lambda: 1, is_owner=lambda: True,
        confirmed_by_owner=lambda: False, owner=lambda: "worker", owner_name=lambda: "name",
    )  # fmt: skip
    assert DECLARED["aten::to_here"].fn(reference, 2.0) == ("here", 2.0)
    found = [DECLARED[f"aten::{name}"].fn(reference) for name in QUESTIONS]
    assert found == [1, True, False, "worker", "name"]


@pytest.mark.parametrize(
    "name, module, function",
    [
        ("prim::rpc_async", "rpc", "rpc_async"),
        ("prim::rpc_sync", "rpc", "rpc_sync"),
        ("prim::rpc_remote", "rpc", "remote"),
        ("aten::dist_backward", "autograd", "backward"),
    ],
)
def test_distributed(monkeypatch, name, module, function):
    monkeypatch.setitem(sys.modules, f"torch.distributed.{module}", SimpleNamespace(**{function: lambda *a: a}))
    assert DECLARED[name].fn("to", 1) == ("to", 1)
    monkeypatch.delitem(sys.modules, f"torch.distributed.{module}")
    with pytest.raises(Error, match=function):
        DECLARED[name].fn("to", 1)


def test_operators_on_exceptions():
    made = DECLARED["prim::MakeException"].fn("m", "builtins.KeyError")
    assert repr(made) == "KeyError('m')"
    is_exception = DECLARED["prim::IsException"].fn
    assert is_exception(made, "builtins.LookupError")
    assert not is_exception(made, f"__torch__.{__name__}.Custom")
    with pytest.raises(Error, match="no exception class nowhere.Custom"):
        is_exception(made, "nowhere.Custom")
    assert DECLARED["prim::Raise"].fn(None) is None
    with pytest.raises(KeyError) as raised:
        DECLARED["prim::Raise"].fn(made)
    assert raised.value is made
    with pytest.raises(KeyError) as raised:
        DECLARED["prim::RaiseFrom"].fn(made, ValueError("cause"))
    assert isinstance(raised.value.__cause__, ValueError)
    new = DECLARED["prim::NewException"].fn
    assert new("builtins.KeyError", 1, "a").args == (1, "a")
    with pytest.raises(Error, match="no exception class nowhere.Custom"):
        new("nowhere.Custom", 1)
    info = DECLARED["prim::ExceptionInfo"].fn(raised.value)
    assert info == (KeyError, made, made.__traceback__) and info[2] is not None


def test_cells():
    cell = [1]
    assert DECLARED["prim::SetCell"].fn(cell, 2) is None
    assert DECLARED["prim::GetCell"].fn(cell) == 2


@pytest.mark.parametrize("name", ["prim::TypeCheck", "prim::RequiresGradCheck"])
def test_checks_give_the_tensors_and_whether_they_fit(name):
    check, t = DECLARED[name].fn, torch.ones(2)
    fits, differs = T.TensorType.of(torch.float32), T.TensorType.of(torch.int64)
    assert [check(t, t, types=types)[2] for types in ([fits, fits], [fits, differs])] == [True, False]
    assert check(t, types=[differs])[0] is t


@pytest.mark.parametrize("name", MACHINERY)
def test_kinds_of_other_machinery_say_so(name):
    with pytest.raises(Error, match=name):
        DECLARED[name].fn()


def test_a_breakpoint_outside_of_the_machine_is_pythons(monkeypatch):
    stops = []
    monkeypatch.setattr("sys.breakpointhook", lambda: stops.append(1))
    DECLARED["prim::Breakpoint"].fn()
    assert stops == [1]


def test_warnings_have_their_class_and_their_line():
    warn = DECLARED["prim::WarnOf"].fn
    with pytest.warns(DeprecationWarning, match="old") as told:
        warn("old", "builtins.DeprecationWarning", "script.py", 7)
    assert [(w.filename, w.lineno) for w in told] == [("script.py", 7)]
    with pytest.warns(UserWarning, match="odd"):
        warn("odd", "builtins.print", "script.py", 8)


PYTHONS_NUMBERS = {
    "python::int": (int, [("ff", 16), ("-0b11", 0), ("z", 36), ("8", 8), ("", 10), ("1", 1)]),
    "python::hypot.two": (math.hypot, [(3.0, 4.0), (float("inf"), float("nan"))]),
    "python::hypot.three": (math.hypot, [(1.0, 2.0, 2.0)]),
    "python::dist.float": (math.dist, [([0.0, 0.5], [3.0, 4.5]), ([1.0], [1.0, 2.0]), ([], [])]),
    "python::dist.int": (math.dist, [([0, 0], [3, 4])]),
    "python::fsum.float": (math.fsum, [([0.1] * 10,), ([],), ([float("inf"), -float("inf")],)]),
    "python::fsum.int": (math.fsum, [([1 << 60, 1],)]),
    "python::cbrt": (getattr(math, "cbrt", None), [(27.0,), (-8.0,)]),
    "python::log2.float": (math.log2, [(8.0,), (0.3,), (0.0,), (-1.0,), (float("inf"),)]),
    "python::log2.int": (math.log2, [(8,), (1 << 2000,), (0,)]),
    "python::nextafter": (math.nextafter, [(1.0, 2.0), (0.0, -1.0), (float("nan"), 1.0)]),
    "python::ulp": (math.ulp, [(1.0,), (0.0,), (float("inf"),)]),
    "prim::AsInt": (lambda n: range(n).stop, [(2,), (-3,), (1.5,), (2.0,), (1j,)]),
    "python::exp2": (getattr(math, "exp2", None), [(10.0,), (5000.0,)]),
}  # fmt: skip


def test_numbers_that_index_a_tensor():
    as_index = DECLARED["prim::AsIndex"].fn
    assert as_index(-2) == -2
    for number in (1.5, True, 1j):
        with pytest.raises(IndexError, match=type(number).__name__):
            as_index(number)


@pytest.mark.parametrize("name", PYTHONS_NUMBERS)
def test_numbers_are_pythons(name):
    function, calls = PYTHONS_NUMBERS[name]
    if function is None:
        pytest.skip("Python has it from 3.11 on")
    for arguments in calls:
        assert compare(observe(function, arguments), observe(DECLARED[name].fn, arguments)) is None


SHOWN = {
    "python::Size": [([2, 3], torch.Size([2, 3])), ([], torch.Size([])), (None, None)],
    "python::tuple": [([2.0], (2.0,)), ([], ()), (None, None)],
    "python::dict_keys": [(["a", "b"], {"a": 1, "b": 2}.keys()), ([], {}.keys())],
    "python::dict_values": [([1, 1], {"a": 1, "b": 1}.values()), ([], {}.values())],
    "python::dict_items": [([("a", 1)], {"a": 1}.items()), ([], {}.items())],
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_is_what_python_shows(name):
    for given, wanted in SHOWN[name]:
        made = DECLARED[name].fn(given)
        assert type(made) is type(wanted) and str(made) == str(wanted)


def test_what_is_asked_of_exceptions_and_classes():
    assert DECLARED["python::exception_args"].fn(ValueError("a", 2)) == ["a", 2]
    assert DECLARED["python::class_name"].fn(torch.float32) == "dtype"
    is_plain = DECLARED["python::is_plain_tensor"].fn
    assert is_plain(torch.ones(1)) and not is_plain(torch.nn.Parameter(torch.ones(1)))


def test_print_without_an_end_of_line(capsys):
    DECLARED["python::print"].fn("a", "", False)
    DECLARED["python::print"].fn("b", "!", True)
    assert capsys.readouterr() == ("a", "b!")


def test_a_range_that_is_shown():
    assert DECLARED["python::range"].fn(0, 5, 2) == range(0, 5, 2)


def test_every_operator_with_a_meaning_is_run():
    """By the tables, or by a test that names it."""
    text = Path(__file__).read_text()
    named = {n for n in DECLARED if f'"{n}"' in text}
    named |= {f"aten::{n}" for n in QUESTIONS}
    in_gradients = {n for n, o in DECLARED.items() if getattr(o.fn, "__module__", "") == gradient_prims.__name__}
    run = {o.schema.qualified for o in ON_VALUES} | IN_CASES | named | set(MACHINERY) | in_gradients  # test_autodiff.py
    assert [n for n, o in DECLARED.items() if o.fn is not None and n not in run] == []
    assert [n for n in run if DECLARED[n].fn is None] == []
