"""All kinds of errors, and the page about them."""

from __future__ import annotations

from types import ModuleType

from jitlite.base.errors import calls, classes, inside, modules, names, statements, type_names, types, ways_out
from jitlite.base.errors.kinds import ErrorKind
from jitlite.base.source import CompileError

_SUBJECTS: tuple[ModuleType, ...] = (
    names, types, calls, statements, type_names, classes, modules, ways_out, inside,
)  # fmt: skip


def all_kinds() -> list[ErrorKind[CompileError]]:
    """Every kind of error, by code."""
    found = [value for module in _SUBJECTS for value in vars(module).values() if isinstance(value, ErrorKind)]
    return sorted(found, key=lambda kind: kind.code)


def kind_of_code(code: str) -> ErrorKind[CompileError] | None:
    """The kind with this code; None where there is none."""
    return next((kind for kind in all_kinds() if kind.code == code.upper()), None)


def codes_markdown() -> str:
    """The page docs/error_codes.md."""
    head = (
        "# Error codes\n\nWritten by `make docs` from the declarations in `jitlite/base/errors/`. A `CompileError` has "
        "the code of its kind as its\nattribute `code`, and its last line names it; `jitlite explain CODE` prints what "
        "stands here. The tests run each program\nbelow: the wrong one raises the error, the right one prints what "
        "eager Python prints.\n"
    )
    return "\n".join([head, *(kind.page() for kind in all_kinds())])
