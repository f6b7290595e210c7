"""`python -m fastmode` is `fastmode`."""

from fastmode.cli import main

main()
