"""A byte-pair tokenizer, learned from a page of English and applied to it: strings, dicts and tuples only.

python examples/text_processing.py
"""

from pathlib import Path
from typing import Dict, List, Tuple

import jitlite

TEXT = Path(__file__).resolve().parent / "data" / "moby_dick.txt"


def words_of(text: str) -> Dict[str, int]:
    """How often each word occurs, lower case, without punctuation."""
    counts: Dict[str, int] = {}
    for raw in text.lower().replace("--", " ").split():
        word = raw.strip(".,;:!?'\"")
        if word != "":
            counts[word] = counts.get(word, 0) + 1
    return counts


def merged(parts: List[str], left: str, right: str) -> List[str]:
    """The parts with each `left` that stands before a `right` joined to it."""
    joined: List[str] = []
    i = 0
    while i < len(parts):
        if i + 1 < len(parts) and parts[i] == left and parts[i + 1] == right:
            joined.append(left + right)
            i += 2
        else:
            joined.append(parts[i])
            i += 1
    return joined


def learn(text: str, merges: int) -> Tuple[List[Tuple[str, str]], Dict[str, List[str]]]:
    """The pairs to merge, most frequent first, and every word cut into its parts."""
    counts = words_of(text)
    cut: Dict[str, List[str]] = {}
    for word in counts.keys():
        cut[word] = [letter for letter in word] + ["</w>"]
    rules: List[Tuple[str, str]] = []
    for _ in range(merges):
        pairs: Dict[str, int] = {}
        for word, parts in cut.items():
            for i in range(len(parts) - 1):
                key = parts[i] + " " + parts[i + 1]
                pairs[key] = pairs.get(key, 0) + counts[word]
        best = ""
        most = 1
        for key, count in pairs.items():
            if count > most or (count == most and key < best):
                best = key
                most = count
        if best == "":
            break
        left, right = best.split(" ")[0], best.split(" ")[1]
        rules.append((left, right))
        for word in counts.keys():
            cut[word] = merged(cut[word], left, right)
    return rules, cut


def tokenize(text: str, rules: List[Tuple[str, str]]) -> List[str]:
    """Cut the words of a text with learned rules."""
    tokens: List[str] = []
    for word in words_of(text).keys():
        parts = [letter for letter in word] + ["</w>"]
        for left, right in rules:
            parts = merged(parts, left, right)
        tokens.extend(parts)
    return tokens


def main() -> int:
    text = TEXT.read_text()
    expected = learn(text, 60)
    rules, cut = jitlite.script(learn)(text, 60)
    print(f"{len(cut)} words, {len(rules)} merges; the first:", ", ".join(a + "+" + b for a, b in rules[:8]))
    sample = "whenever the whale is surrounding the watery world"
    tokens = jitlite.script(tokenize)(sample, rules)
    print(" ".join(tokens).replace("</w>", "|"))
    same = (rules, cut) == expected and tokens == tokenize(sample, rules)
    print("equal to eager:", same)
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
