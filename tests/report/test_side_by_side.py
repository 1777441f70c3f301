"""The page of a function under two sets of switches, and machine code on a page beside its source."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite import cli
from jitlite.kernels.torch_abi import torch_abi
from jitlite.native.entry import is_ready

HAS_KERNELS = is_ready() and torch_abi() is not None


def block(x: Tensor, w: Tensor) -> Tensor:
    y = x * 2.0 + 1.0
    z = y.tanh()
    return z.relu() @ w


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x.add_(1)


ARGUMENTS = (torch.ones(4, 4), torch.ones(4, 2))


def part_of(page, stage):
    found = re.search(rf'<section class="stage" id="{stage}".*?</section>', page.html, re.S)
    return found.group() if found else ""


@pytest.fixture(scope="module")
def page():
    return jitlite.report_side_by_side(block, {}, {"tier": "stack", "native": "off"}, *ARGUMENTS)


def test_what_differs_is_named_and_marked(page):
    assert page.stage_names[:2] == ["what differs", "both: graph"] and "python" in page.stage_names
    summary = part_of(page, "stage-both")
    assert "Left: switches as they are. Right: tier=stack, native=off." in summary
    assert "<li>graph: the same</li>" in summary and "<li>explain: " in summary
    assert "The same in both." in part_of(page, "stage-both-graph")
    shown = part_of(page, "stage-both-explain")
    assert '<th scope="col">switches as they are</th><th scope="col">tier=stack, native=off</th>' in shown
    assert 'class="del"' in shown and 'class="ins"' in shown
    assert page.html.count('class="pass"') > 3
    assert re.search(r'<a href="#stage-both-explain" class="pass">', page.html)
    assert not re.search(r'<a href="#stage-both-graph" class="pass">', page.html)


@pytest.mark.skipif(not HAS_KERNELS, reason="no kernels here")
def test_what_only_one_side_has_is_told(page):
    for name in ("kernels", "asm"):
        assert "There is none with: tier=stack, native=off." in part_of(page, f"stage-both-{name}")
        assert f"<li>{name}: There is one with: switches as they are. There is none" in part_of(page, "stage-both")
    other = jitlite.report_side_by_side(block, {"native": "off"}, {}, *ARGUMENTS)
    assert "sum over k" in part_of(other, "stage-both-kernels")  # which no other part has
    assert not part_of(other, "stage-kernels")


def test_equal_settings_do_not_differ():
    page = jitlite.report_side_by_side(block, {}, {"tier": "python"})
    assert not re.search(r'href="#stage-both[\w-]*" class="pass"', page.html)


def test_the_function_stays_as_it_was_and_arguments_are_copied():
    module = jitlite.script(Counting())
    x = torch.zeros(2)
    before = module.forward.executor
    jitlite.report_side_by_side(module, {}, {"executor": "off"}, x)
    assert torch.equal(x, torch.zeros(2)) and module.forward.executor is before
    assert module.calls == 2, "it is called once for each set"


def test_names_of_switches_are_checked():
    with pytest.raises(TypeError, match="unexpected keyword argument 'tire'"):
        jitlite.report_side_by_side(block, {}, {"tire": "stack"})
    with pytest.raises(ValueError, match="expected one of python, stack"):
        jitlite.report_side_by_side(block, {"tier": "<b>"}, {})


def test_values_of_switches_are_escaped(tmp_path):
    page = jitlite.report_side_by_side(block, {}, {"cache_dir": str(tmp_path / "<b>here")})
    assert "&lt;b&gt;here" in page.html and "<b>here" not in page.html


@pytest.mark.parametrize(("words", "said"), [
    (["--compare", "tire=stack"], "did you mean 'tier'?"),
    (["--compare", "tier"], "write tier=VALUE"),
    (["--compare", "tier=stak"], "expected one of python, stack"),
    (["--compare", "tier=stack"] * 3, "given once"),
    (["--all", "--compare", "tier=stack"], "for one function"),
])  # fmt: skip
def test_the_command_refuses_other_words(words, said, capsys, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("def negated(n: int) -> int:\n    return -n\n")
    assert cli.main(["report", f"{path}:negated", "3", *words, "-o", str(tmp_path / "page.html")]) == 2
    assert said in capsys.readouterr().err


def test_the_command(capsys, tmp_path):
    path, page = tmp_path / "program.py", tmp_path / "page.html"
    path.write_text("def negated(n: int) -> int:\n    return -n\n")
    for words in (["--compare", "tier=stack"], ["--compare", "tier=python", "--compare", "tier=stack,native=off"]):
        assert cli.main(["report", f"{path}:negated", "3", *words, "-o", str(page)]) == 0
        assert "what differs" in page.read_text()
    assert "Left: tier=python. Right: tier=stack, native=off." in page.read_text()


@pytest.mark.skipif(not HAS_KERNELS, reason="no kernels here")
@pytest.mark.parametrize("stage", ["kernels", "llvm", "asm"])
def test_machine_code_leads_to_lines_of_the_source(stage, page):
    first = block.__code__.co_firstlineno
    lines = re.findall(r"<li(.*?)>(<a.*?</a>)?<code>(.*?)</code></li>", part_of(page, f"stage-{stage}"))
    placed = [(attributes, link) for attributes, link, _ in lines if link]
    assert len(placed) >= 10
    links = {re.search(r'href="#s0-(\d+)"', link).group(1) for _, link in placed}
    others = {id for attributes, _ in placed for id in re.findall(r"s0-\d+", attributes)}
    assert links | {id.removeprefix("s0-") for id in others} >= {str(first + n) for n in (1, 2, 3)}
