"""What was one object in a module is one object after every road that a module can take."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from shared_objects import ROADS, Pattern, build, loaded, pickled, plans
from torch import nn

import jitlite

EXAMPLES = 15


@pytest.mark.parametrize("road", ROADS)
@settings(deadline=None, max_examples=EXAMPLES)
@given(plans())
def test_names_of_one_object_stay_names_of_one_object(road, found):
    before = Pattern(build(found)).found
    assert Pattern(ROADS[road](build(found))).found == before


CHANGES = {
    "to double": lambda m: m.to(torch.float64),
    "half": lambda m: m.half(),
    "state dict": lambda m: m.load_state_dict({k: v.detach() + 1 for k, v in m.state_dict().items()}) and m,
    "train": lambda m: m.train(),
    "requires_grad": lambda m: m.requires_grad_(False),
}


@pytest.mark.parametrize("change", CHANGES)
@settings(deadline=None, max_examples=EXAMPLES)
@given(plans())
def test_changes_of_a_module_keep_names_together(change, found):
    for road in (jitlite.script, loaded):
        before, after = road(build(found)), road(build(found))
        if change == "requires_grad":
            before.requires_grad_(False)
        CHANGES[change](after)
        assert Pattern(after, storages=False).found == Pattern(before, storages=False).found


# -- what is written by one name is read by the others


class Two(nn.Module):
    def forward(self, x: torch.Tensor):
        self.a.add_(x.sum())
        self.b.mul_(2)
        return self.a.sum() + 0, self.b.sum() + 0


def parameter(t: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(t, requires_grad=False)


def two(a: torch.Tensor, b: torch.Tensor, *buffers: str) -> Two:
    made = Two()
    for name, value in (("a", a), ("b", b)):
        if name in buffers:
            made.register_buffer(name, value)
        else:
            setattr(made, name, value)
    return made


def pairs():
    """Modules with two names for one tensor, or for two that share memory; each call makes new ones."""
    plain, tensor = torch.ones(2), parameter(torch.ones(4))
    base, other, third, fourth = torch.ones(4), torch.ones(4), parameter(torch.ones(4)), parameter(torch.ones(4))
    return {
        "buffers": two(plain, plain, "a", "b"),
        "buffer and attribute": two(plain, plain, "a"),
        "attributes": two(plain, plain),
        "parameters": two(tensor, tensor),
        "parameter and buffer": two(tensor, tensor, "b"),
        "views as buffers": two(base, base[1:3], "a", "b"),
        "views as attributes": two(other, other[1:3]),
        "data of a parameter": two(third, third.data, "b"),
        "views as parameters": two(fourth, parameter(fourth[1:3])),
    }


def as_python(module: Any, folder: Any) -> Any:
    file = folder / "written.py"
    jitlite.to_python(jitlite.script(module)).save(file)
    names = {"__file__": str(file)}
    exec(file.read_text(), names)
    return names["load"]()


def exported(module: Any) -> Any:
    file = io.BytesIO()
    torch.export.save(jitlite.to_exported(jitlite.script(module), (torch.ones(2),)), file)
    file.seek(0)
    return torch.export.load(file).module()


def frozen(module: Any) -> Any:
    return jitlite.freeze(jitlite.script(module).eval())


WRITING_ROADS = {
    **ROADS,
    "freeze": frozen,
    "freeze loaded": lambda m: jitlite.freeze(loaded(m).eval()),
    "save frozen": lambda m: jitlite.load(io.BytesIO(frozen(m).save_to_buffer())),
    "deepcopy frozen": lambda m: copy.deepcopy(frozen(m)),
    "pickle frozen": lambda m: pickled(frozen(m)),
    "fx": lambda m: jitlite.to_fx(jitlite.script(m)),
    "deepcopy of fx": lambda m: copy.deepcopy(jitlite.to_fx(jitlite.script(m))),
    "exported": exported,
    "python": None,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names", pairs())
@pytest.mark.parametrize("road", WRITING_ROADS)
def test_what_is_written_by_one_name_is_read_by_the_other(road, names, tmp_path):
    eager, original = pairs()[names], pairs()[names]
    module = as_python(original, tmp_path) if road == "python" else WRITING_ROADS[road](original)
    for _ in range(3):
        assert list(map(float, module(torch.ones(2)))) == list(map(float, eager(torch.ones(2))))


class InList(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.ones(2))
        self.cache = [self.b]

    def forward(self, x: torch.Tensor):
        self.cache[0].mul_(2)
        return self.b + x


def test_exported_programs_refuse_to_write_to_elements_of_lists():
    with pytest.raises(jitlite.NotSupportedError, match=r"size \[2\] in a list, dict or tuple .* is written"):
        jitlite.to_exported(jitlite.script(InList()), (torch.ones(2),))


# -- training


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4, num_layers=2, bidirectional=True)
        self.out = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor):
        return self.out(self.rnn(x)[0])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor):
        return x + torch.softmax(self.query(x) @ self.key(x).transpose(1, 2), 2) @ self.value(x)


class Tied(nn.Module):
    """A transformer whose last layer has the weights of the first."""

    def __init__(self, body: nn.Module | None = None):
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        self.body = body if body is not None else Attention()
        self.head = nn.Linear(8, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: torch.Tensor):
        return self.head(self.body(self.embed(x)))


MODELS = {
    "lstm": (Speech, lambda: torch.ones(5, 1, 3)),
    "gru": (lambda: nn.Sequential(nn.Linear(3, 3), Last(nn.GRU(3, 2))), lambda: torch.ones(5, 1, 3)),
    "rnn": (lambda: Last(nn.RNN(3, 2, nonlinearity="relu")), lambda: torch.ones(5, 1, 3)),
    "tied": (Tied, lambda: torch.tensor([[1, 2, 6]])),
}


class Last(nn.Module):
    def __init__(self, rnn: nn.Module):
        super().__init__()
        self.rnn = rnn

    def forward(self, x: torch.Tensor):
        return self.rnn(x)[0]


def trained(module: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """The parameters after some steps."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.001)
    for _ in range(3):
        optimizer.zero_grad()
        module(x).square().sum().backward()
        assert all(p.grad is not None for p in module.parameters())
        optimizer.step()
    return [p.detach().clone() for p in module.parameters()]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("road", ["script", "load", "pickle of loaded", "deepcopy of loaded", "saved again"])
