"""The models of `examples/models`: scripted, they train as in eager and go wherever a module goes."""

from __future__ import annotations

import copy
import functools
import importlib
import io
import pickle
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import jitlite
from jitlite.base import options
from jitlite.debug.equality import difference

MODELS = Path(__file__).parent.parent / "examples" / "models"
NAMES = sorted(path.stem for path in MODELS.glob("*.py") if path.stem != "training")
ADAM = {"language_model", "transformer"}

sys.path.insert(0, str(MODELS))
training = importlib.import_module("training")


@pytest.fixture(autouse=True, scope="module")
def precision():
    """Double where gradients are symbolic: they are rounded otherwise than autograd's, and what is left of a gradient
    that should be zero (that of the bias of the keys in attention) Adam takes for a direction.
    """
    before = torch.get_default_dtype()
    if options.current().symbolic_gradients:
        torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture(params=NAMES)
def model(request):
    """The example's Python module."""
    return importlib.import_module(request.param)


@functools.lru_cache
def trained(name):
    """An eager module, and a scripted copy of it, after three steps; their losses."""
    example = importlib.import_module(name)
    eager, scripted = example.build(), jitlite.script(example.build())
    losses = [training.losses(m, example.batches(), example.loss_of, name in ADAM) for m in (eager, scripted)]
    return eager, scripted, losses


def arguments(model):
    """What to call the model with in evaluation."""
    batch = model.batches(1)[0]
    if model.__name__ == "language_model":
        return (batch,)
    if model.__name__ == "transformer":
        return batch
    return batch[:1]


def outputs(module, model):
    """What a module gives in evaluation, and the tokens that it generates."""
    module.eval()
    with torch.no_grad():
        found = [module(*arguments(model))]
        if model.__name__ == "language_model":
            found.append(module.generate(3, 10))
        if model.__name__ == "transformer":
            found.append(module.generate(*arguments(model)[:1]))
    module.train()
    return found


def assert_close(expected, found):
    """Check that outputs differ by no more than a kernel rounds: one of two modules may have its kernels sooner."""
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_there_are_the_models():
    assert NAMES == ["detector", "language_model", "mobilenet", "resnet", "transformer"]


def test_main(model, capsys):
    assert model.main() == 0
    assert "largest difference" in capsys.readouterr().out


def test_training(model):
    eager, scripted, losses = trained(model.__name__)
    assert len(losses[0]) == 3 and len(set(losses[0])) == 3
    assert losses[0] == pytest.approx(losses[1], abs=1e-6, rel=0)
    assert difference(dict(eager.state_dict()), dict(scripted.state_dict())) is None


