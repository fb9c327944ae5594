"""imbfit itself, behind the interface of the rivals."""

from __future__ import annotations

import warnings

from benchmarks.problems import Data, Problem
from benchmarks.rivals import Prepared, Result
from imbfit import SearchWarning, search_thresholds

name = "imbfit"


def prepare(problem: Problem, data: Data, time_limit: float) -> Prepared:
    arguments = problem.arguments(data)

    def run() -> Result:
        with warnings.catch_warnings():
            # a search that ends without a proof says so in its status
            warnings.simplefilter("ignore", SearchWarning)
            found = search_thresholds(data.positive, data.score, time_limit=time_limit, **arguments)
        return Result(found.thresholds, found.status, found.best_bound, found.gap)

    return run
