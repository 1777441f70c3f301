"""Public models through archives: each is scripted by torch.jit and by jitlite, saved by each, loaded by each, and
values and gradients of all are compared with the eager model's. So are its traces, and the scripts of the module that
torch.fx makes of it.

    python tests/tools/public_models.py                     every package that is installed
    python tests/tools/public_models.py torchvision kornia --match '^resnet' --all
    python tests/tools/public_models.py torchvision --match '^(resnet18|lraspp)' --seconds 60
    python tests/tools/public_models.py torchvision --ways trace fx
    python tests/tools/public_models.py --json out.json

Weights are random, nothing is downloaded. A model takes some seconds, all of them an hour or so; it is no part of the
suite. `docs/archives.md` has the results of the last run.
"""

# ruff: noqa: E501 - a model a line reads better

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import io
import json
import linecache
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import jitlite

_SECONDS = 240
"""A model gets as long for each step, unless `--seconds` says otherwise."""
_LARGEST = 60_000_000
"""Models with more parameters are tried with `--all` only."""


@dataclass
class Case:
    """A model and its arguments.

    Attributes:
        make: builds it, with random weights.
        arguments: makes the arguments of `forward`, of `method` where there is one.
        exact: whether eager and compiled results are to agree in all but rounding; False where the model draws numbers.
    """

    name: str
    make: Callable[[], nn.Module]
    arguments: Callable[[], tuple[Any, ...]]


# -- the packages


def torchvision() -> Iterator[Case]:
    import torchvision as tv

    sizes = {"inception_v3": 96, "vit_": 224, "swin_v2": 256, "maxvit": 224}
    for name in tv.models.list_models(module=tv.models):
        size = next((s for start, s in sizes.items() if name.startswith(start)), 64)
        yield Case(name, lambda n=name: tv.models.get_model(n, weights=None), lambda s=size: (torch.randn(2, 3, s, s),))
    for name in tv.models.list_models(module=tv.models.quantization):
        yield Case(
            name,
            lambda n=name: tv.models.get_model(n, weights=None, quantize=False),
            lambda: (torch.randn(1, 3, 96, 96),),
        )
    for name in tv.models.list_models(module=tv.models.segmentation):
        yield Case(
            name, lambda n=name: tv.models.get_model(n, weights=None, weights_backbone=None),
            lambda: (torch.randn(2, 3, 64, 64),),
        )  # fmt: skip
    for name in tv.models.list_models(module=tv.models.detection):
        small = {} if name.startswith("ssd") else {"min_size": 160, "max_size": 240}
        yield Case(
            name, lambda n=name, s=small: tv.models.get_model(n, weights=None, weights_backbone=None, **s),
            lambda: ([torch.rand(3, 96, 128)],),
        )  # fmt: skip
    for name in tv.models.list_models(module=tv.models.video):
        size = 224 if name.startswith(("mvit", "swin", "s3d")) else 64
        frames = 16 if name.startswith(("mvit", "s3d")) else 8
        yield Case(
            name, lambda n=name: tv.models.get_model(n, weights=None),
            lambda s=size, f=frames: (torch.randn(1, 3, f, s, s),),
        )  # fmt: skip
    for name in tv.models.list_models(module=tv.models.optical_flow):
        yield Case(name, lambda n=name: tv.models.get_model(n, weights=None), lambda: (torch.rand(1, 3, 128, 128),) * 2)


def timm() -> Iterator[Case]:
    import timm as package

    by_family: dict[str, list[str]] = collections.defaultdict(list)
    for name in package.list_models():
        by_family[package.get_pretrained_cfg(name, allow_unregistered=True) and re.split(r"[\d_]", name)[0]].append(
            name
        )
    order = ("atto", "femto", "pico", "nano", "micro", "test", "tiny", "xxs", "xs", "18", "s0", "small", "b0", "_s")
    for names in by_family.values():
        ranked = sorted(names, key=lambda n: (next((i for i, o in enumerate(order) if o in n), len(order)), len(n)))
        name = ranked[0]

        def arguments(n: str = name) -> tuple[Any, ...]:
            return (torch.randn(1, *package.get_pretrained_cfg(n).input_size),)

        yield Case(name, lambda n=name: package.create_model(n, pretrained=False), arguments)


