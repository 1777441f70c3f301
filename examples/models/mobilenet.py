"""A mobile network with inverted residuals, trained for three steps.

python examples/models/mobilenet.py
"""

from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn
from training import report


def _make_divisible(value: float, divisor: int, least: Optional[int] = None) -> int:
    """The multiple of `divisor` nearest to `value`, but not less than 90 % of it."""
    least = divisor if least is None else least
    rounded = max(least, int(value + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * value else rounded


class ConvNormActivation(nn.Sequential):
    """A convolution that keeps the size but for its stride, its norm and a clipped ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU6(inplace=True),
        )
        self.out_channels = outputs


class SqueezeExcitation(nn.Module):
    """Scales channels by what the means of all channels say."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation = nn.ReLU()
        self.scale_activation = nn.Hardsigmoid()

    def _scale(self, x: Tensor) -> Tensor:
        return self.scale_activation(self.fc2(self.activation(self.fc1(self.pool(x)))))

    def forward(self, x: Tensor) -> Tensor:
        return self._scale(x) * x


class InvertedResidual(nn.Module):
    """Widens, filters each channel by itself, narrows; beside a shortcut where shapes allow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expand_ratio: int, squeeze: bool) -> None:
        super().__init__()
        assert stride in (1, 2)
        hidden = inputs * expand_ratio
        self.use_res_connect = stride == 1 and inputs == outputs
        layers: List[nn.Module] = []
        if expand_ratio != 1:
            layers.append(ConvNormActivation(inputs, hidden, kernel=1))
        layers.append(ConvNormActivation(hidden, hidden, stride=stride, groups=hidden))
        if squeeze:
            layers.append(SqueezeExcitation(hidden, _make_divisible(hidden / 4, 4)))
        layers += [nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        if self.use_res_connect:
            return x + self.conv(x)
        else:
            return self.conv(x)


class MobileNet(nn.Module):
    """A network of inverted residuals.

    Args:
        settings: for each stage: expansion, channels, blocks, stride of the first block, squeeze.
        width: multiplies the channels of every stage.
    """

    def __init__(
        self,
        settings: List[Tuple[int, int, int, int, bool]],
        num_classes: int = 10,
        width: float = 1.0,
        round_nearest: int = 4,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        channels = _make_divisible(16 * width, round_nearest)
        features: List[nn.Module] = [ConvNormActivation(3, channels, stride=2)]
        for expand, outputs, blocks, stride, squeeze in settings:
            outputs = _make_divisible(outputs * width, round_nearest)
            for number in range(blocks):
                features.append(InvertedResidual(channels, outputs, stride if number == 0 else 1, expand, squeeze))
                channels = outputs
        self.last_channel = _make_divisible(64 * max(1.0, width), round_nearest)
        features.append(ConvNormActivation(channels, self.last_channel, kernel=1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), nn.Linear(self.last_channel, num_classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        # the mean by hand, as the size of the image is not known beforehand
        x = nn.functional.adaptive_avg_pool2d(x, (1, 1)).flatten(1)
        return self.classifier(x)


def build(width: float = 0.75) -> nn.Module:
    torch.manual_seed(0)
    return MobileNet([(1, 8, 1, 1, False), (4, 12, 2, 2, True), (4, 16, 2, 2, False)], width=width)


def batches(steps: int = 3) -> List[Tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(4, 3, 32, 32, generator=generator), torch.randint(0, 10, (4,), generator=generator))
        for _ in range(steps)
    ]


def loss_of(module: nn.Module, batch: Tuple[Tensor, Tensor]) -> Tensor:
    images, labels = batch
    return nn.functional.cross_entropy(module(images), labels)


def main() -> int:
    return report(build(), batches(), loss_of)


if __name__ == "__main__":
    raise SystemExit(main())
