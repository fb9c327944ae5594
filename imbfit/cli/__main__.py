"""Run the command by ``python -m imbfit.cli``."""

from __future__ import annotations

import sys

from imbfit.cli.command import main

if __name__ == "__main__":
    sys.exit(main())
