"""Which pass is at fault: bisection, smaller programs, comparison of results."""
