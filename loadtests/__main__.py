"""`python -m loadtests` is `fastmode load`."""

import sys

from fastmode.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "load")
    main()
