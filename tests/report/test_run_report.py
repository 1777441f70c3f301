"""The report of a whole run: a folder of pages, and an index of what was compiled, called and refused."""

from __future__ import annotations

import html
import json
import re
import threading
from html.parser import HTMLParser

import pytest
import torch

import jitlite
from jitlite import cli, options
from jitlite.ir.unit import logged

PROGRAM = """
import sys

import torch

import jitlite


def helper(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class Net(torch.nn.Module):
    def __init__(self, size: int = 3):
        super().__init__()
        self.layer = torch.nn.Linear(size, 2)

    @jitlite.export
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return helper(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def wrong(x: torch.Tensor) -> torch.Tensor:
    return torch.reluu(x)


def calls_wrong(x: torch.Tensor) -> torch.Tensor:
    return wrong(x)


if __name__ == "__main__":
    print("given", sys.argv[1:])
    jitlite.script(Net())(torch.ones(1, 3))
    try:
        jitlite.script(calls_wrong)
    except jitlite.CompileError:
        pass
    if "raise" in sys.argv:
        raise ValueError("<b>no</b>")
    if "leave" in sys.argv:
        sys.exit(3)
"""


class Links(HTMLParser):
    """The files that a page leads to, and the elements that nobody closes."""

    def __init__(self, text):
        super().__init__()
        self.links, self.open = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        target = dict(attributes).get("href", "")
        if target and not target.startswith("#"):
            self.links.append(target)
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def rows_of(folder):
    """The text of each row of the index, by the name of its function."""
    text = (folder / "index.html").read_text()
    parts = re.findall(r'<tbody[^>]*data-name="([^"]*)".*?</tbody>', text, re.S)
    bodies = re.findall(r"<tbody.*?</tbody>", text, re.S)
    return dict(zip(parts, [" ".join(html.unescape(re.sub("<[^>]*>", " ", b)).split()) for b in bodies], strict=True))


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "run_program.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize(
    ("words", "status", "ended"),
    [
        ([], 0, "It ran to its end."),
        (["raise"], 1, "It ended with ValueError: <b>no</b>"),
        (["leave"], 1, "It ended with exit status 3."),
    ],
)
def test_a_program_is_run_and_all_that_it_compiles_is_listed(program, tmp_path, capsys, words, status, ended):
    folder = tmp_path / "pages"
    assert cli.main(["report", "--all", str(program), *words, "-o", str(folder)]) == status
    assert f"given {words}" in capsys.readouterr().out
    text = (folder / "index.html").read_text()
    assert html.escape(ended, quote=False) in text and "<b>no" not in text
    rows = rows_of(folder)
    assert set(rows) == {"Net.forward", "Net.encode", "Linear.forward", "helper", "wrong", "calls_wrong"}
    assert "did you mean 'relu'" in rows["wrong"] and "refused" in rows["wrong"]
    assert "it calls a function that was refused" in rows["calls_wrong"]
    assert "1 call ran the general plan" in rows["Net.forward"]
    assert "it was not called by itself" in rows["helper"]


def test_pages_hold_together(program, tmp_path):
    folder = tmp_path / "pages"
    cli.main(["report", "--all", str(program), "-o", str(folder)])
    index = Links((folder / "index.html").read_text())
    assert index.open == [] and len(index.links) == 4
    for name in index.links:
        page = (folder / name).read_text()
        assert Links(page).links == ["index.html"]
        assert "stage-tree" in page or 'id="stage-' in page
    assert "Content-Security-Policy" in (folder / "index.html").read_text()


def test_a_module_is_compiled_and_called_where_there_are_arguments(program, tmp_path, capsys):
    folder = tmp_path / "pages"
    words = ["--init", "4", "ones(2, 4)", "-o", str(folder), "--json"]
    assert cli.main(["report", "--all", f"{program}:Net", *words]) == 0
    assert json.loads(capsys.readouterr().out)["pages"] == 4
    assert "1 call ran the general plan" in rows_of(folder)["Net.forward"]


def test_what_is_refused_is_shown_on_the_terminal_and_in_the_index(program, tmp_path, capsys):
    folder = tmp_path / "pages"
    assert cli.main(["report", "--all", f"{program}:wrong", "-o", str(folder)]) == 1
    assert "did you mean 'relu'" in capsys.readouterr().err
    assert "did you mean 'relu'" in rows_of(folder)["wrong"]


def test_a_file_where_the_folder_is_to_be_is_refused(program, capsys):
    assert cli.main(["report", "--all", str(program), "-o", str(program)]) == 2
    assert "it is a file" in capsys.readouterr().err


def optional(x: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
    n = 0
    for i in range(100):
        if scale is None and x.dim() == 2:
            n += i
    return x * n


def test_calls_that_a_guard_turned_away_have_their_reason(tmp_path):
    with options.override(native="off", specialize_after=2, profiled_runs=1), jitlite.report_run(tmp_path):
        function = jitlite.script(optional)
        for _ in range(4):
            function(torch.ones(2, 3))
        for _ in range(3):
            function(torch.ones(2, 3), torch.ones(3))
    row = rows_of(tmp_path)["optional"]
    assert "fell back" in row and "turned away 3 times: 'scale' was" in row


def first(x: int) -> int:
    return second(x) + second(x)


def second(x: int) -> int:
    return x * 2


def test_time_is_that_of_each_function_alone():
    with logged() as log:
        jitlite.script(first)
    assert [entry.function.name for entry in log.compilations] == ["second", "first"]
    assert all(entry.seconds > 0 and entry.error is None for entry in log.compilations)
    jitlite.script(first)
    assert len(log.compilations) == 2


def test_other_threads_are_noted_too():
    with logged() as log:
        thread = threading.Thread(target=jitlite.script, args=(second,))
        thread.start()
        thread.join()
    assert [entry.function.name for entry in log.compilations] == ["second"]
