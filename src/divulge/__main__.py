"""``python -m divulge``: the command line."""

from divulge.cli import main

if __name__ == "__main__":
    main()
