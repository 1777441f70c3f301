"""Operators with several names, and the one that passes know them by."""

from __future__ import annotations

from jitlite.ir.traits import Link, Trait, known

_ALIASES = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atan2": "arctan2", "atanh": "arctanh", "clamp": "clip", "trunc": "fix", "neg": "negative", "sub": "subtract",
    "ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less", "ne": "not_equal",
    "div": "divide true_divide", "mul": "multiply", "transpose": "swapdims swapaxes",
}  # fmt: skip
"""Names that also stand with an underscore behind them, for the in-place variant."""

_PLAIN_ALIASES = {
    "linalg_det": "det", "linalg_matrix_power": "matrix_power", "linalg_matrix_exp": "matrix_exp", "outer": "ger",
    "matmul": "linalg_matmul", "linalg_inv": "inverse", "cat": "concat concatenate", "vstack": "row_stack",
    "movedim": "moveaxis", "erf": "special_erf", "erfc": "special_erfc", "erfinv": "special_erfinv",
    "exp2": "special_exp2", "expm1": "special_expm1", "logit": "special_logit",
    "log1p": "special_log1p", "digamma": "special_digamma special_psi", "lgamma": "special_gammaln",
    "round": "special_round", "sinc": "special_sinc", "i0": "special_i0", "xlogy": "special_xlogy",
    "sigmoid": "special_expit", "logsumexp": "special_logsumexp", "mvlgamma": "special_multigammaln",
}  # fmt: skip

_ONLY_IN_SOURCE = {
    "igamma": "special_gammainc", "igammac": "special_gammaincc", "linalg_householder_product": "orgqr",
    "log_softmax": "special_log_softmax", "mH": "adjoint", "polygamma": "special_polygamma",
    "softmax": "special_softmax",
}  # fmt: skip
"""Names that the front end replaces, and the pass `normalize_ops` leaves."""

for _name, _aliases in _ALIASES.items():
    for _alias in _aliases.split():
        known(f"aten::{_alias}", Link.USUAL_NAME(f"aten::{_name}"))
        known(f"aten::{_alias}_", Link.USUAL_NAME(f"aten::{_name}_"))
for _name, _aliases in _PLAIN_ALIASES.items():
    for _alias in _aliases.split():
        known(f"aten::{_alias}", Link.USUAL_NAME(f"aten::{_name}"))
for _name, _alias in _ONLY_IN_SOURCE.items():
    known(f"aten::{_alias}", Link.USUAL_NAME(f"aten::{_name}"), Trait.RENAMED_IN_SOURCE)
