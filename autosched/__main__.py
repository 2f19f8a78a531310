"""``python -m autosched`` is the command ``autosched``."""

import sys

from autosched.cli import main

if __name__ == "__main__":
    sys.exit(main())
