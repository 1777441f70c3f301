"""A transformer that maps one sequence to another: encoder, decoder, masks and greedy generation. Three steps.

python examples/models/transformer.py
"""

import math
from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn
from training import report

PADDING, BEGIN, END = 0, 1, 2


class Attention(nn.Module):
    """Attention of several heads from one sequence to another."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        if width % heads != 0:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        self.heads = heads
        self.scale = 1.0 / math.sqrt(width // heads)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(
        self, x: Tensor, memory: Tensor, mask: Optional[Tensor] = None, padding: Optional[Tensor] = None
    ) -> Tuple[Tensor, Tensor]:
        """The result and the weights.

        Args:
            mask: (length of x, length of memory), true where x may not look.
            padding: (batch, length of memory), true where the memory holds nothing.
        """
        q = self.split(self.query(x))
        k, v = [self.split(part) for part in self.key_value(memory).chunk(2, dim=-1)]
        scores = torch.matmul(q, k.transpose(-2, -1)) * self.scale
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        if padding is not None:
            scores = scores.masked_fill(padding[:, None, None, :], float("-inf"))
        weights = self.dropout(scores.softmax(dim=-1))
        mixed = torch.matmul(weights, v).transpose(1, 2).flatten(2)
        return self.out(mixed), weights


class FeedForward(nn.Sequential):
    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, width))


class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.feed_forward = FeedForward(width, 2 * width, dropout)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])

    def forward(self, x: Tensor, padding: Optional[Tensor]) -> Tensor:
        normed = self.norms[0](x)
        x = x + self.attention(normed, normed, padding=padding)[0]
        return x + self.feed_forward(self.norms[1](x))


class DecoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.cross = Attention(width, heads, dropout)
        self.feed_forward = FeedForward(width, 2 * width, dropout)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])

    def forward(
        self, x: Tensor, memory: Tensor, mask: Optional[Tensor], memory_padding: Optional[Tensor]
    ) -> Tuple[Tensor, Tensor]:
        normed = self.norms[0](x)
        x = x + self.attention(normed, normed, mask)[0]
        seen, weights = self.cross(self.norms[1](x), memory, padding=memory_padding)
        x = x + seen
        return x + self.feed_forward(self.norms[2](x)), weights


class PositionalEncoding(nn.Module):
    """Adds to each place a wave of its own."""

    waves: Tensor

    def __init__(self, width: int, longest: int = 64) -> None:
        super().__init__()
        place = torch.arange(longest).unsqueeze(1)
        step = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        waves = torch.stack([torch.sin(place * step), torch.cos(place * step)], dim=-1).flatten(1)
        self.register_buffer("waves", waves, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.waves[: x.size(1)]


class Transformer(nn.Module):
    def __init__(self, tokens: int, width: int = 16, heads: int = 2, layers: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(tokens, width, padding_idx=PADDING)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.position = PositionalEncoding(width)
        self.encoder = nn.ModuleList([EncoderLayer(width, heads, dropout) for _ in range(layers)])
        self.decoder = nn.ModuleList([DecoderLayer(width, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, tokens, bias=False)
        self.project.weight = self.embedding.weight

    def embed(self, tokens: Tensor) -> Tensor:
        return self.position(self.embedding(tokens) * math.sqrt(self.width))

    def encode(self, source: Tensor, padding: Optional[Tensor]) -> Tensor:
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, padding)
        return x

    def decode(self, target: Tensor, memory: Tensor, padding: Optional[Tensor]) -> Tuple[Tensor, List[Tensor]]:
        length = target.size(1)
        mask = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1)
        x = self.embed(target)
        looks: List[Tensor] = []
        for layer in self.decoder:
            x, weights = layer(x, memory, mask, padding)
            looks.append(weights)
        return self.project(self.norm(x)), looks

    def forward(self, source: Tensor, target: Tensor, padding: Optional[Tensor] = None) -> Tensor:
        return self.decode(target, self.encode(source, padding), padding)[0]

    @torch.jit.export
    @torch.no_grad()
    def generate(self, source: Tensor, most: int = 12) -> Tuple[Tensor, List[Tensor]]:
        """The likeliest answers, and where the last layer looked for each token."""
        padding = source == PADDING
        memory = self.encode(source, padding)
        found = torch.full((source.size(0), 1), BEGIN, dtype=torch.long)
        done = torch.zeros(source.size(0), dtype=torch.bool)
        looks: List[Tensor] = []
        while found.size(1) < most:
            scores, weights = self.decode(found, memory, padding)
            token = scores[:, -1].argmax(-1).masked_fill(done, PADDING)
            looks.append(weights[-1][:, :, -1])
            found = torch.cat([found, token.unsqueeze(1)], dim=1)
            done |= token == END
            if bool(done.all()):
                break
        return found, looks


def build() -> nn.Module:
    torch.manual_seed(0)
    return Transformer(20)


Batch = Tuple[Tensor, Tensor]


def batches(steps: int = 3) -> List[Batch]:
    """Sequences to be reversed, padded at the end."""
    generator = torch.Generator().manual_seed(1)
    made: List[Batch] = []
    for _ in range(steps):
        source = torch.randint(3, 20, (4, 7), generator=generator)
        source[1, 5:] = PADDING
        begin, end = torch.full((4, 1), BEGIN), torch.full((4, 1), END)
        made.append((source, torch.cat([begin, source.flip(1), end], dim=1)))
    return made


def loss_of(module: nn.Module, batch: Batch) -> Tensor:
    source, target = batch
    scores = module(source, target[:, :-1], source == PADDING)
    return nn.functional.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PADDING)


def main() -> int:
    return report(build(), batches(), loss_of, adam=True)


if __name__ == "__main__":
    raise SystemExit(main())
