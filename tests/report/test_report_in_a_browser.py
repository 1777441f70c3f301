"""Reports in a browser: what clicks and keys do, without errors and without the network."""

from __future__ import annotations

import os
import shutil

import pytest
import torch
from torch import Tensor

import jitlite
from jitlite.kernels.torch_abi import torch_abi
from jitlite.native.entry import is_ready

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")


def helper(x: Tensor) -> Tensor:
    return x.relu() * 2.0


def mixed(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        x = helper(x) + i
    return torch.sigmoid(x)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        made = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        yield made
        made.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    jitlite.script(mixed).report(torch.ones(3, 5), 2).save(path)
    return path


@pytest.fixture(params=[1400, 390], ids=["wide", "phone"])
def page(browser, path, request):
    """The page; afterwards nothing may have gone wrong in it."""
    found = browser.new_page(viewport={"width": request.param, "height": 800})
    wrong, requests = [], []
    found.on("console", lambda message: wrong.append(message.text))
    found.on("pageerror", lambda error: wrong.append(str(error)))
    found.on("request", lambda asked: requests.append(asked.url))
    found.goto(path.as_uri())
    yield found
    assert wrong == []
    assert requests == [path.as_uri()]
    assert found.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    found.close()


def shown(page):
    return page.locator(".stage:visible h2").evaluate_all("found => found.map(h => h.firstChild.textContent.trim())")


def test_one_stage_is_shown_and_the_list_changes_it(page):
    assert shown(page) == ["graph"]
    page.click("nav a[href='#stage-opt']")
    assert shown(page) == ["opt"]
    assert page.locator("nav [aria-current]").inner_text().strip() == "opt"
    assert page.evaluate("document.activeElement.id") == "stage-opt-heading"


def test_keys_go_from_stage_to_stage(page):
    page.keyboard.press("j")
    after = shown(page)
    page.keyboard.press("ArrowLeft")
    assert after != ["graph"] and shown(page) == ["graph"]
    page.keyboard.press("k")
    assert shown(page) not in (after, ["graph"])


def test_a_line_of_the_source_lights_up_what_came_from_it(page):
    page.click("nav a[href='#stage-opt']")
    page.locator(".source li", has_text="torch.sigmoid").click()
    lit = page.locator(".stage:visible li.lit")
    assert lit.count() == 1 and "aten::sigmoid" in lit.inner_text()
    assert "1 place in opt" in page.inner_text("#detail")
    page.keyboard.press("Escape")
    assert page.locator(".lit").count() == 0


def test_a_line_of_a_stage_lights_up_its_source(page):
    page.click("nav a[href='#stage-opt']")
    page.locator(".stage:visible li", has_text="aten::relu").locator("a").click()
    lit = page.locator(".source li.lit")
    assert "x.relu()" in lit.inner_text() and lit.is_visible()  # its text was folded


@pytest.mark.skipif(not is_ready() or torch_abi() is None, reason="no kernels here")
def test_a_line_of_the_source_lights_up_its_machine_code_and_back(page):
    page.click("nav >> text=asm")
    source = page.locator(".source li", has_text="torch.sigmoid")
    source.click()
    lit = page.locator("#stage-asm li.lit")
    assert lit.count() > 3
    shown = page.locator("nav li", has_text="asm").locator(".count")
    assert int(shown.inner_text() if shown.is_visible() else shown.text_content()) == lit.count()
    several = page.locator("#stage-asm li[data-q]")
    if several.count():
        several.first.click()
        assert page.locator(".source li.lit").count() > 1
        assert page.locator("#detail").inner_text().startswith("lines ")


def test_a_value_tells_its_type_uses_and_sizes(page):
    page.click("nav a[href='#stage-opt']")
    page.locator(".stage:visible li", has_text="return (").locator(".v").click()
    text = page.inner_text("#detail")
    assert ": Tensor" in text and "1 use" in text
    assert page.locator(".v.same").count() == 2


def test_sizes_of_the_arguments_are_told(page):
    page.click("nav a[href='#stage-graph']")
    page.locator(".stage:visible .v", has_text="%x.1").first.click()
    assert "in this call" in page.inner_text("#detail") and "3, 5" in page.inner_text("#detail")


def test_a_line_of_the_source_tells_its_time(page):
    page.locator(".source li", has_text="torch.sigmoid").click()
    assert "ran once" in page.inner_text("#detail")
    page.click("nav a[href='#stage-lines']")
    page.locator(".stage:visible tr", has_text="torch.sigmoid").locator("a").click()
    assert "torch.sigmoid" in page.locator(".source li.lit").inner_text()


def test_a_stage_that_was_chosen_is_seen(page):
    page.click("nav a[href='#stage-opt']")
    top = page.locator("#stage-opt-heading").evaluate("heading => heading.getBoundingClientRect().top")
    bar = page.locator("nav").evaluate("bar => bar.getBoundingClientRect().bottom")
    assert 0 <= top < page.viewport_size["height"] / 2
    assert page.viewport_size["width"] > 700 or top >= bar  # on a phone, the list is a bar above it


def test_search(page):
    page.keyboard.press("/")
    page.keyboard.type("aten::sigmoid")
    assert " found" in page.inner_text("#found")
    assert page.locator("nav a[href='#stage-opt'] .count").inner_text() != ""
    page.keyboard.press("Enter")
    first = page.inner_text("#found")
    page.keyboard.press("Enter")
    assert first.endswith(page.inner_text("#found").split(" of ")[1]) and page.inner_text("#found") != first
    assert page.locator(".stage:visible .hit.at").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".hit").count() == 0 and page.inner_text("#found") == ""


def test_toggles(page):
    number = page.locator(".stage").count()
    page.click("#all")
    assert len(shown(page)) == number and page.get_attribute("#all", "aria-pressed") == "true"
    page.click("#all")
    assert shown(page) == ["graph"]
    page.click("#wrap")
    assert page.evaluate("document.body.className") == "wrap"


def test_a_drawing_leads_to_the_source_and_opens_blocks(page):
    page.click("nav a[href='#stage-drawing']")
    blocks = page.locator(".stage:visible details")
    assert blocks.evaluate_all("found => found.map(d => d.open)") == [True, False]
    loop = page.locator("svg a", has_text="prim::Loop")
    loop.click()
    assert blocks.evaluate_all("found => found.map(d => d.open)") == [True, True]
    assert "for i in range" in page.locator(".source li.lit").inner_text()
    assert loop.get_attribute("aria-expanded") == "true"
    loop.focus()
    page.keyboard.press("Enter")
    assert blocks.evaluate_all("found => found.map(d => d.open)") == [True, False]
    assert loop.get_attribute("aria-expanded") == "false"


def test_paper_has_all_stages(page):
    page.emulate_media(media="print")
    assert len(shown(page)) == page.locator(".stage").count()
    assert not page.locator("nav").is_visible()


def test_the_page_is_readable_without_scripts(browser, path):
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.goto(path.as_uri())
    assert plain.locator(".stage:visible").count() == plain.locator(".stage").count() > 10


def test_the_frame_of_a_notebook_runs(browser):
    found = browser.new_page()
    found.set_content(jitlite.script(mixed).report()._repr_html_())
    frame = found.frame_locator("iframe")
    frame.locator("nav a[href='#stage-opt']").click()
    assert frame.locator(".stage:visible h2").count() == 1
