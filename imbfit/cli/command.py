"""From arguments to an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Sequence

from imbfit.cli.apply import apply
from imbfit.cli.demo import demo
from imbfit.cli.messages import (
    BAD_INPUT,
    DONE,
    INFEASIBLE,
    BadInput,
    complain,
    in_words_of_the_command,
)
from imbfit.cli.parser import build_parser
from imbfit.cli.tune import tune
from imbfit.exceptions import InfeasibleConstraints, ScoreScaleWarning, SearchWarning

_COMMANDS = {"demo": demo, "tune": tune, "apply": apply}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, default=None
        Arguments after the command's name; those of the process by default.

    Returns
    -------
    int
        Exit code: 0 done, 2 bad input, 3 the constraints can't be met.
    """
    try:
        arguments = build_parser().parse_args(argv)
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    try:
        _check_packages()
        with warnings.catch_warnings(record=True) as caught:
            for category in (SearchWarning, ScoreScaleWarning):
                warnings.simplefilter("always", category)
            try:
                return int(_COMMANDS[arguments.command](arguments))
            finally:
                _pass_on(caught, arguments.command)
    except InfeasibleConstraints as error:
        complain(arguments.command, in_words_of_the_command(str(error)))
        return INFEASIBLE
    except BadInput as error:
        complain(arguments.command, str(error))
        return BAD_INPUT
    except BrokenPipeError:
        # whoever read our output has had enough
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
        return DONE


def _pass_on(caught: Iterable[warnings.WarningMessage], command: str) -> None:
    """Show warnings without the file and line that a library would print."""
    for warning in caught:
        complain(command, in_words_of_the_command(str(warning.message)), "warning")


def _check_packages() -> None:
    for package in ("matplotlib", "pandas", "pyarrow"):
        try:
            __import__(package)
        except ImportError:
            raise BadInput(
                f"{package} is not installed; the command needs the extra cli: pip install "
                '"imbfit[cli]"'
            ) from None
