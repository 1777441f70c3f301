"""Makes detections.csv and speech.csv (see README.md), the same every time.

python examples/data/make_data.py
"""

import csv
import math
import random
from pathlib import Path

HERE = Path(__file__).parent
CLASSES = {"person": (40, 110), "car": (150, 80), "bicycle": (80, 60), "traffic light": (22, 55)}
SYMBOLS = "_ abcdefghijklmnopqrstuvwxyz"
SENTENCE = "she had your dark suit in greasy wash water all year"


def detections(rng: random.Random) -> list[list[object]]:
    """For each object a cloud of boxes: the nearer to the truth, the higher the score; and some boxes on nothing."""
    rows: list[list[object]] = []

    def box(name: str, x: float, y: float, w: float, h: float, score: float) -> None:
        corners = (max(x, 0.0), max(y, 0.0), min(x + w, 1280.0), min(y + h, 720.0))
        rows.append([*(round(c, 1) for c in corners), name, round(score, 4)])

    for _ in range(17):
        name = rng.choice(list(CLASSES))
        scale = rng.uniform(0.6, 1.8)
        w, h = (s * scale for s in CLASSES[name])
        x, y = rng.uniform(0, 1280 - w), rng.uniform(200, 720 - h)
        for _ in range(rng.randint(7, 16)):
            off = abs(rng.gauss(0, 0.09))
            turn = rng.uniform(0, 2 * math.pi)
            score = max(0.05, min(0.999, rng.gauss(0.93, 0.03) - 2.2 * off))
            grow = rng.gauss(1, 0.05)
            box(name, x + off * w * math.cos(turn), y + off * h * math.sin(turn), w * grow, h * grow, score)
    while len(rows) < 214:
        name = rng.choice(list(CLASSES))
        w, h = CLASSES[name]
        box(name, rng.uniform(0, 1280 - w), rng.uniform(0, 720 - h), w, h, rng.uniform(0.02, 0.3))
    rng.shuffle(rows)
    return rows


def speech(rng: random.Random) -> list[list[float]]:
    """Each letter for one to three frames, blanks between them, and doubt: neighbours in the alphabet, noise."""
    frames: list[int] = []
    for letter in SENTENCE:
        index = SYMBOLS.index(letter)
        frames += [0] * rng.randint(1, 3) + [index] * rng.randint(1, 3)
    frames += [0, 0]
    rows = []
    for index in frames:
        logits = [rng.gauss(0, 1) for _ in SYMBOLS]
        logits[index] += rng.uniform(5, 9)
        logits[(index + 1) % len(SYMBOLS)] += rng.uniform(0, 2)
        total = math.log(sum(math.exp(v) for v in logits))
        rows.append([round(v - total, 4) for v in logits])
    return rows


def write(name: str, header: list[str], rows: list[list[object]]) -> None:
    with open(HERE / name, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    rng = random.Random(20)
    write("detections.csv", ["x1", "y1", "x2", "y2", "class", "score"], detections(rng))
    write("speech.csv", ["blank", "space", *SYMBOLS[2:]], speech(rng))
