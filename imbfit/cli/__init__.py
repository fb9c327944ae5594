"""The `imbfit` command: choose thresholds for scored cases in a file, and apply them to new ones.

Cells that say where a case belongs (segments, days, labels) are compared as text, exactly as they
stand in the file, so that a segment "01" stays apart from a segment "1" whatever program wrote it.
"""

from __future__ import annotations

from imbfit.cli.command import main

__all__ = ["main"]
