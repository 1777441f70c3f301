"""The report of a function: one HTML file that needs nothing beside it.

The markup is written by Jinja2 with escaping on, so that nothing of a script becomes markup, and the page says by its
content security policy that it runs no other script than its own and asks no network for anything.
"""

from __future__ import annotations

import base64
import hashlib
import os
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from jitlite.base.whole_files import write_whole
from jitlite.report.content import Stage, clipped
from jitlite.report.highlight import highlighted
from jitlite.report.stages import Gathered, Subject, gather

_TEMPLATES = Path(__file__).parent / "templates"


class ReportPage:
    """A page about a function. In a notebook, it shows itself.

    Attributes:
        name: of the function.
        html: the whole page.
        stage_names: the names of its parts, in order.
    """

    def __init__(self, name: str, html: str, stage_names: list[str]) -> None:
        self.name = name
        self.html = html
        self.stage_names = stage_names

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        write_whole(path, self.html)

    def _repr_html_(self) -> str:
        """The page in a frame, so that its style stays its own."""
        frame = '<iframe title="jitlite report" sandbox="allow-scripts" width="100%" height="640" srcdoc="{}"></iframe>'
        return str(Markup(frame).format(self.html))

    def __repr__(self) -> str:
        return f"<report of {self.name}: {', '.join(self.stage_names)}>"


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["highlighted"] = highlighted
    return made


@cache
def _own(name: str) -> tuple[Markup, str]:
    """The text of one of our files, and its hash as a content security policy has it."""
    text = (_TEMPLATES / name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(text), f"'sha256-{digest}'"


def filled(template: str, script: str, **content: object) -> str:
    """A page from one of our templates, with our style and one of our scripts, which is the only one that it runs."""
    (css, css_hash), (js, js_hash) = _own("report.css"), _own(script)
    policy = f"default-src 'none'; style-src {css_hash}; script-src {js_hash}; base-uri 'none'"
    return _environment().get_template(template).render(css=css, js=js, policy=policy, **content)


def report(subject: Subject) -> ReportPage:
    """The report of a function."""
    return page_of(subject, gather(subject))


def page_of(subject: Subject, found: Gathered) -> ReportPage:
    """The page of what was gathered."""
    groups: dict[str, list[Stage]] = {}
    for stage in found.stages:
        groups.setdefault(stage.group, []).append(stage)
    html = filled(
        "report.html",
        "report.js",
        name=subject.name,
        signature=clipped(subject.signature),
        sources=found.views,
        shown={id for view in found.views for id in view.ids},
        groups=groups,
        unchanged=found.unchanged,
        longest=max((t.seconds for t in found.timings), default=1.0) or 1.0,
        changed=sum(1 for stage in found.stages if stage.is_pass),
        index=subject.index,
    )
    return ReportPage(subject.name, html, [stage.name for stage in found.stages])
