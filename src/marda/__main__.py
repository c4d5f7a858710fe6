"""``python -m marda``: the command without its script."""

import sys

from marda.cli import main

if __name__ == "__main__":
    sys.exit(main())
