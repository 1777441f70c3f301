"""Tensors: operators, methods, indexing, assignment, factories and conversions."""

from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from . import example

MATRIX = torch.arange(12.0).reshape(3, 4)
VECTOR = torch.tensor([1.0, -2.0, 3.0, 0.5])


@example((MATRIX, MATRIX + 1))
def arithmetic(x: Tensor, y: Tensor) -> Tensor:
    return (x + y) * 2 - x / (y + 1) + 0.5


@example((VECTOR,))
def powers_and_signs(x: Tensor) -> Tensor:
    return -(x**2) + abs(x) ** 0.5 - (-x)


@example((torch.tensor([7, -7, 5]), 3))
def integer_division(x: Tensor, n: int) -> Tuple[Tensor, Tensor]:
    return x // n, x % n


@example((VECTOR, 1.0))
def comparisons(x: Tensor, limit: float) -> List[Tensor]:
    return [x < limit, x >= limit, x == limit, x != limit]


@example((torch.tensor([True, False]), torch.tensor([True, True])))
def logic(p: Tensor, q: Tensor) -> Tensor:
    return (p & q) | ~(p ^ q)


@example((MATRIX, MATRIX.t()))
def matrix_product(a: Tensor, b: Tensor) -> Tensor:
    return a @ b + torch.matmul(a, b).t() + a.mm(b)


