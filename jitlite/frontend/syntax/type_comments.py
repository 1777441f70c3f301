"""Type comments: what `# type: (int, str) -> bool` and `# type: int` beside parameters say of a function.

def f(a, b):                        def f(a,  # type: int
    # type: (int, str) -> bool            b,  # type: str
                                          ):
                                        # type: (...) -> bool
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from jitlite.base.errors.statements import TYPE_COMMENT
from jitlite.base.source import SourceRange
from jitlite.frontend.syntax import tree as t
from jitlite.frontend.syntax.python_expressions import TreeBuilder, comment_type
from jitlite.frontend.syntax.python_source import Positions, TypeComment, parse_signature

_ELLIPSIS = re.compile(r"\(\s*\.\.\.\s*\)")
"""The parameters of a signature whose types stand beside them."""


def apply_comments(b: TreeBuilder, node: ast.FunctionDef, decl: t.Decl, *, is_method: bool | None) -> t.Decl:
    """The declaration with the types of comments in place of annotations.

    Args:
        is_method: does the first parameter have no type, as it is the object? None where that is not known: then it is
            so if the comment has one type less than there are parameters.

    Raises:
        CompileError: where comments and parameters do not match.
    """
    if not b.comments:
        return decl
    header = b.at.start(node.body[0])
    signature = _signature(b, node, header)
    single = _take_single(b, signature, header)
    if single and (signature is None or not _ELLIPSIS.match(signature.text)):
        raise TYPE_COMMENT(
            "Return type line '# type: (...) -> ...' not found on multiline type annotation",
            _place(b, single[0]),
            hint="add a line '# type: (...) -> RETURN TYPE' before the first statement",
        )
    if signature is None:
        return decl
    b.comments.remove(signature)
    params = list(decl.params)
    if single:
        _check_all_commented(b, params, single, is_method is not False)
    for comment in single:
        k = _commented_parameter(b, params, comment)
        params[k] = t.replaced(params[k], type=comment_type(b, comment))
    return _with_signature(b, t.replaced(decl, params=tuple(params)), signature, is_method)


def _take_single(b: TreeBuilder, signature: TypeComment | None, header: int) -> list[TypeComment]:
    """Take the comments for one parameter each; lines after the signature's belong to nothing."""
    single = [c for c in b.comments if c is not signature and c.start < header]
    for comment in single:
        b.comments.remove(comment)
    return single if signature is None else [c for c in single if c.start < signature.start]


def _signature(b: TreeBuilder, node: ast.FunctionDef, header: int) -> TypeComment | None:
    """The comment with the types of all parameters, perhaps before the `header`, which ends at the first statement."""
    nested = [n for n in ast.walk(node) if isinstance(n, ast.FunctionDef) and n is not node]
    inside = {line for n in nested for line in range(n.lineno, (n.end_lineno or 0) + 1)}
    found = next((c for c in b.comments if _is_signature(c) and c.line not in inside), None)
    if found is not None or len(b.comments) != 1:
        return found
    only = b.comments[0]
    # types of the parameters alone
    return only if only.text.startswith("(") and only.start < header else None


def _is_signature(comment: TypeComment) -> bool:
    return comment.text.startswith("(") and "->" in comment.text


def _with_signature(b: TreeBuilder, decl: t.Decl, signature: TypeComment, is_method: bool | None) -> t.Decl:
    """The declaration with the types of a signature, as far as that has any."""
    inner = TreeBuilder(Positions(b.at.source, signature.text, signature.start))
    has_result = "->" in signature.text
    parsed = parse_signature(signature.text if has_result else f"{signature.text} -> None", inner.at)
    params = decl.params
    if not any(isinstance(a, ast.Constant) and a.value is ... for a in parsed.argtypes):
        types = inner.expressions(parsed.argtypes)
        skipped = int(len(types) == len(params) - 1 if is_method is None else is_method)
        if len(types) != len(params) - skipped:
            raise TYPE_COMMENT(
                f"Number of type annotations ({len(types)}) did not match the number of function parameters "
                f"({len(params) - skipped}): the type comment has {len(types)}",
                b.at.range(decl.range.start, max([decl.range.end, *(p.range.end for p in params)])),
            )
        typed = [t.replaced(p, type=type) for p, type in zip(params[skipped:], types, strict=True)]
        params = (*params[:skipped], *typed)
    result = inner.expression(parsed.returns) if has_result else decl.return_type
    return t.replaced(decl, params=params, return_type=result)


def _place(b: TreeBuilder, comment: TypeComment) -> SourceRange:
    return b.at.range(comment.start, comment.start + len(comment.text))


def _check_all_commented(
    b: TreeBuilder, params: Sequence[t.Param], comments: Sequence[TypeComment], method: bool
) -> None:
    """Where types stand in comments beside the parameters, each parameter must have one."""
    wanted = [p for p in params[1 if method else 0 :] if p.type is None]
    if len(comments) < len(wanted):
        raise TYPE_COMMENT(
            f"Number of type annotations ({len(comments)}) did not match the number of function parameters "
            f"({len(wanted)}): some have no type comment",
            _place(b, comments[0]),
        )


def _commented_parameter(b: TreeBuilder, params: list[t.Param], comment: TypeComment) -> int:
    """Index of the parameter a comment follows on its line."""
    line = b.at.source.line_index(comment.start)
    same_line = [k for k, p in enumerate(params) if b.at.source.line_index(p.ident.range.start) == line]
    if not same_line:
        raise TYPE_COMMENT("there is no parameter on the line of this type comment", _place(b, comment))
    return same_line[-1]
