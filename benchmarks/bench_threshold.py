"""Time, peak memory and quality of the threshold search, for asv.

The problems are the named ones at a tenth of their rows, so that one pass through all of them stays
short; ``targets.py`` measures the full sizes.
"""

from __future__ import annotations

import warnings

from benchmarks.measure import check
from benchmarks.problems import PROBLEMS, Data, Problem
from benchmarks.rivals import Result, ours, tuned
from imbfit import SearchWarning, search_thresholds
from imbfit.threshold.search import ThresholdSearch

ROWS = 100_000
NAMES = ["one_f1", "linear_500", "f1_500", "money_500", "mcc_50", "fair_8"]
LIMIT = 2.0


def _drawn(name: str) -> tuple[Problem, Data]:
    problem = PROBLEMS[name].smaller(ROWS)
    return problem, problem.simulation.draw()


def _search(problem: Problem, data: Data) -> ThresholdSearch:
    with warnings.catch_warnings():
        # a search that runs into its limit shows in the gap
        warnings.simplefilter("ignore", SearchWarning)
        return search_thresholds(
            data.positive, data.score, time_limit=LIMIT, **problem.arguments(data)
        )


class Search:
    """The search, from labels and scores to recounted thresholds."""

    params = NAMES
    param_names = ("problem",)
    timeout = 60

    def setup(self, name: str) -> None:
        self.problem, self.data = _drawn(name)

    def time_search(self, name: str) -> None:
        _search(self.problem, self.data)

    def peakmem_search(self, name: str) -> None:
        _search(self.problem, self.data)

    def track_relative_gap(self, name: str) -> float:
        found = _search(self.problem, self.data)
        seen = check(self.problem, self.data, Result(found.thresholds))
        assert seen is not None
        assert not seen.broken
        return found.gap / abs(seen.value)


class AgainstTuned:
    """F1 of one segment: what a grid of 100 thresholds leaves behind."""

    def setup(self) -> None:
        self.problem, self.data = _drawn("one_f1")

    def track_f1_gained(self) -> float:
        exact, grid = (
            check(self.problem, self.data, rival.prepare(self.problem, self.data, LIMIT)())
            for rival in (ours, tuned)
        )
        assert exact is not None
        assert grid is not None
        assert exact.value >= grid.value
        return exact.value - grid.value

    def time_tuned(self) -> None:
        tuned.prepare(self.problem, self.data, LIMIT)()
