"""The documentation as a site: it builds without a warning, every link leads somewhere, no page asks the network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install '.[docs]'")

ROOT = Path(__file__).parent.parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAGES = sorted((ROOT / "docs").rglob("*.md"))


class Page(HTMLParser):
    """What a page links to, loads, and can be linked at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.viewport = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        self.loaded += [found[name] for name in ("src", "href") if name in found and tag in ("script", "link", "img")]
        if tag == "meta" and found.get("name") == "viewport":
            self.viewport = found["content"]


def build(site: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(config),
        "--site-dir",
        str(site),
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


def html_of(page: Path) -> Path:
    inside = page.relative_to(ROOT / "docs")
    return inside.with_name("index.html") if page.name == "README.md" else inside.with_suffix(".html")


def test_the_themes_script_finds_what_it_asks_for(site):
    """It selects headings by their ids, and switches two styles between light and dark."""
    for path in site.rglob("*.html"):
        ids = Page(path.read_text()).ids
        assert {"hljs-light", "hljs-dark"} <= ids, path
        assert path.name == "404.html" or not [id for id in ids if id[:1].isdigit()], path


def test_every_page_is_there(site):
    assert (site / "index.html").exists()
    assert not [page for page in PAGES if not (site / html_of(page)).exists()]
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert not [page for page in PAGES if str(page.relative_to(ROOT / "docs")) not in nav]


def test_every_link_leads_somewhere(site):
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    missing = []
    for path, page in pages.items():
        for link in page.links + page.loaded:
            where = urlsplit(link)
            if where.scheme or path.name == "404.html":  # that page is shown at any address, so it knows none beside it
                continue
            target = (path.parent / unquote(where.path)).resolve() if where.path else path
            anchors = pages[target].ids if target in pages else set()
            if not target.exists() or (where.fragment and target in pages and unquote(where.fragment) not in anchors):
                missing.append(f"{path.relative_to(site)}: {link}")
    assert not missing


def test_links_of_pages_stay_in_the_site(site):
    start = Page((site / "index.html").read_text()).links
    assert "from_scratch/index.html" in start and "architecture.html" in start
    chapter = Page((site / "from_scratch" / "1_tree.html").read_text()).links
    assert "code/ch1_tree.py" in Page((site / "from_scratch" / "index.html").read_text()).links
    assert any(link.endswith("/blob/main/jitlite/frontend/syntax/tree.py") for link in chapter)


def test_a_page_fits_a_phone_and_needs_no_network(site):
    for path in site.rglob("*.html"):
        page = Page(path.read_text())
        assert "width=device-width" in page.viewport, path
        assert not [found for found in page.loaded if urlsplit(found).netloc], path
    style = (site / "site.css").read_text()
    assert "overflow-x: auto" in style and "@import" not in style


def test_the_search_works_from_a_disk(site):
    """Its index is a script, which pages may load from beside them; it starts no worker and asks for nothing."""
    text = (site / "search" / "index.js").read_text()
    assert text.isascii()
    sections = json.loads(text.removeprefix("window.siteSections = ").removesuffix(";\n"))
    pages = {path.relative_to(site).as_posix(): Page(path.read_text()).ids for path in site.rglob("*.html")}
    found = {section["location"].partition("#")[0] for section in sections}
    assert found >= {html_of(page).as_posix() for page in PAGES}
    for section in sections:
        page, _, anchor = section["location"].partition("#")
        assert anchor in pages[page or "index.html"]
    assert any("phi function" in section["text"] for section in sections)
    assert not any(re.search(r"&(amp|lt|gt|quot);", section["text"]) for section in sections[:50])
    script = (site / "search" / "main.js").read_text()
    assert not re.search(r"Worker|fetch|XMLHttpRequest|innerHTML|insertAdjacentHTML", script)
    assert sorted(path.name for path in (site / "search").iterdir()) == ["index.js", "main.js"]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize("width", [1300, 390])
def test_words_are_found_in_a_browser(site, width):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        page = browser.new_page(viewport={"width": width, "height": 800})
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto((site / "from_scratch" / "3_ssa.html").as_uri() + "?q=phi+function")
        links = page.locator("#mkdocs-search-results a")
        links.first.wait_for()
        assert "3. Variables become values: Where ways meet" in [link.inner_text() for link in links.all()]
        page.fill("#mkdocs-search-query", "<b>nothing like it")
        page.locator("#mkdocs-search-results > p").wait_for()
        assert links.count() == 0 and wrong == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        browser.close()


LINKS = {
    "page": ("nowhere.md", False), "anchor": ("glossary.md#no-such-place", False),
    "file": ("../jitlite/no_such_file.py", False), "good page": ("glossary.md#glossary", True),
    "good file": ("../jitlite/__init__.py", True),
}  # fmt: skip


@pytest.mark.parametrize("link, leads_somewhere", LINKS.values(), ids=LINKS)
def test_a_link_that_leads_nowhere_fails_the_build(link, leads_somewhere, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "glossary.md").write_text(f"# Glossary\n\nSee [there]({link}).\n")
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[0]
    hooks = ROOT / "tests" / "tools" / "site_hooks.py"
    text = text.replace("docs_dir: docs", f"docs_dir: {docs}").replace("tests/tools/site_hooks.py", str(hooks))
    config = tmp_path / "mkdocs.yml"
    config.write_text(text + "\n")
    done = build(tmp_path / "site", config)
    assert (done.returncode == 0) is leads_somewhere, done.stderr
    assert leads_somewhere or link.partition("#")[0].rpartition("/")[2] in done.stderr
