"""A residual network for images, written as torchvision writes it, and trained for three steps.

python examples/models/resnet.py
"""

from typing import Any, Callable, List, Optional, Tuple, Type, Union

import torch
from torch import Tensor, nn
from training import report

Norm = Callable[[int], nn.Module]


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    return nn.Conv2d(
        in_planes, out_planes, 3, stride=stride, padding=dilation, groups=groups, bias=False, dilation=dilation
    )


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(in_planes, out_planes, 1, stride=stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion: int = 1

    def __init__(
        self, inplanes: int, planes: int, stride: int, downsample: Optional[nn.Module], width: int, norm: Norm
    ) -> None:
        super().__init__()
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut; the middle one may be narrow, wide or grouped."""

    expansion: int = 4

    def __init__(
        self, inplanes: int, planes: int, stride: int, downsample: Optional[nn.Module], width: int, norm: Norm
    ) -> None:
        super().__init__()
        middle = planes * width // 64
        self.conv1 = conv1x1(inplanes, middle)
        self.bn1 = norm(middle)
        self.conv2 = conv3x3(middle, middle, stride)
        self.bn2 = norm(middle)
        self.conv3 = conv1x1(middle, planes * self.expansion)
        self.bn3 = norm(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """A stem, stages of blocks that halve the image and widen it, and a linear layer on the mean.

    Args:
        layers: the number of blocks of each stage.
        planes: the width of the first stage; each later one is twice as wide.
        zero_init_residual: whether blocks start as the identity.
    """

    def __init__(
        self,
        block: Type[Union[BasicBlock, Bottleneck]],
        layers: List[int],
        num_classes: int = 10,
        planes: int = 8,
        width_per_group: int = 64,
        zero_init_residual: bool = False,
        norm: Norm = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        self.inplanes = planes
        self._norm = norm
        self.width = width_per_group
        self.conv1 = nn.Conv2d(3, planes, 5, stride=2, padding=2, bias=False)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        stages = []
        for number, blocks in enumerate(layers):
            stages.append(self._stage(block, planes << number, blocks, stride=1 if number == 0 else 2))
        self.stages = nn.ModuleList(stages)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(self.inplanes, num_classes)
        self._initialize(zero_init_residual)

    def _stage(self, block: Any, planes: int, blocks: int, stride: int) -> nn.Sequential:
        downsample: Optional[nn.Module] = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            out = planes * block.expansion
            downsample = nn.Sequential(conv1x1(self.inplanes, out, stride), self._norm(out))
        made = []
        for number in range(blocks):
            first = number == 0
            made.append(
                block(self.inplanes, planes, stride if first else 1, downsample if first else None, self.width,
                      self._norm)
            )  # fmt: skip
            self.inplanes = planes * block.expansion
        return nn.Sequential(*made)

    def _initialize(self, zero_init_residual: bool) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif zero_init_residual and isinstance(module, Bottleneck):
                nn.init.zeros_(module.bn3.weight)
            elif zero_init_residual and isinstance(module, BasicBlock):
                nn.init.zeros_(module.bn2.weight)

    def _features(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in self.stages:
            x = stage(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self._features(x))
        return self.fc(torch.flatten(x, 1))


def build(zero_init_residual: bool = False) -> nn.Module:
    torch.manual_seed(0)
    return ResNet(Bottleneck, [1, 2, 1], zero_init_residual=zero_init_residual)


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
