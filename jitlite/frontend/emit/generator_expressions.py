"""Generator expressions where it matters that each element is computed only when it is asked for.

    any(f(x) for x in xs if p(x))        no element after the one that decides is computed
    for y in (f(x) for x in xs if p(x))  the body runs between the elements

Both become loops and conditions. Elsewhere (`sum`, `list`, `sorted`, `join`) all elements are computed, as a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.conditional_assignment import SetByElements, names_set_in
from jitlite.frontend.emit.conditions import emit_condition, to_bool
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.iteration import Body, emit_for
from jitlite.frontend.emit.language_values import container_truth
from jitlite.frontend.emit.scope import RefinementSet
from jitlite.frontend.emit.statements import emit_chosen
from jitlite.frontend.emit.values import SimpleValue
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.nested_scopes import with_own_variables
from jitlite.ir.graph import Value

_Clause = tree.ComprehensionFor | tree.ComprehensionIf


def emit_quantifier(em: Emitter, range: SourceRange, generator: tree.ListComp, decisive: bool) -> Value:
    """`any(generator)` (`decisive` is True) or `all(generator)`."""
    result, decides = em.temporary("result"), em.temporary("decides")
    initial = em.constant(not decisive, range)
    em.assign(result, SimpleValue(initial), range)
    kept = SetByElements(em, names_set_in(generator))
    generator = with_own_variables(generator, em.temporary("generator"))
    settled = _variable(result, range)
    if not decisive:
        settled = tree.UnaryOp("not", settled, range=range)
    stop = tree.IfStmt(settled, (tree.Break(range=range),), (), range=range)

    def on_element() -> None:
        found = em.emit(generator.element)
        truth = container_truth(em, found, range) or to_bool(em, found, range)
        if not decisive:
            truth = em.op("aten::__not__", [truth], range=range)
        kept.note()
        em.assign(decides, SimpleValue(truth), range)
        other = tree.UnaryOp("not", _variable(result, range), range=range)
        reached = tree.Assign((_variable(result, range),), other, None, range=range)
        em.emit_statements(
            [tree.IfStmt(_variable(decides, range), (reached, tree.Break(range=range)), (), range=range)]
        )

    first = tree.ComprehensionFor(generator.target, generator.iterable, range=range)
    _emit_clauses(em, [first, *generator.clauses], on_element, stop)
    found = em.lookup(result, range).as_value(em, range)
    settled_by = RefinementSet(set_when_true=kept.with_placeholders(initial))
    em.settled[found] = settled_by if decisive else settled_by.negation()
    return found


def _emit_clauses(em: Emitter, clauses: Sequence[_Clause], on_element: Callable[[], None], stop: tree.Stmt) -> None:
    """The clauses, each inside of those before it; `stop` follows each loop that is inside of another."""
    if not clauses:
        on_element()
        return
    first, *others = clauses

    def emit_others() -> None:
        _emit_clauses(em, others, on_element, stop)
        if isinstance(first, tree.ComprehensionFor) and any(isinstance(c, tree.ComprehensionFor) for c in others):
            em.emit_statements([stop])

    if isinstance(first, tree.ComprehensionFor):
        emit_for(em, first.range, [first.target], first.iterable, Body(emit_others, frozenset({tree.Break})))
    else:
        emit_chosen(em, first.range, emit_condition(em, first.condition), emit_others, lambda: None)


def _variable(name: str, range: SourceRange) -> tree.Expr:
    return tree.Var(tree.Ident(name, range=range), range=range)
