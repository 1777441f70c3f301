"""Models to be traced below autograd, each with its example inputs: what `test_trace_dispatch.py` sweeps."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "models"))

Made = tuple[nn.Module, tuple[Any, ...]]
_models: dict[str, Callable[[], Made]] = {}


def model(make: Callable[[], Made]) -> Callable[[], Made]:
    _models[make.__name__] = make
    return make


def names() -> list[str]:
    return list(_models)


def build(name: str) -> Made:
    """The model of this name and its inputs, the same each time."""
    torch.manual_seed(0)
    return _models[name]()


def _layer(name: str, make: Callable[[], nn.Module], *inputs: Callable[[], torch.Tensor]) -> None:
    _models[name] = lambda: (make(), tuple(i() for i in inputs))


def _rand(*sizes: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(*sizes)


def _ids(high: int, *sizes: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randint(high, sizes)


_layer("linear", lambda: nn.Linear(3, 4), _rand(2, 3))
_layer("mlp", lambda: nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 2), nn.Softmax(-1)), _rand(5, 3))
_layer("bilinear", lambda: nn.Bilinear(3, 4, 2), _rand(5, 3), _rand(5, 4))
_layer("conv1d", lambda: nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), _rand(2, 2, 8))
_layer("conv2d", lambda: nn.Conv2d(4, 6, 3, stride=2, groups=2), _rand(2, 4, 8, 8))
_layer("conv3d", lambda: nn.Conv3d(1, 2, 2), _rand(1, 1, 4, 4, 4))
_layer("conv_transpose", lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), _rand(1, 2, 5, 5))
_layer("batch_norm1d", lambda: nn.BatchNorm1d(3), _rand(4, 3))
_layer("batch_norm2d", lambda: nn.BatchNorm2d(3, affine=False), _rand(2, 3, 4, 4))
_layer("no_statistics", lambda: nn.BatchNorm2d(3, track_running_stats=False), _rand(2, 3, 4, 4))
_layer("instance_norm", lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True), _rand(2, 3, 5))
_layer("layer_norm", lambda: nn.LayerNorm([3, 4]), _rand(2, 3, 4))
_layer("group_norm", lambda: nn.GroupNorm(2, 4), _rand(2, 4, 5))
_layer("rms_norm", lambda: nn.RMSNorm(4), _rand(2, 3, 4))
_layer("local_response_norm", lambda: nn.LocalResponseNorm(2), _rand(2, 4, 5, 5))
_layer("dropout", lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3), nn.Dropout1d(0.2)), _rand(2, 3, 4))
_layer("alpha_dropout", lambda: nn.AlphaDropout(0.4), _rand(3, 4))
_layer("activations", lambda: nn.Sequential(nn.SiLU(), nn.ELU(), nn.Mish(), nn.Hardswish(), nn.PReLU()), _rand(3, 4))
_layer(
    "inplace",
    lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 2), nn.ELU(inplace=True)),
    _rand(2, 3),
)
_layer("rrelu", lambda: nn.RReLU(), _rand(3, 4))
_layer("max_pool", lambda: nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(2)), _rand(1, 2, 8, 8))
_layer("adaptive_pool", lambda: nn.Sequential(nn.AdaptiveAvgPool2d(3), nn.AdaptiveMaxPool2d(2)), _rand(1, 2, 7, 7))
_layer("upsample", lambda: nn.Upsample(scale_factor=2, mode="bilinear"), _rand(1, 2, 3, 3))
_layer("pixel_shuffle", lambda: nn.PixelShuffle(2), _rand(1, 8, 3, 3))
_layer("unfold", lambda: nn.Sequential(nn.Unfold(2), nn.Fold((4, 4), 2)), _rand(1, 2, 4, 4))
_layer("embedding", lambda: nn.Sequential(nn.Embedding(10, 4, padding_idx=0), nn.Linear(4, 2)), _ids(10, 3, 5))
_layer("embedding_bag", lambda: nn.EmbeddingBag(10, 4, mode="mean"), _ids(10, 3, 5))
_layer("rnn", lambda: nn.RNN(3, 4, num_layers=2), _rand(5, 2, 3))
_layer("lstm", lambda: nn.LSTM(3, 4, bidirectional=True, batch_first=True), _rand(2, 5, 3))
_layer("gru", lambda: nn.GRU(3, 4), _rand(5, 2, 3))
_layer("gru_cell", lambda: nn.GRUCell(3, 4), _rand(2, 3), _rand(2, 4))
_layer(
    "attention", lambda: nn.MultiheadAttention(4, 2, batch_first=True), _rand(2, 3, 4), _rand(2, 3, 4), _rand(2, 3, 4)
)
_layer("encoder_layer", lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), _rand(2, 5, 8))
_layer("decoder_layer", lambda: nn.TransformerDecoderLayer(8, 2, 16, norm_first=True), _rand(5, 2, 8), _rand(6, 2, 8))
_layer("transformer_block", lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True), _rand(1, 4, 8), _rand(1, 3, 8))
_layer("cosine", lambda: nn.CosineSimilarity(), _rand(3, 4), _rand(3, 4))
_layer("cross_entropy", lambda: nn.CrossEntropyLoss(label_smoothing=0.1), _rand(4, 5), _ids(5, 4))
_layer("triplet", lambda: nn.TripletMarginLoss(), _rand(3, 4), _rand(3, 4), _rand(3, 4))
_layer("weight_norm", lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), _rand(2, 3))
_layer("spectral_norm", lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)), _rand(2, 3))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(True))
        self.body[0].bias = nn.Parameter(self.body[0].bias.detach().double().float())

    def forward(self, x):
        return F.relu_(x + self.body(x)), {"mean": x.mean((2, 3))}


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("seen", torch.zeros(7))

    def forward(self, ids):
        self.seen.index_add_(0, ids.flatten(), torch.ones(ids.numel()))
        return self.head(self.embedding(ids)).log_softmax(-1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.ones(5, 5, dtype=torch.bool).tril_()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(2, 5, 8)


_layer("residual", Residual, _rand(2, 2, 5, 5))
_layer("tied", Tied, _ids(7, 2, 3))
_layer("own_attention", Attention, _rand(2, 5, 8))


def _example(name: str) -> Callable[[], Made]:
    def make() -> Made:
        module = importlib.import_module(name)
        batch = module.batches(1)[0]
        inputs = batch if isinstance(batch, tuple) else (batch,)
        if name in ("detector", "mobilenet", "resnet"):
            inputs = inputs[:1]
        return module.build(), inputs

    return make


for _name in ("language_model", "mobilenet", "resnet", "transformer"):
    _models[_name] = _example(_name)
