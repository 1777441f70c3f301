"""Ways out: compiled programs as something else, such as Python source."""
