"""Tables of small functions, one an operator."""
