"""What tells that a trace is not right for other inputs, and where it was fixed."""

import warnings

import pytest
import torch
from torch import nn

import jitlite


def findings_of(function, inputs, **options):
    """What checking other sizes finds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jitlite.TracerWarning)
        try:
            jitlite.trace(function, inputs, check_trace=False, check_shapes=True, **options)
        except jitlite.TracingCheckError as error:
            return error.findings
    return ()


def line_of(function, offset):
    code = getattr(function, "__code__", None) or function.forward.__code__
    return f"{code.co_filename}:{code.co_firstlineno + offset}"


def test_nothing_is_found_where_sizes_are_followed():
    def function(x, y):
        return x.view(x.size(0), -1) @ y.t() + x.shape[0] * 2, torch.cat([x.flatten(1), y])

    assert findings_of(function, (torch.ones(2, 3, 2), torch.ones(4, 6))) == ()
    assert findings_of(nn.Linear(3, 2), (torch.ones(4, 3),)) == ()


def test_a_shape_that_is_baked_in():
    def function(x):
        rows = len(x)
        return x.reshape(rows, 3, 1)

    (finding,) = findings_of(function, (torch.ones(2, 3),))
    assert finding.kind == "constant"
    assert finding.operator == "aten::reshape"
    assert finding.place.startswith(line_of(function, 2))
    assert "2 baked in, and it is 4" in finding.text
    assert finding.inputs == "input 0.size(0) 4 instead of 2"


def test_a_branch_that_was_taken():
    def function(x):
        if x.shape[1] > 4:
            return x.relu()
        return x.sigmoid()

    (finding,) = findings_of(function, (torch.ones(2, 3),))
    assert finding.kind == "branch"
    assert "calls aten::sigmoid, and another one aten::relu" in finding.text
    assert finding.place.startswith(line_of(function, 3))


def test_a_loop_over_rows():
    def function(x):
        total = torch.zeros(3)
        for row in x:
            total = total + row
        return total

    found = findings_of(function, (torch.ones(2, 3),))
    assert found
    assert all(f.place.startswith(line_of(function, 1)[:-2]) for f in found)


def test_a_number_that_python_was_asked_for():
    def function(x):
        return x * int(x.sum())

    (finding,) = findings_of(function, (torch.ones(2, 3),))
    assert (finding.kind, finding.operator) == ("constant", "aten::mul")
    assert finding.place.startswith(line_of(function, 1))


def test_a_tensor_made_of_the_shape():
    def function(x):
        return x + torch.ones(len(x), 3)

    (finding,) = findings_of(function, (torch.ones(2, 3),))
    assert finding.kind == "constant"


def test_sizes_that_the_function_does_not_take_say_nothing():
    def function(x, y):
        return x @ y

    assert findings_of(function, (torch.ones(2, 3), torch.ones(3, 4))) == ()


def test_each_finding_is_told_once_and_all_are_in_the_text():
    def function(x):
        a = x * len(x)
        return a, x + float(x.shape[1])

    with pytest.raises(jitlite.TracingCheckError) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore", jitlite.TracerWarning)
        jitlite.trace(function, (torch.ones(2, 3),), check_trace=False, check_shapes=True)
    assert len(caught.value.findings) == 2
    text = str(caught.value)
    assert "The trace does not hold for other sizes" in text
    assert all(str(f) in text for f in caught.value.findings)


def test_modules_their_submodules_and_keywords():
    class Inner(nn.Module):
        def forward(self, x):
            return x.expand(len(x), 3)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x, scale=None):
            return self.inner(x) * scale

    module = Outer()
    (finding,) = findings_of(module, None, example_kwarg_inputs={"x": torch.ones(2, 1), "scale": torch.ones(1)})
    assert finding.operator == "aten::expand"
    assert finding.place.startswith(line_of(Inner, 1))
    assert finding.inputs.startswith("x.size(0) 4")


def test_nested_inputs_are_varied():
    def function(pair, named):
        return pair[0] * len(named["a"]) + pair[1]

    inputs = ((torch.ones(3), torch.ones(3)), {"a": torch.ones(2)})
    (finding,) = findings_of(function, inputs)
    assert finding.inputs == "input 1['a'].size(0) 4 instead of 2"


def test_other_inputs_of_the_users_own():
    def function(x):
        return x * len(x)

    with warnings.catch_warnings(), pytest.raises(jitlite.TracingCheckError) as caught:
        warnings.simplefilter("ignore", jitlite.TracerWarning)
        jitlite.trace(function, (torch.ones(2),), check_inputs=[(torch.ones(2),), (torch.ones(5),)])
    (finding,) = caught.value.findings
    assert "2 baked in, and it is 5" in finding.text
    assert "First diverging operator: aten::mul" in str(caught.value)


def test_random_numbers_and_empty_and_scalar_inputs():
    assert findings_of(lambda x: torch.dropout(x, 0.5, True), (torch.ones(4),)) == ()
    assert findings_of(lambda x, y: x + y, (torch.ones(0, 3), torch.tensor(2.0))) == ()
    assert findings_of(lambda x: x + 1, (torch.tensor(2.0),)) == ()


def test_the_inputs_of_the_user_are_left_alone():
    x = torch.ones(2, 3)
    findings_of(lambda x: x.add_(1), (x,))
    assert x.tolist() == [[2.0] * 3] * 2  # written once, by the trace itself
