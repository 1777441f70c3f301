"""Reports without a browser: what is on the page, that it holds together, and that nothing of a script is markup."""

from __future__ import annotations

import importlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import jitlite
from jitlite import cli
from jitlite.kernels.torch_abi import torch_abi
from jitlite.native.entry import is_ready
from jitlite.report.content import Row, SourceLine, Sources, Stage, shorten
from jitlite.report.diffs import side_by_side
from jitlite.report.drawing import draw
from jitlite.report.highlight import highlighted

VOID = {"meta", "input", "br", "link"}
LARGEST = 1_000_000


class Page(HTMLParser):
    """The elements of a page, with the text in each; fails where elements are not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[int, str] = {}
        self.open: list[tuple[str, int]] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append((tag, len(self.elements) - 1))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, number in self.open:
            self.texts[number] = self.texts.get(number, "") + data

    def all(self, tag):
        """Attributes and text of each element of a kind."""
        return [(found, self.texts.get(i, "")) for i, (name, found) in enumerate(self.elements) if name == tag]

    def stage(self, name):
        """The text of the part of this id."""
        return next(text for found, text in self.all("section") if found.get("id") == f"stage-{name}")


def checked(report) -> Page:
    """The page, with what has to hold for each."""
    page = Page(report.html)
    ids = [found["id"] for _, found in page.elements if "id" in found]
    assert len(ids) == len(set(ids))
    places = [found.get("href", "")[1:] for tag, found in page.elements if tag == "a"]
    places += [found["data-p"] for _, found in page.elements if "data-p" in found]
    places += [found[name] for _, found in page.elements for name in ("aria-labelledby", "for") if name in found]
    assert set(places) <= set(ids)
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert not [found for _, found in page.elements if {"src", "style", "onclick"} & set(found)]
    parts = [found for found, _ in page.all("section") if "stage" in (found.get("class") or "")]
    assert len(parts) == len(report.stage_names)
    assert len(report.html.encode("utf-8", "backslashreplace")) < LARGEST
    return page


def helper(x: Tensor) -> Tensor:
    return x.relu() * 2.0


def mixed(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        x = helper(x) + i
        if bool(x.sum() > 100.0):
            x = torch.sigmoid(x) * torch.tanh(x)
    return x


def test_every_stage_is_there():
    report = jitlite.script(mixed).report()
    page = checked(report)
    wanted = [
        "tree",
        "emitted",
        "ssa",
        "exits",
        "graph",
        "inline",
        "opt",
        "drawing",
        "code",
        "python",
        "explain",
        "times",
    ]
    at = [report.stage_names.index(name) for name in wanted]
    assert at == sorted(at)
    assert "prim::Loop" in page.stage("graph") and "aten::relu" in page.stage("opt")
    assert "LOOP" in page.stage("code") and "def mixed" in page.stage("python")
    assert "none were given" in page.stage("explain")


def test_passes_that_changed_something_have_a_part_and_the_others_are_named():
    page = checked(jitlite.script(mixed).report())
    marked = [text.split()[1] for found, text in page.all("a") if found.get("class") == "pass"]
    assert "inline" in marked and "peephole" not in marked
    folded = next(text for _, text in page.all("details") if "changed nothing" in text)
    assert "peephole" in folded
    inline = next(text for found, text in page.all("section") if found.get("id", "").endswith("-inline"))
    assert "prim::CallFunction" in inline and "+" in inline and "−" in inline and " ms" in inline


def test_lines_of_stages_lead_to_lines_of_the_source():
    page = checked(jitlite.script(mixed).report())
    lines = {found["id"]: text for found, text in page.all("li") if "id" in found}
    links = {text: found["href"][1:] for found, text in page.all("a") if found["href"].startswith("#s")}
    sigmoid = next(text for text in lines.values() if "torch.sigmoid" in text)
    number = re.match(r"\d+", sigmoid).group()
    assert lines[links[number]] == sigmoid
    assert any("return x.relu()" in text for text in lines.values())  # of what was inlined, too


def test_arguments_give_shapes_and_what_becomes_of_the_call():
    page = checked(jitlite.script(helper).report(torch.ones(3, 5)))
    facts = [found["data-f"] for found, _ in page.all("li") if "data-f" in found]
    assert any("3, 5" in fact for fact in facts)
    assert "Specialized" in page.stage("explain")
    assert not [1 for found, _ in checked(jitlite.script(helper).report()).all("li") if "data-f" in found]


def test_lines_have_their_time_beside_the_source_and_in_a_table():
    page = checked(jitlite.script(mixed).report(torch.ones(3, 5), 2))
    assert "times" in page.stage("lines") and "aten::relu 2, aten::mul 2" in page.stage("lines")
    told = {re.sub(r"^\d+", "", text).strip(): found.get("data-t", "") for found, text in page.all("li")}
    assert "ran 2 times" in next(cost for text, cost in told.items() if "helper(x)" in text)
    assert "lines" not in jitlite.script(mixed).report().stage_names


@pytest.mark.skipif(not is_ready() or torch_abi() is None, reason="no kernels here")
def test_kernels_are_shown_as_loops_and_assembly():
    def long(x: Tensor) -> Tensor:
        return ((x * 2.0 + 1.0).tanh() * x).exp()

    report = jitlite.script(long).report(torch.ones(8))
    page = checked(report)
    assert "prim::Region" in page.stage("regions") and "for" in page.stage("kernels") and "ret" in page.stage("asm")
    assert "define" in page.stage("llvm")


def test_gradients():
    x = torch.ones(8, requires_grad=True)
    checked(jitlite.script(mixed).report(x, 2))
    assert x.grad is None


# -- targets


class Small(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, width), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.twice(self.layers(x))

    def twice(self, x: Tensor) -> Tensor:
        return x + x


def test_methods_and_modules():
    module = jitlite.script(Small())
    page = checked(module.forward.report(torch.ones(2, 4)))
    assert "layers.0" in page.stage("drawing")
    assert [text for _, text in page.all("h1")] == ["Small.forward"]
    boxes = [found.get("data-f", "") for found, text in page.all("a") if "aten::add" in text]
    assert any("Float(2, 4" in fact for fact in boxes)
    assert "aten::add" in page.stage("graph") or "twice" in page.stage("graph")
    checked(module.twice.report())


def test_a_network_stays_below_a_megabyte(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples" / "models"))
    net = jitlite.script(importlib.import_module("mobilenet").build())
    page = checked(net.forward.report())
    assert "more lines are left out" in page.stage("opt")


def test_recursion():
    program = jitlite.CompilationUnit(
        "def fall(n: int) -> int:\n    if n <= 0:\n        return 0\n    return fall(n - 1)\n"
    )
    assert "calls itself" in checked(program.fall.report(3)).stage("explain")


def test_a_function_without_parameters_is_not_called(capsys):
    def nothing() -> int:
        print("called")
        return 1

    page = checked(jitlite.script(nothing).report())
    assert "none were given" not in page.stage("explain")
    assert capsys.readouterr().out == ""


def test_a_loaded_module(tmp_path):
    path = tmp_path / "model.pt"
    jitlite.script(Small()).save(path)
    page = checked(jitlite.load(path).forward.report(torch.ones(1, 4)))
    assert "aten::linear" in page.stage("opt")


@pytest.fixture
def run(capsys, tmp_path):
    """Run the command on a target: exit status, output, and the page."""

    def run(*words):
        path = tmp_path / "out.html"
        status = cli.main(["report", *words, "-o", str(path)])
        printed = capsys.readouterr()
        return status, printed.out + printed.err, path.read_text() if path.exists() else ""

    return run


GRAPH = """graph(%x : Tensor):
  %1 : int = prim::Constant[value=1]()
  %y : Tensor = aten::add(%x, %x, %1)
  return (%y)
