"""`python -m jitlite` is the command `jitlite`."""

import sys

from jitlite.cli import main

if __name__ == "__main__":
    sys.exit(main())
