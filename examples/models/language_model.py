"""An LSTM language model: a list of layers, each with its state, tied embeddings. Trained for three steps.

python examples/models/language_model.py
"""

from typing import List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from training import report


class State(NamedTuple):
    """What a layer carries from one token to the next."""

    hidden: Tensor
    cell: Tensor


class Cell(nn.Module):
    """One step of an LSTM, with its gates normalized."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.weight_ih = Parameter(torch.randn(4 * hidden, inputs) * 0.2)
        self.weight_hh = Parameter(torch.randn(4 * hidden, hidden) * 0.2)
        self.bias = Parameter(torch.zeros(4 * hidden))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: Tensor, state: State) -> Tuple[Tensor, State]:
        gates = torch.mm(x, self.weight_ih.t()) + torch.mm(state.hidden, self.weight_hh.t()) + self.bias
        i, f, g, o = gates.chunk(4, 1)
        cell = self.norm(torch.sigmoid(f) * state.cell + torch.sigmoid(i) * torch.tanh(g))
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        return hidden, State(hidden, cell)


class Layer(nn.Module):
    """A cell along a sequence."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.cell = Cell(inputs, hidden)

    def forward(self, x: Tensor, state: State) -> Tuple[Tensor, State]:
        outputs: List[Tensor] = []
        for step in x.unbind(0):
            out, state = self.cell(step, state)
            outputs.append(out)
        return torch.stack(outputs), state


class LanguageModel(nn.Module):
    """Gives, for every token, the scores of the next one.

    Args:
        tied: whether the embedding is the decoder too.
    """

    __constants__ = ["hidden", "layers"]

    def __init__(self, tokens: int, hidden: int, layers: int, dropout: float = 0.1, tied: bool = True) -> None:
        super().__init__()
        self.hidden = hidden
        self.layers = layers
        self.embedding = nn.Embedding(tokens, hidden)
        self.rnn = nn.ModuleList([Layer(hidden, hidden) for _ in range(layers)])
        self.dropout = nn.Dropout(dropout)
        self.decoder = nn.Linear(hidden, tokens)
        if tied:
            self.decoder.weight = self.embedding.weight
        self.register_buffer("tokens_seen", torch.zeros((), dtype=torch.long))

    def initial(self, batch: int) -> List[State]:
        empty = self.decoder.weight.new_zeros(batch, self.hidden)
        return [State(empty, empty) for _ in range(self.layers)]

    def forward(self, tokens: Tensor, states: Optional[List[State]] = None) -> Tuple[Tensor, List[State]]:
        if states is None:
            states = self.initial(tokens.size(1))
        if self.training:
            self.tokens_seen += tokens.numel()
        x = self.dropout(self.embedding(tokens))
        after: List[State] = []
        for i, layer in enumerate(self.rnn):
            x, state = layer(x, states[i])
            after.append(state)
            if i + 1 < len(self.rnn):
                x = self.dropout(x)
        return self.decoder(x), after

    @torch.jit.export
    def generate(self, start: int, most: int, end: int = 0) -> List[int]:
        """The likeliest continuation of a token, until the end token."""
        found = [start]
        states = self.initial(1)
        for _ in range(most):
            scores, states = self(torch.tensor([[found[-1]]]), states)
            token = int(scores[-1, 0].argmax())
            if token == end:
                break
            found.append(token)
        return found


def detached(states: List[State]) -> List[State]:
    return [State(s.hidden.detach(), s.cell.detach()) for s in states]


def build() -> nn.Module:
    torch.manual_seed(0)
    return LanguageModel(20, 16, 2)


def batches(steps: int = 3) -> List[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, 20, (13, 4), generator=generator) for _ in range(steps)]


def loss_of(module: nn.Module, batch: Tensor) -> Tensor:
    """The mean loss of two halves of a text, the state carried over."""
    losses = []
    states: Optional[List[State]] = None
    for tokens, following in zip(batch[:-1].split(6), batch[1:].split(6)):
        scores, states = module(tokens, states)
        states = detached(states)
        losses.append(nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten()))
    return torch.stack(losses).mean()


def main() -> int:
    return report(build(), batches(), loss_of, adam=True)


if __name__ == "__main__":
    raise SystemExit(main())
