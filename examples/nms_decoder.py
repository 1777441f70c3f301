"""Two algorithms that frameworks script because they loop over data: suppression of overlapping boxes, and reading off
the characters of a speech recogniser. On real-sized data, compared with eager Python. `make demo` runs this.

    python examples/nms_decoder.py
"""

import csv
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import Tensor

import jitlite
from jitlite.debug.equality import difference

DATA = Path(__file__).resolve().parent / "data"
SYMBOLS = "_ abcdefghijklmnopqrstuvwxyz"


def overlap(box: Tensor, others: Tensor) -> Tensor:
    """Intersection over union of one box with many."""
    top_left = torch.max(box[:2], others[:, :2])
    bottom_right = torch.min(box[2:], others[:, 2:])
    sides = (bottom_right - top_left).clamp(min=0)
    common = sides[:, 0] * sides[:, 1]
    area = (box[2] - box[0]) * (box[3] - box[1])
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    return common / (area + areas - common)


def suppress(boxes: Tensor, scores: Tensor, threshold: float, least_score: float) -> List[int]:
    """Greedy non-maximum suppression: indices of the boxes that stay, best first."""
    order = torch.argsort(scores, descending=True, stable=True)
    alive = torch.ones(boxes.size(0), dtype=torch.bool)
    kept: List[int] = []
    for k in range(order.numel()):
        i = int(order[k])
        if not alive[i]:
            continue
        if scores[i] < least_score:
            break
        kept.append(i)
        alive[overlap(boxes[i], boxes) > threshold] = False
    return kept


def detect(
    boxes: Tensor, scores: Tensor, labels: List[str], threshold: float = 0.5, least_score: float = 0.4
) -> Dict[str, List[int]]:
    """Suppression within each class: class -> indices of its boxes."""
    members: Dict[str, List[int]] = {}
    for i, label in enumerate(labels):
        if label in members:
            members[label].append(i)
        else:
            members[label] = [i]
    found: Dict[str, List[int]] = {}
    for label, indices in members.items():
        chosen = torch.tensor(indices)
        kept = suppress(boxes[chosen], scores[chosen], threshold, least_score)
        if len(kept) > 0:
            found[label] = [indices[k] for k in kept]
    return found


def decode(log_probs: Tensor, symbols: str, blank: int = 0) -> Tuple[str, float, List[Tuple[str, int]]]:
    """Greedy CTC decoding: the text, its log-probability, and each word with the frame it begins at."""
    best, indices = log_probs.max(dim=1)
    text = ""
    word = ""
    begins = 0
    words: List[Tuple[str, int]] = []
    previous = blank
    for frame in range(indices.size(0)):
        current = int(indices[frame])
        if current != previous and current != blank:
            letter = symbols[current]
            text += letter
            if letter == " ":
                words.append((word, begins))
                word = ""
            else:
                if word == "":
                    begins = frame
                word += letter
        previous = current
    if word != "":
        words.append((word, begins))
    return text, float(best.sum()), words


def load_detections() -> Tuple[Tensor, Tensor, List[str]]:
    with open(DATA / "detections.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    boxes = torch.tensor([[float(row[k]) for k in ("x1", "y1", "x2", "y2")] for row in rows])
    return boxes, torch.tensor([float(row["score"]) for row in rows]), [row["class"] for row in rows]


def load_speech() -> Tensor:
    with open(DATA / "speech.csv", newline="") as file:
        return torch.tensor([[float(v) for v in row] for row in list(csv.reader(file))[1:]])


def compared(function: Callable[..., Any], *args: Any) -> Tuple[Any, bool]:
    """Compile, run, compare with eager; print one line for each stage."""
    start = time.perf_counter()
    scripted = jitlite.script(function)
    compiled = time.perf_counter()
    got = scripted(*args)  # the first call optimizes
    first = time.perf_counter()
    scripted(*args)
    second = time.perf_counter()
    expected = function(*args)
    eager = time.perf_counter()
    differs = difference(expected, got)
    sizes = ", ".join(f"{name} {len(text.splitlines())}" for name, text in scripted.stages.items())
    print(f"{function.__name__}: lines at each stage: {sizes}")
    times = [1e3 * t for t in (compiled - start, first - compiled, second - first, eager - second)]
    print("    compiled in {:.0f} ms, first call {:.1f} ms, second {:.1f} ms, eager {:.1f} ms".format(*times))
    print(f"    {differs or 'same result as eager'}")
    return got, differs is None


def main() -> int:
    boxes, scores, labels = load_detections()
    found, same_boxes = compared(detect, boxes, scores, labels)
    (text, log_prob, words), same_text = compared(decode, load_speech(), SYMBOLS)
    print(f"\n{boxes.size(0)} boxes, {sum(len(kept) for kept in found.values())} objects:")
    for label, kept in found.items():
        best = kept[0]
        corners = ", ".join(f"{v:.0f}" for v in boxes[best].tolist())
        print(f"  {label:14} {len(kept):2}   best {float(scores[best]):.3f} at ({corners})")
    print(f"\n{len(words)} words, log-probability {log_prob:.2f}:\n  {text}")
    return 0 if same_boxes and same_text else 1


if __name__ == "__main__":
    raise SystemExit(main())
