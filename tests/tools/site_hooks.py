"""What MkDocs asks while it builds the site: README.md is its first page, and links to code lead to the repository.

Pages are written to be read in the repository, so they link to files beside them. What is a page of the site stays a
link to it; any other file of the repository becomes one to its address. A link that leads to neither is an error.
"""

from __future__ import annotations

import configparser
import html
import json
import posixpath
import re
import textwrap
from pathlib import Path

from markdown.extensions.toc import slugify
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).parent.parent.parent
_LINK = re.compile(r"(\]\()([^)#\s]*)")
_CODE = re.compile(r"^```.*?^```|^ {4}[^\n]*$|`[^`\n]*`", re.M | re.S)
_INDENTED = re.compile(r"^ {1,3}```.*?^ {1,3}```", re.M | re.S)
_LAYOUT = """
table { display: block; overflow-x: auto; }
pre, .codehilite { overflow-x: auto; }
pre code { white-space: pre; }
.codehilite { background: var(--bs-tertiary-bg); border-radius: 4px; padding: .6em .8em; margin-bottom: 1em; }
.codehilite pre { margin: 0; padding: 0; background: none; border: none; }
.codehilite code { padding: 0; background: none; border: none; }
"""
"""Wide tables and long lines scroll within themselves, so that a page fits a phone."""


_SWITCHED = '<style id="hljs-light"></style><style id="hljs-dark"></style></head>'
"""The theme's script for light and dark switches these, and stops where they are not there. Ours follow the theme."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Have ids of headings begin with a letter, as the theme's script asks for them by CSS selectors."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = _slug
    return config


def _slug(title: str, separator: str) -> str:
    found: str = slugify(title, separator)
    return f"chapter{separator}{found}" if found[:1].isdigit() else found


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Add what the theme's script looks for."""
    return output.replace("</head>", _SWITCHED, 1)


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """The same for pages of the theme's own, such as the one for addresses that there are not."""
    return output_content.replace("</head>", _SWITCHED, 1)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the first page and the style of the site to what is in docs/."""
    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text()))
    dark = HtmlFormatter(style="github-dark").get_style_defs('[data-bs-theme="dark"] .codehilite')
    light = HtmlFormatter(style="default").get_style_defs(".codehilite")
    files.append(File.generated(config, "site.css", content=f"{light}\n{dark}\n{_LAYOUT}"))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Have the search work in pages that are opened from a disk: browsers start no worker there, as MkDocs' needs."""
    folder = Path(config.site_dir) / "search"
    found = json.loads((folder / "search_index.json").read_text())["docs"]
    titles = {entry["location"]: html.unescape(entry["title"]) for entry in found if "#" not in entry["location"]}
    sections = [
        {
            "location": entry["location"],
            "page": titles.get(entry["location"].partition("#")[0], ""),
            "title": html.unescape(entry["title"]),
            "text": html.unescape(entry["text"]),
        }
        for entry in found
        if "#" in entry["location"]  # a page is there once more, as its sections
    ]
    (folder / "index.js").write_text(f"window.siteSections = {json.dumps(sections)};\n")
    (folder / "main.js").write_text((Path(__file__).parent / "site_search.js").read_text())
    for name in ("worker.js", "lunr.js", "search_index.json"):
        (folder / name).unlink(missing_ok=True)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links of a page lead to pages of the site where there is one, else to the repository."""
    here = "" if page.file.src_uri == "index.md" else posixpath.join("docs", posixpath.dirname(page.file.src_uri))
    markdown = _INDENTED.sub(lambda found: textwrap.dedent(found.group()), markdown)  # Markdown's rule, not GitHub's
    done, end = [], 0
    for code in _CODE.finditer(markdown):
        done += [_with_links(markdown[end : code.start()], here, page, files), code.group()]
        end = code.end()
    return "".join([*done, _with_links(markdown[end:], here, page, files)])


def _with_links(text: str, here: str, page: Page, files: Files) -> str:
    return _LINK.sub(lambda found: found.group(1) + _target(found.group(2), here, page, files), text)


def _target(link: str, here: str, page: Page, files: Files) -> str:
    """Where a link leads to on the site.

    Raises:
        PluginError: if there is no such file.
    """
    url = repository()
    in_repository = re.fullmatch(rf"{re.escape(url)}/(?:blob|tree)/main/(.*)", link)
    if not link or (re.match(r"[a-z]+:", link) and in_repository is None):
        return link
    path = in_repository.group(1) if in_repository else posixpath.normpath(posixpath.join(here, link))
    if not (ROOT / path).exists():
        raise PluginError(f"{page.file.src_uri}: {link} leads nowhere")
    is_page = path.startswith("docs/") and files.get_file_from_path(path.removeprefix("docs/")) is not None
    if is_page or path == "README.md":
        source = "index.md" if path == "README.md" else path.removeprefix("docs/")
        return posixpath.relpath(source, posixpath.dirname(page.file.src_uri) or ".")
    return f"{url}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"


def repository() -> str:
    """The address of the repository."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config["metadata"]["url"]
