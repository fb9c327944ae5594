"""The arguments of each command, with their help."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from imbfit import __version__


def build_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="imbfit",
        description="Choose the best score thresholds under constraints, with a proof.",
        epilog="exit codes: 0 done, 2 bad input, 3 no choice of thresholds meets the constraints",
    )
    parser.add_argument("--version", action="version", version=f"imbfit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_tune(commands)
    _add_apply(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="show the whole way on simulated card transactions",
        description="Simulate card transactions, train a model, choose thresholds under a daily "
        "capacity and a precision for each segment, and compare with the default threshold on "
        "later days. Takes some seconds.",
    )
    demo.add_argument(
        "--out", type=Path, default=Path("imbfit_demo"), metavar="DIR",
        help="folder for figures and files (default: imbfit_demo)",
    )  # fmt: skip
    demo.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the simulation (default: 0)"
    )


def _add_tune(commands: Any) -> None:
    tune = commands.add_parser(
        "tune",
        help="choose thresholds for scored cases in a CSV or Parquet file",
        description="Choose the best thresholds for scored cases with known outcome, one per "
        "segment, under constraints.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""\
expressions (put them in quotes, since > and * mean something to the shell):
  f1, precision, recall, mcc, cost(fp=1, fn=20), ...   named metrics
  tp fp fn tn pp pn ap an n with + - * /               your own formula; pp is the number flagged
  fn[amount]                                           the sum of a column over the missed cases
constraints:
  "precision >= 0.5"                   on all cases together
  "precision >= 0.5 in each segment"   "recall >= 0.8 in segment DE"
  'capacity(200)'                      at most 200 flagged;  capacity(200, per=1000): per 1000 cases
  'capacity(200, per="date")'          on any one day, by the column date
  "max_gap(recall) <= 0.05"            between segments;     "threshold >= 0.3"

example:
  imbfit tune cases.csv --label fraud --score score --segment region --amount amount=value \\
      --minimize "5*pp + fn[amount]" --subject-to 'capacity(200, per="date")' \\
      --subject-to "precision >= 0.5 in each segment" --out results""",
    )
    tune.add_argument("file", type=Path, metavar="FILE", help="CSV or Parquet, a row per case")
    need = tune.add_argument_group("columns of the file")
    need.add_argument("--label", required=True, metavar="COL", help="outcome, 0/1 or true/false")
    need.add_argument("--pos-label", metavar="V", help="the positive value of another label")
    need.add_argument("--score", required=True, metavar="COL", help="score, higher is more likely")
    need.add_argument(
        "--segment", action="append", default=[], metavar="COL",
        help="a threshold for each value of this column; repeat it for combinations",
    )  # fmt: skip
    need.add_argument(
        "--amount", action="append", default=[], metavar="NAME=COL",
        help="a column that formulas read as fn[NAME]; repeatable. A column called NAME is found "
        "without it",
    )  # fmt: skip
    need.add_argument("--weight", metavar="COL", help="how often each case counts")
    goal = tune.add_argument_group("what is best").add_mutually_exclusive_group(required=True)
    goal.add_argument("--maximize", metavar="EXPR", help="the greater the better")
    goal.add_argument("--minimize", metavar="EXPR", help="the lower the better")
    rules = tune.add_argument_group("what must hold")
    rules.add_argument(
        "--subject-to", action="append", default=[], metavar="EXPR", help="a constraint; repeatable"
    )
    rules.add_argument(
        "--infeasible", choices=("raise", "least_violation"), default="raise",
        help="if no choice meets all constraints: say which conflict and stop with exit code 3, or "
        "take the choice that breaks them least",
    )  # fmt: skip
    search = tune.add_argument_group("search")
    search.add_argument(
        "--thresholds", default="all", metavar="T",
        help="candidates: all (default), a number of evenly spaced ones, or a list such as "
        "0.1,0.2,0.5",
    )  # fmt: skip
    search.add_argument(
        "--time-limit", type=float, default=60.0, metavar="S", help="seconds (default: 60)"
    )
    search.add_argument("--seed", type=int, default=0, metavar="N", help="seed (default: 0)")
    search.add_argument(
        "--nan-score", choices=("raise", "negative"), default="raise",
        help="cases without a score: stop, or never flag them",
    )  # fmt: skip
    search.add_argument(
        "--missing-segment", metavar="NAME",
        help="cases without a segment belong to one of this name; without it they are an error",
    )  # fmt: skip
    _add_csv_options(tune)
    tune.add_argument(
        "--out", type=Path, default=Path("imbfit_results"), metavar="DIR",
        help="folder for thresholds.json, table.csv and figures (default: imbfit_results)",
    )  # fmt: skip


def _add_apply(commands: Any) -> None:
    apply = commands.add_parser(
        "apply",
        help="flag new cases by chosen thresholds",
        description="Add a column to a file of scored cases: 1 where the score reaches the "
        "threshold of the case's segment, else 0.",
    )
    apply.add_argument("file", type=Path, metavar="FILE", help="CSV or Parquet of scored cases")
    apply.add_argument(
        "--thresholds", type=Path, required=True, metavar="JSON",
        help="thresholds.json, as written by imbfit tune",
    )  # fmt: skip
    apply.add_argument(
        "--out", metavar="FILE",
        help="where to write the cases, - for the standard output (default: NAME_flagged beside "
        "FILE)",
    )  # fmt: skip
    apply.add_argument("--column", default="flagged", metavar="COL", help="name of the new column")
    apply.add_argument(
        "--unknown-segment", default="raise", metavar="POLICY",
        help="cases of a segment that has no threshold, or without a segment: raise (default), "
        "negative (never flag them), or a number (their threshold)",
    )  # fmt: skip
    apply.add_argument(
        "--nan-score",
        choices=("raise", "negative"),
        help="cases without a score: stop, or do not flag them (default: as in tune)",
    )
    _add_csv_options(apply)


def _add_csv_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("CSV")
    group.add_argument("--sep", metavar="CHAR", help="separator (default: comma; tab in .tsv)")
    group.add_argument("--encoding", default="utf-8", metavar="E", help="default: utf-8")
