"""A solution of exercise 8."""

from __future__ import annotations

MORE_LANES = {
    "aten::abs": """{o}.bits = bitcast float {0} to i32
  {o}.plain = and i32 {o}.bits, 2147483647
  {o} = bitcast i32 {o}.plain to float""",
    "aten::sigmoid": """{o}.n = fneg float {0}
  {o}.e = call float @expf(float {o}.n)
  {o}.d = fadd float 1.0, {o}.e
  {o} = fdiv float 1.0, {o}.d""",
    "aten::maximum": """{o}.greater = fcmp ogt float {0}, {1}
  {o}.nan = fcmp uno float {0}, 0.0
  {o}.first = or i1 {o}.greater, {o}.nan
  {o} = select i1 {o}.first, float {0}, float {1}""",
}