@example((MATRIX,))
def index_and_slice(x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    return x[0], x[1, 2], x[:, 1:3], x[..., -1]


@example((MATRIX,))
def new_axes_and_steps(x: Tensor) -> Tuple[Tensor, Tensor]:
    return x[None, :, ::2], x[1:, None, 0]


@example((MATRIX, torch.tensor([0, 2])))
def index_by_tensor(x: Tensor, rows: Tensor) -> Tuple[Tensor, Tensor]:
    return x[rows], x[:, rows]


@example((MATRIX,))
def index_by_mask(x: Tensor) -> Tensor:
    return x[x > 4]


@example((MATRIX.clone(),))
def assign_elements(x: Tensor) -> Tensor:
    x[0, 0] = 100.0
    x[1] = torch.ones(4)
    x[:, 3] += 1
    x[2, 1:3] *= -1.0
    return x


@example((VECTOR.clone(),))
def assign_by_mask(x: Tensor) -> Tensor:
    x[x < 0] = 0
    return x


@example((MATRIX,))
def shape_arithmetic(x: Tensor) -> Tuple[int, int, int, List[int]]:
    rows, columns = x.shape
    return rows * columns, x.dim(), x.size(0), x.size()


@example((MATRIX,))
def reshaping(x: Tensor) -> Tensor:
    y = x.view(-1, 2).transpose(0, 1).contiguous()
    return y.reshape(x.size(1), -1).unsqueeze(0).squeeze(0).flatten()


@example((MATRIX,))
def reductions(x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    return x.sum(), x.mean(dim=0), x.max(), torch.sum(x, dim=1, keepdim=True)


@example((MATRIX,))
def softmax_by_hand(x: Tensor) -> Tensor:
    shifted = x - x.max(dim=1, keepdim=True)[0]
    weights = shifted.exp()
    return weights / weights.sum(dim=1, keepdim=True)


@example((VECTOR,))
def activations(x: Tensor) -> Tensor:
    return torch.relu(x) + F.gelu(x) + torch.sigmoid(x) * x.tanh() + F.softmax(x, dim=0)


@example((torch.ones(2, 4), torch.ones(3, 4), torch.zeros(3)), (torch.ones(2, 4), torch.ones(3, 4), None))
def linear_layer(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    return F.linear(x, weight, bias)


@example((3, 2))
def factories(rows: int, columns: int) -> List[Tensor]:
    return [torch.zeros(rows, columns), torch.ones([rows]), torch.eye(rows), torch.full((columns,), 2.5)]


@example((5,))
def ranges(n: int) -> Tuple[Tensor, Tensor, Tensor]:
    return torch.arange(n), torch.arange(1, n, 2), torch.linspace(0.0, 1.0, n)


@example((2.0, 3))
def tensor_from_numbers(x: float, n: int) -> Tuple[Tensor, Tensor, Tensor]:
    return torch.tensor(x), torch.tensor([n, n + 1]), torch.tensor([[1.0, x], [x, 1.0]])


@example((VECTOR,))
def change_dtype(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    return x.to(torch.int64), x.double(), x.to(dtype=torch.float16).float()


@example((VECTOR,))
def made_like(x: Tensor) -> Tensor:
    zeros = torch.zeros_like(x)
    ones = torch.ones_like(x, dtype=x.dtype)
    return zeros + ones + x.new_full([4], 3.0) + torch.empty_like(x).fill_(2.0)


@example((VECTOR,))
def scalar_from_tensor(x: Tensor) -> Tuple[float, int, bool]:
    return float(x[0]), int(x[2]), bool(x[1] > 0)


@example((torch.tensor(3.5),))
def item_of_tensor(x: Tensor) -> float:
    value = float(x.item())
    return value * 2


@example((torch.tensor(2.0),), (torch.tensor(-2.0),))
def branch_on_tensor(x: Tensor) -> Tensor:
    if x > 0:
        return x * 10
    return -x


@example((torch.tensor(1.0),))
def loop_on_tensor(x: Tensor) -> Tensor:
    while x < 100:
        x = x * 3
    return x


@example((MATRIX,))
def iterate_over_rows(x: Tensor) -> Tensor:
    total = torch.zeros(4)
    for row in x:
        total = total + row
    return total


@example((MATRIX.clone(),))
def in_place_operators(x: Tensor) -> Tensor:
    y = x
    y += 1
    x.mul_(2).clamp_(max=10)
    y -= x[0].clone()
    return y


@example((MATRIX.clone(),))
def views_share_memory(x: Tensor) -> Tensor:
    row = x[0]
    row.zero_()
    column = x.t()[1]
    column += 100
    return x


@example((MATRIX, VECTOR))
def broadcasting(x: Tensor, v: Tensor) -> Tensor:
    return x * v + v.unsqueeze(0) - x[:, :1]


@example((MATRIX, MATRIX))
def concatenation(x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
    return torch.cat([x, y], dim=1), torch.stack((x, y))


@example((MATRIX,))
def splitting(x: Tensor) -> List[Tensor]:
    left, right = x.chunk(2, dim=1)
    return [left + right] + list(torch.split(x, [1, 2]))


@example((VECTOR,))
def choose_elementwise(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, torch.zeros_like(x)) + x.masked_fill(x < 0, 9.0)


@example((VECTOR, 2))
def sorting_and_top(x: Tensor, k: int) -> Tuple[Tensor, Tensor]:
    values, indices = x.topk(k)
    return values, x.argsort(descending=True)


@example((MATRIX,))
def keywords_of_operators(x: Tensor) -> Tensor:
    return torch.clamp(x, min=2.0, max=8.0).sum(dim=[0, 1]) + torch.add(x, x, alpha=2).mean()


@example((torch.ones(1, 2, 4, 4), torch.ones(3, 2, 3, 3)))
def convolution(x: Tensor, weight: Tensor) -> Tensor:
    return F.max_pool2d(F.conv2d(x, weight, padding=1), kernel_size=2)


@example((MATRIX,))
def layer_norm_by_hand(x: Tensor, eps: float = 1e-5) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps)


@example((torch.ones(2, 3), torch.ones(2, 5), torch.ones(3, 20), torch.ones(5, 20)))
def lstm_gates(x: Tensor, h: Tensor, wx: Tensor, wh: Tensor) -> Tuple[Tensor, Tensor]:
    gates = x @ wx + h @ wh
    i, f, g, o = gates.chunk(4, 1)
    c = torch.sigmoid(f) * h + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@example((VECTOR,))
def properties(x: Tensor) -> Tuple[bool, int, bool, int]:
    return x.requires_grad, x.ndim, x.is_cuda, x.numel()


@example((VECTOR, torch.ones(4, dtype=torch.float64)))
def dtype_tests(x: Tensor, y: Tensor) -> Tuple[bool, bool, bool]:
    return x.dtype == torch.float32, x.dtype == y.dtype, y.is_floating_point()


@example((VECTOR,))
def on_its_device(x: Tensor) -> Tuple[Tensor, str]:
    return torch.ones(2, device=x.device, dtype=x.dtype), x.device.type


@example((torch.tensor([[0.0, 1.0], [2.0, 3.0]]),))
def distances(x: Tensor) -> Tensor:
    n = x.size(0)
    out = torch.zeros(n, n)
    for i in range(n):
        for j in range(n):
            out[i, j] = (x[i] - x[j]).pow(2).sum().sqrt()
    return out


@example((VECTOR.tolist(),))
def tensor_from_list(xs: List[float]) -> Tensor:
    return torch.tensor(xs).cumsum(0)


@example((3, VECTOR))
def number_first(n: int, x: Tensor) -> Tensor:
    return n - x + 2 / (x + 10) + 2**x