@pytest.mark.parametrize(
    ("name", "least"), [("transformer", 1), ("language_model", 2), ("detector", 2), ("resnet", 4), ("mobilenet", 4)]
)
def test_training_with_symbolic_gradients(name, least):
    """Groups of operators that autograd sees as one node each: in double, see `precision`."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with options.override(symbolic_gradients=least):
            eager, scripted, losses = trained.__wrapped__(name)
            assert losses[0] == pytest.approx(losses[1], rel=1e-12)
            assert difference(dict(eager.state_dict()), dict(scripted.state_dict())) is None
    finally:
        torch.set_default_dtype(before)


def test_evaluation(model):
    eager, scripted, _ = trained(model.__name__)
    assert_close(outputs(eager, model), outputs(scripted, model))


def pickled(module):
    return pickle.loads(pickle.dumps(module))


def saved(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled, pytest.param(saved, marks=pytest.mark.slow)])
def test_copies(model, copied):
    _, scripted, _ = trained(model.__name__)
    made = copied(scripted)
    assert type(made) is type(scripted) and made.training == scripted.training
    assert_close(outputs(scripted, model), outputs(made, model))
    ours = {id(p) for p in scripted.parameters()}
    assert not any(id(p) in ours for p in made.parameters())
    # and what is trained further is the copy alone
    before = copy.deepcopy(dict(scripted.named_parameters()))
    again = [training.losses(m, model.batches(), model.loss_of) for m in (made, copied(scripted))]
    assert again[0] == pytest.approx(again[1], abs=1e-6, rel=0)  # one of them may have its kernels sooner
    assert difference(before, dict(scripted.named_parameters())) is None


def test_state_dicts_go_both_ways(model):
    eager, scripted, _ = trained(model.__name__)
    fresh = model.build()
    assert list(scripted.state_dict()) == list(fresh.state_dict())
    fresh.load_state_dict(scripted.state_dict())
    assert_close(outputs(eager, model), outputs(fresh, model))
    back = jitlite.script(model.build())
    back.load_state_dict(eager.state_dict())
    assert_close(outputs(eager, model), outputs(back, model))


def test_tied_weights_stay_tied():
    for name, one, other in (("language_model", "embedding", "decoder"), ("transformer", "embedding", "project")):
        _, scripted, _ = trained(name)
        for made in (scripted, copy.deepcopy(scripted), pickled(scripted), copy.deepcopy(scripted).double()):
            assert getattr(made, one).weight is getattr(made, other).weight
            count = len(list(made.parameters()))
            assert count == len(list(importlib.import_module(name).build().parameters()))


def test_errors_reach_the_caller():
    detector = jitlite.script(importlib.import_module("detector").build())
    with pytest.raises(ValueError, match="targets should not be none"):
        detector(torch.zeros(1, 3, 32, 32))
    bad = [{"boxes": torch.zeros(2, 3), "labels": torch.zeros(2, dtype=torch.long)}]
    with pytest.raises(ValueError, match="target 0: expected boxes of shape"):
        detector(torch.zeros(1, 3, 32, 32), bad)


# -- what is done with modules -----------------------------------------------------------------------------------------


@pytest.fixture
def pair():
    """An eager residual network, and a scripted one with the same weights."""
    resnet = importlib.import_module("resnet")
    return resnet, resnet.build(), jitlite.script(resnet.build())


def both(pair, act):
    """Act on both modules: results, and outputs in evaluation afterwards, are equal."""
    resnet, eager, scripted = pair
    results = [act(eager), act(scripted)]
    assert difference(*results) is None
    assert_close(outputs(eager, resnet), outputs(scripted, resnet))


def test_zero_initialization():
    resnet = importlib.import_module("resnet")
    eager = resnet.build(zero_init_residual=True)
    assert_close(outputs(eager, resnet), outputs(jitlite.script(eager), resnet))


def test_parameters_are_shared_with_the_original():
    resnet = importlib.import_module("resnet")
    eager = resnet.build()
    scripted = jitlite.script(eager)
    for views in ("named_parameters", "named_buffers"):
        ours, theirs = dict(getattr(scripted, views)()), dict(getattr(eager, views)())
        assert list(ours) == list(theirs)
        assert all(ours[name] is theirs[name] for name in theirs)
    assert [n for n, _ in scripted.named_modules()] == [n for n, _ in eager.named_modules()]
    training.losses(scripted, resnet.batches(), resnet.loss_of)
    assert_close(outputs(eager, resnet), outputs(scripted, resnet))


def test_apply_and_zero_grad(pair):
    def halve(module):
        if isinstance(module, nn.Module) and getattr(module, "weight", None) is not None:
            with torch.no_grad():
                module.weight *= 0.5

    def act(module):
        assert module.apply(halve) is module
        module(torch.ones(2, 3, 32, 32)).sum().backward()
        norms = [p.grad.norm() for p in module.parameters()]
        module.zero_grad()
        return norms, [p.grad for p in module.parameters()]

    both(pair, act)


def test_gradient_clipping(pair):
    def act(module):
        module(torch.ones(2, 3, 32, 32)).sum().backward()
        norm = nn.utils.clip_grad_norm_(module.parameters(), 0.1)
        return norm, [p.grad for p in module.parameters()]

    both(pair, act)


def test_freezing_a_part(pair):
    def act(module):
        module.stages.requires_grad_(False)
        module(torch.ones(2, 3, 32, 32)).sum().backward()
        return [p.grad for p in module.parameters()]

    both(pair, act)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.half])
def test_dtypes(pair, dtype):
    resnet, eager, scripted = pair
    image = torch.randn(2, 3, 32, 32)
    expected = eager.to(dtype).eval()(image.to(dtype))
    moved = scripted.to(dtype).eval()
    assert moved is scripted
    assert difference(expected, moved(image.to(dtype))) is None
    assert {p.dtype for p in scripted.parameters()} == {dtype}


def test_hooks_after_scripting(pair):
    seen = []

    def act(module):
        handle = module.register_forward_hook(lambda m, args, out: out * 2)
        before = module.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
        inner = module.fc.register_forward_hook(lambda m, args, out: seen.append(out.shape))
        backward = module.register_full_backward_hook(lambda m, into, out: seen.append(len(out)))
        result = module(torch.ones(2, 3, 32, 32))
        result.sum().backward()
        for h in (handle, before, inner, backward):
            h.remove()
        return result

    both(pair, act)


def test_moving_average(pair):
    resnet, eager, scripted = pair
    averages = []
    for module in (eager, scripted):
        average = copy.deepcopy(module).requires_grad_(False)
        training.losses(module, resnet.batches(), resnet.loss_of)
        for mean, now in zip(average.parameters(), module.parameters(), strict=True):
            mean.lerp_(now, 0.3)
        averages.append(average)
    assert_close(*(outputs(a, resnet) for a in averages))
    wrapped = torch.optim.swa_utils.AveragedModel(scripted)
    wrapped.update_parameters(scripted)
    assert_close(outputs(scripted, resnet), outputs(wrapped, resnet))


def test_share_memory(pair):
    def act(module):
        module.share_memory()
        return all(p.is_shared() for p in module.parameters())

    both(pair, act)


def test_buffers_that_are_not_saved():
    transformer = importlib.import_module("transformer")
    scripted = jitlite.script(transformer.build())
    assert "position.waves" in dict(scripted.named_buffers())
    assert "position.waves" not in scripted.state_dict()
    assert "position.waves" not in pickled(scripted).state_dict()
    assert scripted.double().position.waves.dtype is torch.float64


def test_distributed_data_parallel(tmp_path):
    resnet = importlib.import_module("resnet")
    eager = training.losses(resnet.build(), resnet.batches(), resnet.loss_of)
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(jitlite.script(resnet.build()))
        assert training.losses(wrapped, resnet.batches(), resnet.loss_of) == pytest.approx(eager, abs=1e-6)
    finally:
        torch.distributed.destroy_process_group()


class Images(torch.utils.data.Dataset):
    """Made by a scripted module, one after the other."""

    def __init__(self, prepare):
        self.prepare = prepare

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self.prepare(torch.full((3, 8, 8), float(index))), index


class Prepare(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        if image.mean() > 2:
            return image - self.mean
        return image


@jitlite.script
def weights(labels: torch.Tensor) -> torch.Tensor:
    return labels.float() / labels.sum().clamp(min=1)


def collate(samples):
    images, labels = torch.utils.data.default_collate(samples)
    return images, labels, weights(labels)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_data_loader_workers(method):
    def batches(prepare, workers):
        context = method if workers else None
        return list(
            torch.utils.data.DataLoader(
                Images(prepare), 3, collate_fn=collate, num_workers=workers, multiprocessing_context=context
            )
        )

    eager = batches(Prepare(), 0)
    assert len(eager) == 2
    assert difference(eager, batches(jitlite.script(Prepare()), 2)) is None