"""


def test_the_command(run, tmp_path):
    program = tmp_path / "program.py"
    text = "import torch\nfrom torch import Tensor, nn\ndef f(x: Tensor) -> Tensor:\n    return x + 1\n"
    program.write_text(f"{text}class Net(nn.Linear):\n    pass\nnet = nn.ReLU()\n")
    (tmp_path / "graph.txt").write_text(GRAPH)
    jitlite.script(Small()).save(tmp_path / "model.pt")
    for words in (
        [f"{program}:f"],
        [f"{program}:f", "--example", "ones(2)"],
        [f"{program}:net", "--example", "ones(2)"],
        [f"{program}:Net", "--init", "2", "--init", "3"],
        [str(tmp_path / "graph.txt"), "--example", "ones(2)"],
        [str(tmp_path / "model.pt"), "--example", "ones(2, 4)", "--method", "forward"],
    ):
        status, printed, html = run(*words)
        assert (status, "stages" in printed) == (0, True), words
        assert "aten::" in html
    status, printed, _ = run(f"{program}:f", "--json")
    assert json.loads(printed)["stages"][0] == "tree"


def test_wrong_usage(run, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("def f(a: int, b: int) -> int:\n    return a // b\nnumber = 3\n")
    assert run(f"{program}:f", "--example", "1")[0] == 2
    assert run(f"{program}:f", "--init", "1")[0] == 2
    assert run(f"{program}:number")[0] == 2
    status, printed, html = run(f"{program}:f", "--example", "1", "--example", "0")
    assert (status, html) == (1, "") and "ZeroDivisionError" in printed


# -- nothing of a script is markup

HOSTILE = '''
def f(x: str) -> str:
    """</script><script>alert(1)</script> <!-- ]]> &lt;"""
    y = x + "</style><img src=x onerror=alert(2)>"  # </code><b>bold</b>
    z = y + "'\\" onmouseover='alert(3)"
    assert len(z) > 0, "</title><h1>"
    return z
'''


def test_nothing_of_a_script_becomes_markup():
    program = jitlite.CompilationUnit(HOSTILE)
    report = program.f.report("</pre><script>alert(4)</script>")
    page = checked(report)
    assert not [1 for tag, _ in page.elements if tag == "img"]
    assert "onerror=alert(2)>" in page.stage("opt")
    assert "alert(1)</script>" in next(text for found, text in page.all("section") if found.get("class") == "source")
    assert report.html.count("<script") == 1
    frame = Page(report._repr_html_())
    assert [tag for tag, _ in frame.elements] == ["iframe"] and frame.elements[0][1]["srcdoc"] == report.html


def test_names_of_graphs_and_files_do_not_become_markup(tmp_path):
    path = tmp_path / "<img src=x>.txt"
    path.write_text(GRAPH)
    out = tmp_path / "out.html"
    assert cli.main(["report", str(path), "-o", str(out)]) == 0
    assert not [1 for tag, _ in Page(out.read_text()).elements if tag == "img"]


# -- parts


def test_a_diff_folds_what_is_equal():
    made = []

    def line(text, range):
        made.append(text)
        return SourceLine(text)

    old = tuple((str(i), None) for i in range(10))
    new = (*old[:5], ("new", None), *old[6:])
    rows = side_by_side(old, new, line)
    assert made == ["3", "4", "3", "4", "5", "new", "6", "7", "6", "7"]  # no others than those that are shown
    assert [row.kind for row in rows] == ["skipped", "same", "same", "changed", "same", "same", "skipped"]
    assert (rows[0].skipped, rows[-1].skipped) == (3, 2)
    assert side_by_side(old, (*old, ("more", None)), line)[-1] == Row("added", None, SourceLine("more"))
    assert side_by_side(old, old, line) == [Row("skipped", skipped=10)]


def test_what_no_input_leads_to_stands_beside_what_comes_next():
    lines = ["graph(%x : Tensor):", '  %text : str = prim::Constant[value="a"]()']
    for i in range(8):
        lines += [f"  %{i} : Tensor = aten::relu(%{i - 1 if i else 'x'})", "   = prim::Print(%text)"]
    graph = jitlite.ir.parse("\n".join([*lines, "  return (%7)", ""]))
    (drawing,) = draw(graph, Sources())
    boxes = [(box.x, box.y, box.width) for box in drawing.boxes]
    assert drawing.width < 400 and len(boxes) == len(set(boxes)) == 18
    relu = [box.y for box in drawing.boxes if box.label == "aten::relu"]
    assert relu == sorted(relu) and len(set(relu)) == 8
    for x, y, width in boxes:
        assert 0 <= x and x + width <= drawing.width
        assert not [1 for a, b, _ in boxes if b == y and x < a < x + width]


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.norm(x) + x) * 2.0


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(Layer(), Layer())

    def forward(self, x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = self.layers(x)
        return self.layers(x) + self.layers(x * 2.0)


def optimized_of(function):
    graph = function.graph.copy()
    jitlite.passes.run(graph, "inline,dce,constant_propagation,dce")
    return graph


def labels(drawing):
    return [box.label for box in drawing.boxes]


def all_drawings(drawings):
    return [found for one in drawings for found in (one, *all_drawings(one.inner))]


def test_the_calls_of_submodules_are_boxes_that_open():
    (whole,) = draw(optimized_of(jitlite.script(Layers()).forward), Sources())
    assert sorted(labels(whole)) == ["aten::add", "aten::mul", "inputs", "layers", "layers", "prim::Loop", "results"]
    inner = {drawing.id: drawing for drawing in whole.inner}
    calls = [inner[box.opens] for box in whole.boxes if box.label == "layers"]
    loop = next(inner[box.opens] for box in whole.boxes if box.label == "prim::Loop")
    for sequence in (*calls, *loop.inner):
        assert labels(sequence) == ["inputs", "layers.0", "layers.1", "results"]
        for layer in sequence.inner:
            assert labels(layer)[1].endswith(".norm") and labels(layer)[2:] == [
                "aten::add", "aten::relu", "aten::mul", "results",
            ]  # fmt: skip
            assert "aten::batch_norm" in labels(layer.inner[0])


def test_every_box_of_a_drawing_is_connected_and_every_id_is_one_drawing():
    drawings = all_drawings(draw(optimized_of(jitlite.script(Layers()).forward), Sources()))
    assert len({drawing.id for drawing in drawings}) == len(drawings)
    for drawing in drawings:
        assert drawing.width > 0 and drawing.height > 0
        assert {box.opens for box in drawing.boxes if box.opens} <= {inner.id for inner in drawing.inner} | {
            f"{box.opens}"
            for box in drawing.boxes
            if box.kind == "holder"  # a block may hold constants alone
        }
        if drawing.title.startswith("layers"):
            assert drawing.edges and drawing.boxes[0].detail.startswith("%") and drawing.boxes[-1].detail


def test_drawings_stay_few_boxes():
    lines = ["graph(%x : Tensor, %c : bool):"]
    for i in range(200):
        lines += [
            f"  %y{i} : Tensor = prim::If(%c)",
            "    block0():",
            *(f"      %a{i}.{j} : Tensor = aten::relu(%x)" for j in range(20)),
            f"      -> (%a{i}.0)",
            "    block1():",
            "      -> (%x)",
        ]
    graph = jitlite.ir.parse("\n".join([*lines, "  return (%y0)", ""]))
    (drawing,) = draw(graph, Sources())
    assert 500 < drawing.count < 1200 and len(drawing.inner) < 200


def test_long_stages_are_shortened_until_the_page_is_small():
    stages = [Stage(str(i), "s", "g", "", lines=[SourceLine("x" * 100)] * 5000) for i in range(4)]
    shorten(stages)
    assert all(len(stage.lines) + stage.left_out == 5000 for stage in stages)
    assert 4 * 175 * len(stages[0].lines) < LARGEST
    short = Stage("a", "s", "g", "", lines=[SourceLine("x")] * 10)
    shorten([short])
    assert (len(short.lines), short.left_out) == (10, 0)


def program_of(body: str, name: str):
    return getattr(jitlite.CompilationUnit(f"def {name}(x: Tensor):\n" + body), name)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "".join(f"    x = x + {i}  # {'é' * 1200}\n" for i in range(500)) + "    return x\n", id="many lines"
        ),
        pytest.param(f"    print('{'<td>&' * 100_000}')\n    return x * 2\n", id="a long line"),
        pytest.param("    return " + " + ".join(f"x * {i}.0" for i in range(200)) + "\n", id="a long expression"),
    ],
)
def test_pages_of_long_sources_stay_below_a_megabyte(body):
    checked(program_of(body, "long").report())


def test_the_end_of_a_long_line_is_left_out():
    stage = Stage("a", "s", "g", "", lines=[SourceLine("x" * 5000)], sections={"t": ["y" * 5000]})
    shorten([stage])
    assert stage.lines[0].text == "x" * 2000 + "… (3000 more characters)"
    assert stage.sections["t"][0].endswith("y… (3000 more characters)")


def test_highlighting_keeps_the_text():
    texts = ["    def f(x):  # a < b", '        """two', '        lines & more"""', "        return 1 if x else 'é'"]
    found = highlighted(texts)
    assert [re.sub("<[^>]*>", "", line).replace("&lt;", "<") for line in found][0] == texts[0]
    assert '<i class="kw">return</i>' in found[3] and "&amp;" in found[2] and '<i class="str">' in found[2]
    assert highlighted(["a < ("]) == ["a &lt; ("]


def _added(x: torch.Tensor, n: int) -> torch.Tensor:
    return x + n


@pytest.mark.parametrize("made", [lambda f: f, jitlite.script], ids=["python", "scripted"])
def test_the_function_report_is_the_method(made):
    page = jitlite.report(made(_added), torch.ones(2), n=3)
    assert page.name == "_added" and "lines" in page.stage_names


def test_a_class_has_no_report():
    with pytest.raises(TypeError, match="about a function or module; ReLU is a class"):
        jitlite.report(torch.nn.ReLU)
