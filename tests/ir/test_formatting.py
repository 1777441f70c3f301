"""`str.format` and `%`: what Python gives, but for fields that reach into values and padding without a bound."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import jitlite
from jitlite.ir.formatting import MOST_PADDING, format_by_position, format_with_percent

SECRET = "a secret"
INTO = ["{0.real}", "{0.__class__}", "{.real}", "{0[0]}", "{[0]}", "{!r} {1.real}", "{0:{1.real}}", "{0:{.real}}",
        "{0.__class__.__init__.__globals__[SECRET]}", "{0:>{1[0]}}", "a {1.real!r:>5}"]  # fmt: skip


def outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("text", INTO)
def test_fields_that_reach_into_values(text):
    with pytest.raises(ValueError, match="reaches into a value"):
        format_by_position(text, [1], 5)

    def given_later(text: str, x: int) -> str:
        return text.format(x, x)

    source = "def known(x: int) -> str:\n    return " + repr(text) + ".format(x, x)\n"
    with pytest.raises(jitlite.CompileError, match="(?s)reaches into a value.*line 2.*hint"):
        jitlite.CompilationUnit(source).known(3)
    for executor in ("profiling", "off"):
        with jitlite.options.override(executor=executor), pytest.raises(ValueError, match="reaches into a value"):
            jitlite.script(given_later)(text, 3)
    written: dict[str, Any] = {}
    exec(jitlite.to_python(jitlite.script(given_later)).source, written)
    with pytest.raises(ValueError, match="reaches into a value"):
        written["given_later"](text, 3)


WIDE = ["{:1500000000}", "{:>1500000000}", "{:.1500000000f}", "{0:{1}}", "{:{}}", "{:{:10}}", "{:٩٩٩٩٩٩٩٩٩}",
        "{:600000}" * 2, "{:99999999999999999999999}", "{!r:>1500000000}", "{:>{}}", "{:.{}f}"]  # fmt: skip
WIDE_PERCENT = ["%1500000000d", "%.1500000000d", "%*d", "%-1500000000d", "%0600000d%600000d", "% +#01500000000i",
                "%5.1500000000f", "%.*f", "%%%1500000000d", "%1500000000%", "%l1500000000d%1500000000ld"]  # fmt: skip
KEYED = ["%(a)1500000000d", "%((a))1500000000d", "%(a(b)c)1500000000d", "%(a%d)1500000000d", "%()1500000000d"]


@pytest.mark.parametrize("text", WIDE)
def test_padding_without_a_bound(text):
    with pytest.raises(ValueError, match="padding"):
        format_by_position(text, 3, 1_500_000_000)


@pytest.mark.parametrize("text", WIDE_PERCENT)
def test_padding_of_percent_without_a_bound(text):
    values = (1_500_000_000, 3) if "*" in text else (3, 3)
    with pytest.raises((ValueError, TypeError)):
        format_with_percent(text, *values[: 2 if "*" in text or text.count("%") > 1 else 1])


@pytest.mark.parametrize("text", KEYED)
def test_padding_of_values_by_name(text):
    with pytest.raises(ValueError, match="padding"):
        format_with_percent(text, {"a": 3, "(a)": 3, "a(b)c": 3, "a%d": 3, "": 3})


def test_what_a_message_asks_for_is_fine():
    assert len(format_by_position(f"{{:{MOST_PADDING}}}", 1)) == MOST_PADDING
    assert format_with_percent("%(a)5d of 5000000000", {"a": 3}) == "    3 of 5000000000"
    assert format_with_percent("%d%% of 5000000000", 3) == "3% of 5000000000"


PIECES = ["{}", "{0}", "{1!r}", "{:>{}}", "{:.{}f}", "{0:{1}}", "{:{}.{}f}", "{2:*^9}", "{{", "}}", "{", "}", "x",
          "{:5}", "{a}", "{5}", "{!s:3}", "{:{:2}}", "{!x}", "{:{!r}}", "{:d}", "{:.3}", " "]  # fmt: skip
PERCENTS = ["%d", "%s", "%5d", "%*d", "%.3f", "%-*.*f", "%%", "%", "%(a)s", "%x", "%r", "x", "%c", "%ld", "%5%", "(",
            ")", "%#x", "%+05d"]  # fmt: skip
VALUES = st.lists(
    st.one_of(st.integers(-30, 300), st.sampled_from([0.5, -2.25, 3.0]), st.text("ab%{", max_size=4)), max_size=4
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=5).map("".join), VALUES)
def test_format_gives_what_python_gives(text, values):
    expected = outcome(lambda: text.format(*values))
    assert outcome(format_by_position, text, *values) == expected


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PERCENTS), max_size=5).map("".join), VALUES)
def test_percent_gives_what_python_gives(text, values):
    given_values = values[0] if len(values) == 1 else tuple(values)
    assert outcome(format_with_percent, text, *values) == outcome(lambda: text % given_values)


def test_written_source_keeps_plain_texts():
    def message(x: int, y: float) -> str:
        return "{:>5} {!r}".format(x, y) + "%5d" % x

    source = jitlite.to_python(jitlite.script(message)).source
    assert ".format(" in source and "def format" not in source
    written: dict[str, Any] = {}
    exec(source, written)
    assert written["message"](3, 0.5) == message(3, 0.5)


def test_tensors():
    def shown(x: torch.Tensor) -> str:
        return "{:.2f}".format(x)

    assert jitlite.script(shown)(torch.tensor(1.5)) == "1.50"
