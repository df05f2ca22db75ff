"""``python -m divulge``: the command line."""

from divulge.cli import main

main()