def torch_geometric() -> Iterator[Case]:
    import torch_geometric.nn as g

    def edges() -> torch.Tensor:
        return torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 2, 3, 4, 0, 2, 1]])

    def conv(*arguments: Any, **keywords: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return arguments, keywords

    plain = {
        "GCNConv": conv(4, 6), "ChebConv": conv(4, 6, K=3), "SAGEConv": conv(4, 6), "GraphConv": conv(4, 6),
        "GravNetConv": None, "GatedGraphConv": conv(6, 2), "ResGatedGraphConv": conv(4, 6), "GATConv": conv(4, 6, heads=2),
        "GATv2Conv": conv(4, 6, heads=2), "TransformerConv": conv(4, 6, heads=2), "AGNNConv": conv(), "TAGConv": conv(4, 6),
        "ARMAConv": conv(4, 6), "SGConv": conv(4, 6), "APPNP": conv(3, 0.1), "MFConv": conv(4, 6),
        "EdgeConv": conv(nn.Linear(8, 6)), "FeaStConv": conv(4, 6), "LEConv": conv(4, 6), "GINConv": conv(nn.Linear(4, 6)),
        "ClusterGCNConv": conv(4, 6), "FiLMConv": conv(4, 6), "SuperGATConv": None, "EGConv": conv(4, 8), "GENConv": conv(4, 6),
        "SSGConv": conv(4, 6, alpha=0.1), "GeneralConv": conv(4, 6), "LGConv": conv(), "AntiSymmetricConv": conv(4),
        "FAConv": None, "GCN2Conv": None, "PNAConv": conv(
            4, 6, aggregators=["mean", "max"], scalers=["identity"], deg=torch.tensor([0, 3, 2])),
    }  # fmt: skip
    for name, given in plain.items():
        if given is not None:
            yield Case(
                name, lambda n=name, a=given: getattr(g, n)(*copy.deepcopy(a[0]), **a[1]),
                lambda: (torch.randn(5, 4), edges()),
            )  # fmt: skip
    for name in ("GCN", "GraphSAGE", "GIN", "GAT", "PNA", "EdgeCNN"):
        extra = (
            {"aggregators": ["mean"], "scalers": ["identity"], "deg": torch.tensor([0, 3, 2])} if name == "PNA" else {}
        )
        yield Case(
            name, lambda n=name, e=extra: getattr(g, n)(4, 8, num_layers=2, **e), lambda: (torch.randn(5, 4), edges())
        )
    for name in ("GraphNorm", "BatchNorm", "LayerNorm", "InstanceNorm", "PairNorm", "MeanSubtractionNorm"):
        made = () if name in ("PairNorm", "MeanSubtractionNorm") else (4,)
        yield Case(name, lambda n=name, a=made: getattr(g, n)(*a), lambda: (torch.randn(5, 4),))
    for name in (
        "SumAggregation",
        "MeanAggregation",
        "MaxAggregation",
        "SoftmaxAggregation",
        "StdAggregation",
        "VarAggregation",
    ):
        yield Case(name, lambda n=name: getattr(g, n)(), lambda: (torch.randn(5, 4), torch.tensor([0, 0, 1, 1, 1])))
    yield Case(
        "JumpingKnowledge", lambda: g.JumpingKnowledge("lstm", 4, 2), lambda: ([torch.randn(5, 4), torch.randn(5, 4)],)
    )
    yield Case("DenseGCNConv", lambda: g.DenseGCNConv(4, 6), lambda: (torch.randn(2, 5, 4), torch.ones(2, 5, 5)))


def torchani() -> Iterator[Case]:
    from torchani import arch

    def arguments() -> tuple[Any, ...]:
        return ((torch.tensor([[6, 1, 1, 1, 1]]), torch.randn(1, 5, 3)),)

    for symbols in (("H", "C"), ("H", "C", "N", "O")):
        yield Case(
            f"simple_ani {''.join(symbols)}",
            lambda s=symbols: arch.simple_ani(s, lot="wb97x-631gd", ensemble_size=2, dispersion=False, repulsion=True),
            arguments,
        )


def torchaudio() -> Iterator[Case]:
    import torchaudio as ta

    models, wave = ta.models, lambda: (torch.randn(1, 8000),)
    yield Case("Wav2Letter", lambda: models.Wav2Letter(num_classes=5), lambda: (torch.randn(1, 1, 4000),))
    yield Case("DeepSpeech", lambda: models.DeepSpeech(8, n_hidden=16), lambda: (torch.randn(1, 1, 10, 8),))
    yield Case(
        "ConvTasNet",
        lambda: models.ConvTasNet(
            enc_num_feats=16, msk_num_feats=8, msk_num_hidden_feats=16, msk_num_layers=2, msk_num_stacks=1
        ),
        lambda: (torch.randn(1, 1, 1000),),
    )
    yield Case(
        "Conformer", lambda: models.Conformer(16, 4, 32, 2, 3), lambda: (torch.randn(2, 10, 16), torch.tensor([10, 7]))
    )
    yield Case(
        "Emformer",
        lambda: models.Emformer(16, 4, 32, 2, 4, right_context_length=1),
        lambda: (torch.randn(2, 9, 16), torch.tensor([9, 7])),
    )
    yield Case(
        "wav2vec2_base",
        lambda: models.wav2vec2_model(
            "layer_norm", [(16, 10, 5), (16, 3, 2)], True, 32, 0.0, 8, 2, 2, 4, 0.0, 64, 0.0, 0.0, True, 0.0, 5
        ),
        wave,
    )
    yield Case(
        "wavlm",
        lambda: models.wavlm_model(
            "layer_norm", [(16, 10, 5), (16, 3, 2)], True, 32, 0.0, 8, 2, 2, 4, 32, 80, 0.0, 64, 0.0, 0.0, True, 0.0, 5
        ),
        wave,
    )
    yield Case(
        "Tacotron2",
        lambda: models.Tacotron2(
            n_mels=8,
            n_symbol=10,
            symbol_embedding_dim=16,
            encoder_embedding_dim=16,
            attention_rnn_dim=16,
            attention_hidden_dim=8,
            decoder_rnn_dim=16,
            prenet_dim=8,
            postnet_embedding_dim=16,
        ),
        lambda: (torch.randint(0, 10, (2, 6)), torch.tensor([6, 4]), torch.randn(2, 8, 12), torch.tensor([12, 9])),
    )
    yield Case(
        "WaveRNN",
        lambda: models.WaveRNN([5, 5, 8], 16, 200, n_res_block=2, n_rnn=16, n_fc=16, n_freq=8, n_hidden=8, n_output=8),
        lambda: (torch.randn(1, 1, 200 * 6), torch.randn(1, 1, 8, 10)),
    )
    yield Case("HDemucs", lambda: models.hdemucs_low(["a", "b"]), lambda: (torch.randn(1, 2, 44100),))
    yield Case(
        "RNNT",
        lambda: models.emformer_rnnt_model(
            input_dim=80,
            encoding_dim=16,
            num_symbols=8,
            segment_length=4,
            right_context_length=1,
            time_reduction_input_dim=16,
            time_reduction_stride=4,
            transformer_num_heads=2,
            transformer_ffn_dim=16,
            transformer_num_layers=1,
            transformer_dropout=0.0,
            transformer_activation="gelu",
            transformer_left_context_length=2,
            transformer_max_memory_size=0,
            transformer_weight_init_scale_strategy="depthwise",
            transformer_tanh_on_mem=True,
            symbol_embedding_dim=8,
            num_lstm_layers=2,
            lstm_layer_norm=True,
            lstm_layer_norm_epsilon=1e-3,
            lstm_dropout=0.0,
        ),
        lambda: (
            torch.randn(1, 20, 80),
            torch.tensor([16], dtype=torch.int32),
            torch.randint(0, 8, (1, 3)),
            torch.tensor([3], dtype=torch.int32),
        ),
    )
    for name, keywords in {
        "Spectrogram": {}, "MelSpectrogram": {}, "MFCC": {"melkwargs": {"n_fft": 400}}, "LFCC": {}, "InverseSpectrogram": None,
        "AmplitudeToDB": {}, "Resample": {"orig_freq": 8, "new_freq": 5}, "MuLawEncoding": {}, "ComputeDeltas": {},
        "Fade": {}, "Vol": {"gain": 0.5}, "SpectralCentroid": {"sample_rate": 8000}, "SlidingWindowCmn": {},
        "GriffinLim": None, "PitchShift": {"sample_rate": 8000, "n_steps": 2}, "Loudness": None, "Deemphasis": {}, "Preemphasis": {},
        "Convolve": None, "SpeedPerturbation": None, "RNNTLoss": None, "TimeMasking": {"time_mask_param": 0},
    }.items():  # fmt: skip
        if keywords is not None and hasattr(ta.transforms, name):
            yield Case(name, lambda n=name, k=keywords: getattr(ta.transforms, n)(**k), lambda: (torch.rand(1, 4000),))


def _module_of(expression: str, names: dict[str, Any]) -> nn.Module:
    """A module whose `forward` is an expression in the parameters `a`, `b`, ... and these names."""
    parameters = sorted(set(re.findall(r"\b[a-h]\b", expression)))
    lines = [
        "class F(nn.Module):\n",
        f"    def forward(self, {', '.join(parameters)}):\n",
        f"        return {expression}\n",
    ]
    file, found = f"<{expression}>", {"nn": nn, "torch": torch, "__name__": __name__, **names}
    linecache.cache[file] = (0, None, lines, file)
    exec(compile("".join(lines), file, "exec"), found)
    made: nn.Module = found["F"]()
    return made


def kornia() -> Iterator[Case]:
    import kornia as k
    from kornia_functions import KORNIA

    def image() -> tuple[Any, ...]:
        return (torch.rand(1, 3, 16, 16),)

    color = [
        "RgbToGrayscale", "RgbToHsv", "HsvToRgb", "RgbToHls", "HlsToRgb", "RgbToLab", "LabToRgb", "RgbToLuv", "LuvToRgb",
        "RgbToXyz", "XyzToRgb", "RgbToYcbcr", "YcbcrToRgb", "RgbToYuv", "YuvToRgb", "RgbToBgr", "BgrToRgb", "Sepia",
        "RgbToLinearRgb", "LinearRgbToRgb",
    ]  # fmt: skip
    for name in color:
        yield Case(f"color.{name}", lambda n=name: getattr(k.color, n)(), image)
    filters: dict[str, tuple[Any, ...]] = {
        "GaussianBlur2d": ((3, 3), (1.5, 1.5)), "BoxBlur": ((3, 3),), "MedianBlur": ((3, 3),), "Laplacian": (3,), "Sobel": (),
        "SpatialGradient": (), "UnsharpMask": ((3, 3), (1.5, 1.5)), "MotionBlur": (3, 35.0, 0.5), "Canny": (),
        "MaxBlurPool2D": (3,), "BlurPool2D": (3,), "BilateralBlur": ((3, 3), 0.1, (1.5, 1.5)),
    }  # fmt: skip
    for name, given in filters.items():
        yield Case(f"filters.{name}", lambda n=name, a=given: getattr(k.filters, n)(*a), image)
    enhance: dict[str, tuple[Any, ...]] = {
        "AdjustBrightness": (0.2,), "AdjustContrast": (0.5,), "AdjustGamma": (0.5,), "AdjustHue": (0.2,),
        "AdjustSaturation": (0.5,), "Normalize": (torch.zeros(3), torch.ones(3)), "Denormalize": (torch.zeros(3), torch.ones(3)),
        "ZCAWhitening": None, "Invert": (),
    }  # fmt: skip
    for name, values in enhance.items():
        if values is not None:
            yield Case(f"enhance.{name}", lambda n=name, a=values: getattr(k.enhance, n)(*a), image)
    geometry: dict[str, tuple[Any, ...]] = {
        "Rotate": (torch.tensor([30.0]),), "Translate": (torch.tensor([[1.0, 2.0]]),), "Scale": (torch.tensor([[1.5, 1.5]]),),
        "Shear": (torch.tensor([[0.1, 0.2]]),), "Hflip": (), "Vflip": (), "Rot180": (), "Rescale": (0.5,), "Resize": ((8, 8),),
        "PyrDown": (), "PyrUp": (), "ScalePyramid": (3, 1.6, 8), "Affine": (torch.tensor([30.0]),),
    }  # fmt: skip
    for name, values in geometry.items():
        yield Case(f"geometry.{name}", lambda n=name, a=values: getattr(k.geometry.transform, n)(*a), image)
    gray = lambda: (torch.rand(1, 1, 32, 32),)  # noqa: E731
    for name, given in {
        "CornerHarris": (0.04,),
        "CornerGFTT": (),
        "BlobHessian": (),
        "BlobDoG": None,
        "HardNet": None,
        "SOSNet": None,
        "SIFTDescriptor": (32,),
        "MKDDescriptor": None,
        "TFeat": None,
    }.items():
        if given is not None:
            yield Case(f"feature.{name}", lambda n=name, a=given: getattr(k.feature, n)(*a), gray)
    pair = lambda: (torch.rand(1, 3, 16, 16), torch.rand(1, 3, 16, 16))  # noqa: E731
    for name, given in {
        "SSIMLoss": (5,),
        "PSNRLoss": (1.0,),
        "MS_SSIMLoss": (),
        "TotalVariation": None,
        "CharbonnierLoss": (),
    }.items():
        if given is not None:
            yield Case(f"losses.{name}", lambda n=name, a=given: getattr(k.losses, n)(*a), pair)
    for expression, shapes in KORNIA.items():
        yield Case(
            expression, lambda e=expression: _module_of(f"k.{e}", {"k": k}),
            lambda s=shapes: tuple(torch.rand(shape) for shape in s),
        )  # fmt: skip


PACKAGES: dict[str, Callable[[], Iterator[Case]]] = {
    "torchvision": torchvision, "timm": timm, "torch_geometric": torch_geometric, "torchani": torchani,
    "torchaudio": torchaudio, "kornia": kornia,
}  # fmt: skip


# -- one model


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_of(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_of(part)


def observed(module: Any, arguments: tuple[Any, ...]) -> tuple[list[torch.Tensor], dict[str, torch.Tensor | None]]:
    """The tensors of the result, and the gradients of the parameters."""
    module.zero_grad()
    torch.manual_seed(0)
    found = list(tensors_of(module(*copy.deepcopy(arguments))))
    sums = [t.float().square().mean() if not t.is_complex() else t.abs().mean() for t in found if t.requires_grad]
    if sums:
        torch.stack([s.sum() for s in sums]).sum().backward()
    return [t.detach() for t in found], {n: p.grad for n, p in module.named_parameters()}


def differences(got: Any, expected: Any) -> str:
    """What is not the same, nothing where all is."""
    for i, (one, other) in enumerate(zip(got[0], expected[0], strict=False)):
        if one.shape != other.shape or not torch.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"value {i}"
    if len(got[0]) != len(expected[0]):
        return f"{len(got[0])} tensors, not {len(expected[0])}"
    for name, gradient in expected[1].items():
        if name not in got[1]:
            continue  # a module that has become another one for scripts, without weight_norm for instance
        own = got[1][name]
        if (own is None) != (gradient is None):
            return f"gradient of {name} is {'missing' if own is None else 'there'}"
        if own is not None and gradient is not None:
            finite = gradient[gradient.isfinite()]
            scale = float(finite.abs().max()) if finite.numel() else 0.0
            if not torch.allclose(own, gradient, rtol=1e-2, atol=1e-4 + 1e-3 * scale, equal_nan=True):
                return f"gradient of {name}"
    return ""


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"over {seconds} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


@dataclass
class Result:
    """What became of a model: for each road nothing, or what went wrong."""

    name: str
    seconds: int = _SECONDS
    roads: dict[str, str] = field(default_factory=dict)


def attempt(result: Result, road: str, run: Callable[[], Any]) -> Any:
    """What `run` gives, None where it fails; what it says becomes the result of the road."""
    try:
        with limited(result.seconds):
            found = run()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # torch.jit raises errors of all kinds
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        result.roads[road] = f"{type(error).__name__}: {' / '.join(lines[:3])}"[:400]
        return None
    result.roads[road] = found if isinstance(found, str) else ""
    return found


def saved_by_torch(module: Any) -> bytes:
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    return buffer.getvalue()


Compile = Callable[[nn.Module, tuple[Any, ...]], Any]


# jitlite first: torch.jit drops the declared overloads of a function once it has compiled them
WAYS: dict[str, dict[str, Compile]] = {
    "script": {
        "jitlite": lambda model, arguments: jitlite.script(model),
        "torch": lambda model, arguments: torch.jit.script(model),
    },
    "trace": {
        "jitlite": lambda model, arguments: jitlite.trace(model, arguments, check_trace=False, strict=False),
        "torch": lambda model, arguments: torch.jit.trace(model, arguments, check_trace=False, strict=False),
    },
}
WAYS["fx"] = WAYS["script"]
"""What makes a program of a model, by the way and by whose it is."""
VERBS = {"script": "scripts", "trace": "traces", "fx": "scripts fx"}
SAVERS: dict[str, Callable[[Any], bytes]] = {"jitlite": lambda m: m.save_to_buffer(), "torch": saved_by_torch}
LOADERS: dict[str, Callable[[bytes], Any]] = {
    "torch": lambda data: torch.jit.load(io.BytesIO(data)),
    "jitlite": lambda data: jitlite.load(io.BytesIO(data), allow=["torchvision", "torchaudio", "cuaev", "mnp"]),
}


def tried(case: Case, largest: int, seconds: int, way: str) -> Result | None:
    """One model on all roads; None for one that is too large."""
    result = Result(case.name, seconds)
    torch.manual_seed(0)
    model = attempt(result, "eager", case.make)
    if model is None:
        return result
    model.eval()
    arguments = case.arguments()
    with torch.no_grad():  # lazy modules then have parameters; what modules keep of the call can still be copied
        attempt(result, "eager", lambda: [model(*copy.deepcopy(arguments))])
    if not result.roads["eager"] and sum(p.numel() for p in model.parameters()) > largest:
        return None
    if way == "fx":
        model = attempt(result, "eager", lambda: torch.fx.symbolic_trace(model))
        if model is None:
            return result
    expected = attempt(result, "eager", lambda: observed(copy.deepcopy(model), arguments))
    if expected is None:
        return result
    for maker, make in WAYS[way].items():
        compiled = attempt(
            result, f"{maker} {VERBS[way]}", lambda m=make: m(copy.deepcopy(model), copy.deepcopy(arguments))
        )
        if compiled is None:
            continue
        attempt(result, f"{maker} runs", lambda m=compiled: differences(observed(m, arguments), expected))
        data = attempt(result, f"{maker} saves", lambda m=compiled, s=SAVERS[maker]: s(m))
        if data is None:
            continue
        for loader, load in LOADERS.items():
            road = f"{maker} to {loader}"
            attempt(result, road, lambda d=data, l=load: differences(observed(l(d), arguments), expected))
    return result


def cases_of(package: str) -> list[Case]:
    """The models of a package; none where it, or something that it needs, is not installed."""
    try:
        return list(PACKAGES[package]())
    except ImportError as error:
        print(f"{package}: {error}")
        return []


def columns(way: str) -> list[str]:
    """The roads that the table shows."""
    verb = VERBS[way]
    return [
        f"torch {verb}", f"jitlite {verb}", "torch runs", "jitlite runs", "torch to torch", "torch to jitlite",
        "jitlite to torch", "jitlite to jitlite",
    ]  # fmt: skip


def main() -> int:
    """Print what fails, then a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", default=list(PACKAGES))
    parser.add_argument("--match", default="", help="a regular expression that names have")
    parser.add_argument("--all", action="store_true", help="large models too")
    parser.add_argument("--seconds", type=int, default=_SECONDS, help="for each step of a model")
    parser.add_argument("--json", help="write all results to this file")
    parser.add_argument("--ways", nargs="*", choices=list(WAYS), default=["script"], help="script, trace, fx")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, dict[str, list[Result]]] = {way: {} for way in options.ways}
    for package in options.packages:
        for case in cases_of(package):
            if not re.search(options.match, case.name):
                continue
            for way in options.ways:
                begin = time.perf_counter()
                result = tried(case, sys.maxsize if options.all else _LARGEST, options.seconds, way)
                if result is None:
                    continue
                found[way].setdefault(package, []).append(result)
                wrong = {road: text for road, text in result.roads.items() if text}
                print(f"{package} {case.name} {way} {time.perf_counter() - begin:.1f} s {wrong or 'good'}", flush=True)
    for way, by_package in found.items():
        shown = columns(way)
        print("\n| package | models | " + " | ".join(shown) + " |\n|" + "---|" * (len(shown) + 2))
        for package, results in by_package.items():
            usable = [r for r in results if not r.roads["eager"]]
            good = [str(sum(r.roads.get(column) == "" for r in usable)) for column in shown]
            print(f"| {package} | {len(usable)} | " + " | ".join(good) + " |")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(
                {w: {p: {r.name: r.roads for r in rs} for p, rs in by.items()} for w, by in found.items()},
                file,
                indent=1,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
