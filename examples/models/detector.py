"""A detector: a pyramid of features, anchors, losses in training and boxes in evaluation. Trained for three steps.

Features travel as Dict[str, Tensor], targets as Optional[List[Dict[str, Tensor]]]; what the model gives depends on
whether it is training, so `forward` returns losses and detections both, one of them empty.

    python examples/models/detector.py
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from training import report


class AnchorConfig(NamedTuple):
    """The boxes that each place of a feature map starts from."""

    sizes: List[float]
    ratios: List[float]


class Matches(NamedTuple):
    """For each anchor: the box it is to find, and whether there is one."""

    index: Tensor
    positive: Tensor


class Backbone(nn.Module):
    """Feature maps of three resolutions, by name."""

    def __init__(self, channels: List[int]) -> None:
        super().__init__()
        blocks = nn.ModuleDict()
        inputs = 3
        for number, outputs in enumerate(channels):
            blocks[f"c{number + 2}"] = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()
            )
            inputs = outputs
        self.blocks = blocks

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        found: Dict[str, Tensor] = {}
        for name, block in self.blocks.items():
            x = block(x)
            found[name] = x
        return found


class FeaturePyramid(nn.Module):
    """Carries what coarse maps say into the finer ones."""

    def __init__(self, channels: List[int], outputs: int) -> None:
        super().__init__()
        self.inner = nn.ModuleList([nn.Conv2d(c, outputs, 1) for c in channels])
        self.outer = nn.ModuleList([nn.Conv2d(outputs, outputs, 3, padding=1) for _ in channels])

    def through_inner(self, x: Tensor, position: int) -> Tensor:
        """`self.inner[position]`, where an index known at run time needs a loop."""
        out = x
        for i, layer in enumerate(self.inner):
            if i == position:
                out = layer(x)
        return out

    def through_outer(self, x: Tensor, position: int) -> Tensor:
        out = x
        for i, layer in enumerate(self.outer):
            if i == position:
                out = layer(x)
        return out

    def forward(self, features: Dict[str, Tensor]) -> Dict[str, Tensor]:
        names = list(features.keys())
        maps = list(features.values())
        last = self.through_inner(maps[-1], len(maps) - 1)
        results = [self.through_outer(last, len(maps) - 1)]
        for position in range(len(maps) - 2, -1, -1):
            lateral = self.through_inner(maps[position], position)
            last = lateral + nn.functional.interpolate(last, size=lateral.shape[-2:], mode="nearest")
            results.insert(0, self.through_outer(last, position))
        return {name: result for name, result in zip(names, results)}


def box_iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of every box of `a` with every one of `b`."""
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    top_left = torch.max(a[:, None, :2], b[:, :2])
    bottom_right = torch.min(a[:, None, 2:], b[:, 2:])
    sides = (bottom_right - top_left).clamp(min=0)
    common = sides[:, :, 0] * sides[:, :, 1]
    return common / (area_a[:, None] + area_b - common)


class AnchorGenerator(nn.Module):
    """Boxes around every place of every map, made once for each size of image."""

    cache: Dict[str, Tensor]

    def __init__(self, config: AnchorConfig) -> None:
        super().__init__()
        self.config = config
        self.cache = {}

    def per_place(self) -> int:
        return len(self.config.ratios)

    def _of_map(self, size: float, height: int, width: int, stride: float) -> Tensor:
        shapes: List[List[float]] = []
        for ratio in self.config.ratios:
            w, h = size * ratio**0.5, size / ratio**0.5
            shapes.append([-w / 2, -h / 2, w / 2, h / 2])
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        centers = torch.stack([x, y, x, y], dim=-1).reshape(-1, 1, 4).float() * stride + stride / 2
        return (centers + torch.tensor(shapes)).reshape(-1, 4)

    def forward(self, image: Tensor, maps: List[Tensor]) -> Tensor:
        key = f"{image.shape[-2]}x{image.shape[-1]}"
        if key not in self.cache:
            found: List[Tensor] = []
            for size, features in zip(self.config.sizes, maps):
                stride = float(image.shape[-1]) / float(features.shape[-1])
                found.append(self._of_map(size, features.shape[-2], features.shape[-1], stride))
            self.cache[key] = torch.cat(found)
        return self.cache[key]


