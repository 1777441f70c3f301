"""The type lattice of TorchScript.

Types are immutable and interned: two equal types are the same object, so `is` and `==` agree and a type can be
a dictionary key at no cost. `str(t)` is the spelling in graph text (`int[]`), `t.annotation` the Python one
(`List[int]`). See `is_subtype`, `unify` and `match_variables` for the relations.

How to read: `type_kinds.py` and `named_types.py` have the types, `type_relations.py` unions and subtypes,
`type_unification.py` what becomes of several types, and of a schema's variables. This module is one name for them all.
"""

from __future__ import annotations

from jitlite.ir.named_types import *  # noqa: F403
from jitlite.ir.type_kinds import *  # noqa: F403
from jitlite.ir.type_relations import *  # noqa: F403
from jitlite.ir.type_unification import *  # noqa: F403