def test_models_are_trained_as_in_eager_python(model, road):
    make, example = MODELS[model]
    torch.manual_seed(0)
    eager = make()
    module = ROADS[road](copy.deepcopy(eager))
    torch.testing.assert_close(trained(module, example()), trained(eager, example()))


@pytest.mark.slow
def test_a_transformer_of_torch_is_trained_as_in_eager_python():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    eager, x = Tied(layer), torch.tensor([[1, 2, 6]])
    torch.testing.assert_close(trained(loaded(copy.deepcopy(eager)), x), trained(eager, x))


def weights_of(module: Any) -> tuple[Any, Any]:
    return module.rnn._flat_weights, list(module.rnn.parameters())


@pytest.mark.parametrize("road", [jitlite.script, loaded])
def test_the_list_of_weights_follows_what_is_assigned(road):
    module = road(Speech())
    state = {name: torch.full_like(value, 0.5) for name, value in module.state_dict().items()}
    module.load_state_dict(state, assign=True)
    module.rnn.weight_ih_l0 = nn.Parameter(torch.zeros(16, 3))
    weights, parameters = weights_of(module)
    assert all(a is b for a, b in zip(weights, parameters, strict=True)) and not weights[0].any()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        module.double()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    weights, parameters = weights_of(module)
    assert all(a is b for a, b in zip(weights, parameters, strict=True)) and weights[0].dtype is torch.float64


def test_a_pickle_keeps_what_a_loaded_module_shares_with_others():
    module = loaded(Tied())
    outer, weight, again = pickle.loads(pickle.dumps((nn.Sequential(module), module.embed.weight, module)))
    assert outer[0] is again and again.head.weight is weight
