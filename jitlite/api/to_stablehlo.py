"""`to_stablehlo`: a model as a text of StableHLO."""

from __future__ import annotations

import os
from collections.abc import Callable

from jitlite.api.core_graphs import DynamicShapes, ExampleInputs
from jitlite.api.engine_arguments import file_path
from jitlite.api.whole_models import whole_model
from jitlite.base.keywords import checks_keywords
from jitlite.base.whole_files import replacing
from jitlite.engines import stablehlo
from jitlite.engines.engine import EngineRefusal
from jitlite.engines.whole_graphs import refused


@checks_keywords
def to_stablehlo(
    model: Callable[..., object],
    inputs: ExampleInputs,
    path: str | os.PathLike[str] | None = None,
    dynamic_shapes: DynamicShapes = False,
) -> str:
    """Write what a model does with inputs like these as a module of StableHLO, with its weights as constants.

    The model is recorded in evaluation mode, without gradients. The function of the module is `main`. Its arguments are
    the tensors of the inputs in order, those in tuples among them; its results are the tensors and numbers in what the
    model gives. Numbers, strings and None among the inputs are part of the model. What else the text holds for, such
    as sizes that have to be equal and indices that have to be in range, is said in comments at its top, one
    `condition` each.

    Args:
        model: an nn.Module, scripted, traced, loaded or plain, or a function that `script` takes.
        inputs: example arguments, a tuple of them or a single tensor.
        path: where the text is written.
        dynamic_shapes: which sizes may vary: True for all, or dimensions by the name of the argument, `{"x": [0]}`. A
            size of 0 or 1 in the example does not vary, and one that varies is 2 or more.

    Returns:
        The text.

    Raises:
        NotSupportedError: operators have no translation (`UnsupportedOperators`, with their names and lines), or the
            model does what no graph of operators can do.
        TypeError: an argument is of a wrong type; the text says which, and what is expected.
        ValueError: the model is in training mode, or names or dimensions do not fit.
    """
    target = file_path(path)
    found = whole_model(model, inputs, dynamic_shapes, "StableHLO")
    try:
        text = stablehlo.module.text_of_whole(found.whole, found.name)
    except EngineRefusal as why:
        raise refused("StableHLO", why) from None
    if target is not None:
        with replacing(target) as made:
            made.write_text(text)
    return text