class Head(nn.Module):
    """Scores and box offsets for every anchor."""

    def __init__(self, channels: int, anchors: int, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.scores = nn.Conv2d(channels, anchors * classes, 3, padding=1)
        self.offsets = nn.Conv2d(channels, anchors * 4, 3, padding=1)

    def forward(self, maps: List[Tensor]) -> Tuple[Tensor, Tensor]:
        scores, offsets = [], []
        for features in maps:
            batch = features.shape[0]
            scores.append(self.scores(features).permute(0, 2, 3, 1).reshape(batch, -1, self.classes))
            offsets.append(self.offsets(features).permute(0, 2, 3, 1).reshape(batch, -1, 4))
        return torch.cat(scores, dim=1), torch.cat(offsets, dim=1)


class Detector(nn.Module):
    """Backbone, pyramid, head; losses in training, boxes in evaluation."""

    def __init__(self, classes: int, anchors: AnchorConfig, iou_threshold: float = 0.4, most: int = 5) -> None:
        super().__init__()
        channels = [8, 12, 16]
        self.backbone = Backbone(channels)
        self.pyramid = FeaturePyramid(channels, 8)
        self.anchors = AnchorGenerator(anchors)
        self.head = Head(8, self.anchors.per_place(), classes)
        self.iou_threshold = iou_threshold
        self.most = most

    def match(self, anchors: Tensor, boxes: Tensor) -> Matches:
        overlap, index = box_iou(anchors, boxes).max(dim=1)
        return Matches(index, overlap >= self.iou_threshold)

    def losses(
        self, targets: List[Dict[str, Tensor]], scores: Tensor, offsets: Tensor, anchors: Tensor
    ) -> Dict[str, Tensor]:
        of_class, of_box = [], []
        for target, s, o in zip(targets, scores, offsets):
            matches = self.match(anchors, target["boxes"])
            wanted = torch.zeros_like(s)
            labels = target["labels"][matches.index[matches.positive]]
            wanted[matches.positive, labels] = 1.0
            of_class.append(nn.functional.binary_cross_entropy_with_logits(s, wanted))
            found = (anchors + o)[matches.positive]
            of_box.append(nn.functional.smooth_l1_loss(found, target["boxes"][matches.index[matches.positive]]))
        return {"classification": torch.stack(of_class).mean(), "boxes": torch.stack(of_box).mean() * 0.1}

    @torch.no_grad()
    def detections(self, scores: Tensor, offsets: Tensor, anchors: Tensor) -> List[Dict[str, Tensor]]:
        found: List[Dict[str, Tensor]] = []
        for s, o in zip(scores.sigmoid(), offsets):
            best, labels = s.max(dim=1)
            best, order = best.topk(self.most)
            found.append({"boxes": (anchors + o)[order], "scores": best, "labels": labels[order]})
        return found

    def forward(
        self, images: Tensor, targets: Optional[List[Dict[str, Tensor]]] = None
    ) -> Tuple[Dict[str, Tensor], List[Dict[str, Tensor]]]:
        if self.training:
            if targets is None:
                raise ValueError("targets should not be none when in training mode")
            for number, target in enumerate(targets):
                if target["boxes"].dim() != 2 or target["boxes"].shape[-1] != 4:
                    raise ValueError(f"target {number}: expected boxes of shape [N, 4], got {target['boxes'].shape}")
        features = self.pyramid(self.backbone(images))
        maps = list(features.values())
        scores, offsets = self.head(maps)
        anchors = self.anchors(images, maps)
        losses: Dict[str, Tensor] = {}
        detections: List[Dict[str, Tensor]] = []
        if self.training:
            assert targets is not None
            losses.update(self.losses(targets, scores, offsets, anchors))
        else:
            detections = self.detections(scores, offsets, anchors)
        return losses, detections


def build() -> nn.Module:
    torch.manual_seed(0)
    return Detector(3, AnchorConfig([6.0, 12.0, 24.0], [0.5, 1.0, 2.0]))


Batch = Tuple[Tensor, List[Dict[str, Tensor]]]


def batches(steps: int = 3) -> List[Batch]:
    generator = torch.Generator().manual_seed(1)
    made: List[Batch] = []
    for _ in range(steps):
        targets = []
        for boxes in (2, 3):
            corner = torch.rand(boxes, 2, generator=generator) * 16
            size = torch.rand(boxes, 2, generator=generator) * 10 + 6
            labels = torch.randint(0, 3, (boxes,), generator=generator)
            targets.append({"boxes": torch.cat([corner, corner + size], dim=1), "labels": labels})
        made.append((torch.randn(2, 3, 32, 32, generator=generator), targets))
    return made


def loss_of(module: nn.Module, batch: Batch) -> Tensor:
    images, targets = batch
    losses, _ = module(images, targets)
    return torch.stack(list(losses.values())).sum()


def main() -> int:
    return report(build(), batches(), loss_of)


if __name__ == "__main__":
    raise SystemExit(main())
