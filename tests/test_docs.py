"""The documentation is true: its Python runs, generated pages are what their generators write, links lead somewhere."""

from __future__ import annotations

import configparser
import linecache
import re
from pathlib import Path

import pytest
from declarations import restored
from tools.write_docs import GENERATED

from jitlite.ir import ops
from jitlite.kernels.torch_abi import torch_abi
from jitlite.native.entry import is_ready

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
IDS = [str(page.relative_to(ROOT).with_suffix("")) for page in PAGES]
BOOK = ROOT / "docs" / "from_scratch"
CHAPTERS = sorted(BOOK.glob("[0-9]_*.md"))
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
_CODE = re.compile(r"^```.*?^```|^ {4}[^\n]*$|`[^`\n]*`", re.M | re.S)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def python_of(page: Path) -> str:
    """The Python of a page with everything else blanked, so that line numbers are the page's."""
    text = page.read_text()
    kept, end = "", 0
    for block in _BLOCK.finditer(text):
        kept += "\n" * text.count("\n", end, block.start(1)) + block.group(1)
        end = block.end(1)
    return kept


WITH_CODE = [page for page in PAGES if page.name not in GENERATED and python_of(page).strip()]


@pytest.fixture
def declarations_restored():
    """What a page declares as an example is gone afterwards."""
    with restored():
        yield


@pytest.mark.parametrize("page", WITH_CODE, ids=[IDS[PAGES.index(page)] for page in WITH_CODE])
def test_code_of_a_page_runs(page, declarations_restored, capsys, monkeypatch):
    text, name = python_of(page), f"<{page.name}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    if page.is_relative_to(BOOK):
        monkeypatch.syspath_prepend(BOOK / "code")
    exec(compile(text, name, "exec", dont_inherit=True), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    for quoted in re.findall(r"^```text\n(.*?)^```", page.read_text(), re.M | re.S):
        for part in re.split(r"^ *\.\.\.\n", quoted, flags=re.M):
            assert part in printed, f"{page.name} quotes what it does not print"


@pytest.mark.parametrize("page", CHAPTERS, ids=[page.stem for page in CHAPTERS])
def test_a_chapter_quotes_its_file(page):
    """What stands in blocks marked `py` is in the files of the book."""
    code = "".join(path.read_text() for path in sorted((BOOK / "code").glob("*.py")))
    quoted = re.findall(r"^```py\n(.*?)^```", page.read_text(), re.M | re.S)
    assert quoted and not [block for block in quoted if block not in code]
    assert f"(code/ch{page.name[0]}_" in (BOOK / "README.md").read_text()


@pytest.mark.skipif(not is_ready() or torch_abi() is None, reason="no kernels here")
def test_loops_on_the_page_about_kernels_are_those_that_are_printed(capsys):
    page = ROOT / "docs" / "kernels.md"
    text, name, names = python_of(page), "<kernels.md>", {"__name__": "__main__"}
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec", dont_inherit=True), names)
    printed = "\n".join(kernel.loops for f in ("block", "relax") for kernel in names[f].kernels).splitlines()
    quoted = re.findall(r"^```\n((?:kernel|  loop) .*?)^```", page.read_text(), re.M | re.S)
    lines = [line for part in quoted for line in part.splitlines() if line.strip() != "..."]
    assert len(quoted) == 2 and not [line for line in lines if line not in printed]


def test_the_glossary_has_the_words_that_the_book_introduces():
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.M)[1:]
    known = {word.strip().lower() for row in rows for word in row.split(",")}
    pages = [*CHAPTERS, ROOT / "docs" / "how_to_read_a_graph.md", ROOT / "docs" / "your_first.md"]
    emphasis = re.compile(r"(?<![*\w])\*([a-zA-Z][\w -]*)\*(?!\*)")
    introduced = {word for page in pages for word in emphasis.findall(_CODE.sub("", page.read_text()))}
    assert rows == sorted(rows, key=str.lower) and len(introduced) > 20
    ends = {"emit": "emit", "carries": "carried value", "parsing": "parse"}
    assert not {
        w for w in introduced if w not in known and w.removesuffix("s") not in known and ends.get(w) not in known
    }


@pytest.mark.parametrize("name", GENERATED)
def test_generated_page_is_what_its_generator_writes(name, request):
    if name == "operators.md" and not ops.is_dispatched("aten::dim"):
        pytest.skip("what this torch lacks in its dispatcher is declared in addition")
    path, text = ROOT / "docs" / name, GENERATED[name]()
    assert path.read_text() == text, f"docs/{name} is out of date: make docs"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page):
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_links_of_the_readme_are_absolute_and_lead_somewhere():
    """An index of packages shows it without the files beside it."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    url = config["metadata"]["url"]
    text = (ROOT / "README.md").read_text()
    assert not _LINK.findall(_CODE.sub("", text)), "relative links"
    links = re.findall(rf"\]\({re.escape(url)}/(blob|tree)/main/([^)#]+)", text)
    assert links
    for kind, target in links:
        assert (ROOT / target).is_file() if kind == "blob" else (ROOT / target).is_dir(), target
    for line in config["metadata"]["project_urls"].strip().splitlines():
        assert line.partition(" = ")[2].startswith(url), line


def test_readme_opens_with_the_two_commands():
    commands = re.findall(r"^make \w+", (ROOT / "README.md").read_text(), re.M)
    assert commands[:2] == ["make demo", "make test"]
