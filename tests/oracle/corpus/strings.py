"""Strings: methods, formatting, slices and loops."""

from typing import Dict, List, Tuple

from . import example


@example(("Hello", "World"))
def concatenate(a: str, b: str) -> str:
    return a + ", " + b + "!"


@example(("abcdef",), ("x",))
def slices(s: str) -> Tuple[str, str, str, str]:
    return s[0], s[-1], s[1:3], s[::2]


@example(("level",), ("lever",), ("",))
def is_palindrome(s: str) -> bool:
    for i in range(len(s) // 2):
        if s[i] != s[len(s) - 1 - i]:
            return False
    return True


@example(("The Quick Fox",))
def change_case(s: str) -> List[str]:
    return [s.upper(), s.lower(), s.capitalize(), s.title(), s.swapcase()]


@example(("  padded\t\n",), ("xxcorexx",))
def strip_ends(s: str) -> List[str]:
    return [s.strip(), s.lstrip(), s.rstrip(), s.strip("x")]


@example(("a,b,,c",), ("",))
def split_and_join(s: str) -> Tuple[List[str], str]:
    parts = s.split(",")
    return parts, "-".join(parts)


@example(("one two  three",))
def split_at_most(s: str) -> Tuple[List[str], List[str]]:
    return s.split(" ", 1), s.rsplit(" ", 1)


@example(("first\nsecond\nthird",))
def split_in_lines(s: str) -> List[str]:
    return s.splitlines()


@example(("key=value=more",), ("nothing",))
def partitions(s: str) -> Tuple[Tuple[str, str, str], Tuple[str, str, str]]:
    return s.partition("="), s.rpartition("=")


@example(("banana", "an"), ("banana", "x"))
def searching(s: str, sub: str) -> Tuple[int, int, int, bool]:
    return s.find(sub), s.rfind(sub), s.count(sub), sub in s


@example(("report.txt",), ("report.py",))
def prefixes_and_suffixes(name: str) -> Tuple[bool, bool]:
    return name.startswith("rep"), name.endswith(".py")


@example(("a-b-c",))
def replacing(s: str) -> str:
    return s.replace("-", "+").replace("b", "bb")


@example(("abc123",), ("abc",), ("123",), (" ",))
def classify(s: str) -> List[bool]:
    return [s.isalpha(), s.isdigit(), s.isalnum(), s.isspace(), s.isupper(), s.islower()]


@example(("ab", 6))
def padding(s: str, width: int) -> List[str]:
    return [s.ljust(width, "."), s.rjust(width, "."), s.center(width, "."), "7".zfill(width)]


@example(("bob", 3), ("", -1))
def f_string(name: str, n: int) -> str:
    return f"{name} has {n} items and {n + 1} friends"


@example(("x", 2))
def format_by_position(s: str, n: int) -> str:
    return "{} then {}".format(s, n)


@example((7, "seven"))
def percent_format(n: int, word: str) -> str:
    return "%d is %s" % (n, word)


@example(("mississippi",))
def letter_counts(s: str) -> Dict[str, int]:
    counts: Dict[str, int] = {}
    for c in s:
        if c in counts:
            counts[c] += 1
        else:
            counts[c] = 1
    return counts


@example(("abc", 1), ("xyz", 25))
def caesar(s: str, shift: int) -> str:
    out = ""
    for c in s:
        out += chr((ord(c) - ord("a") + shift) % 26 + ord("a"))
    return out


@example(("hello world",))
def vowels_removed(s: str) -> str:
    kept: List[str] = []
    for c in s:
        if c not in "aeiou":
            kept.append(c)
    return "".join(kept)


@example(("apple", "banana"), ("b", "a"))
def compare_strings(a: str, b: str) -> Tuple[bool, bool, bool]:
    return a < b, a == b, a != b


@example(("aaabbc",), ("",))
def run_lengths(s: str) -> List[Tuple[str, int]]:
    runs: List[Tuple[str, int]] = []
    i = 0
    while i < len(s):
        j = i
        while j < len(s) and s[j] == s[i]:
            j += 1
        runs.append((s[i], j - i))
        i = j
    return runs


@example(("11010",), ("0",))
def parse_binary(digits: str) -> int:
    value = 0
    for d in digits:
        value = value * 2 + int(d)
    return value


@example(("a\tb",))
def escapes(s: str) -> Tuple[str, bool]:
    return "tab\there \"quoted\" 'too' \\ \n", s == "a\tb"


@example((["b", "a"],))
def string_list(words: List[str]) -> str:
    text = ""
    for i, word in enumerate(words):
        text += (", " if i > 0 else "") + word
    return text


@example((3,))
def repeated(n: int) -> List[str]:
    return ["ab" + str(i) for i in range(n)]


@example(("sep",), (",",))
def string_default(sep: str = "; ") -> str:
    return sep.join(["x", "y", "z"])


@example(("word",))
def truthiness_by_length(s: str) -> str:
    if len(s) == 0:
        return "<empty>"
    elif len(s) < 3:
        return "<short>"
    return s
