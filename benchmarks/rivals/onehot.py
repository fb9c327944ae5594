"""The plain formulation of the OTLP paper: one 0-1 variable per candidate threshold, for CP-SAT.

To be fair to it, the candidates are only the positives' cuts and nobody (nothing else can be best
where flagging more without a further hit never helps), those that break the constraint of their own
segment are left out before, sums are integers, and no gap is allowed. F1 takes Dinkelbach's steps,
each a model of its own; MCC takes the same steps on its square, with the products that this needs.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from benchmarks.problems import Data, Problem, gain, saved
from benchmarks.rivals import DoesNotFit, Prepared, Result
from imbfit.expressions import Count
from imbfit.metrics import f1, mcc, precision

name = "one-hot CP-SAT"


@dataclass(frozen=True)
class Cuts:
    """Candidates of all segments, one after the other, with their sums."""

    threshold: np.ndarray
    segment: np.ndarray
    tp: np.ndarray
    pp: np.ndarray
    tp_money: np.ndarray
    fp_money: np.ndarray


def cuts(problem: Problem, data: Data) -> Cuts:
    """Collect the candidates that meet the constraint on their own segment."""
    least = None
    if problem.local is not None:
        if problem.local.left != precision:
            raise DoesNotFit("a bound on the precision is the only one it is given per segment")
        least = Fraction(str(problem.local.right.value))
    money = np.zeros(len(data.score), np.int64)
    if data.amount is not None:
        money = np.rint(data.amount * 100).astype(np.int64)
    segment = np.zeros(len(data.score), int) if data.segment is None else data.segment
    order = np.lexsort((-data.score, segment))
    segment, score, truth, money = (
        segment[order],
        data.score[order],
        data.positive[order],
        money[order],
    )
    first = np.searchsorted(segment, np.arange(segment[-1] + 1))

    def running(values: np.ndarray) -> np.ndarray:
        total = np.cumsum(values, dtype=np.int64)
        return total - np.concatenate([[0], total])[first[segment]]

    row = np.arange(len(score))
    last = np.ones(len(score), bool)
    last[:-1] = (score[1:] != score[:-1]) | (segment[1:] != segment[:-1])
    # the last row of each block of ties that holds a positive
    hits = np.concatenate([[0], np.cumsum(truth)])
    ends = np.flatnonzero(last)
    begin = np.concatenate([[0], ends[:-1] + 1])
    ends = ends[hits[ends + 1] > hits[begin]]
    tp, pp = running(truth)[ends], (row - first[segment] + 1)[ends]
    if least is not None:
        met = tp * least.denominator >= least.numerator * pp
        ends, tp, pp = ends[met], tp[met], pp[met]
    groups = len(first)
    nobody = np.zeros(groups, np.int64)
    return Cuts(
        np.concatenate([np.full(groups, np.inf), score[ends]]),
        np.concatenate([np.arange(groups), segment[ends]]),
        np.concatenate([nobody, tp]),
        np.concatenate([nobody, pp]),
        np.concatenate([nobody, running(np.where(truth, money, 0))[ends]]),
        np.concatenate([nobody, running(np.where(truth, 0, money))[ends]]),
    )


def prepare(problem: Problem, data: Data, time_limit: float) -> Prepared:
    if problem.objective not in (gain, saved, f1, mcc):
        raise DoesNotFit("written for the objectives of the targets")
    if data.weight is not None or data.day is not None:
        raise DoesNotFit("written for rows without weights and days")
    bounds = []
    for rule in problem.constraints(data):
        left, sense = getattr(rule, "left", None), getattr(rule, "sense", None)
        sums = {"pp": "pp", 'fp["amount"]': "fp_money"}.get(str(left))
        if sums is None or sense != "<=":
            raise DoesNotFit("written for upper bounds on flagged rows and on fp[amount]")
        limit = rule.right.value * (1 if isinstance(left, Count) else 100)  # type: ignore[union-attr]
        bounds.append((sums, round(limit)))
    names = [None] if data.segment is None else range(int(data.segment.max()) + 1)
    ap, n = int(data.positive.sum()), len(data.positive)

    def run() -> Result:
        deadline = time.monotonic() + time_limit
        table = cuts(problem, data)
        solver = _Steps(table, bounds, deadline, ap, n)
        if problem.objective == gain:
            found = solver.linear(41 * table.tp - table.pp, 1)
        elif problem.objective == saved:
            found = solver.linear(table.tp_money - 200 * table.pp, 100)
        else:
            found = solver.f1() if problem.objective == f1 else solver.mcc()
        picked, status, bound, note = found
        note = f"{len(table.tp):,} candidates{note}"
        if picked is None:
            return Result(None, status, bound, note=note)
        order = np.argsort(table.segment[picked])
        cut = table.threshold[picked][order].tolist()
        return Result(dict(zip(names, cut, strict=True)), status, bound, note=note)

    return run


class _Steps:
    """Models over the same candidates and bounds."""

    def __init__(
        self, table: Cuts, bounds: list[tuple[str, int]], deadline: float, ap: int, n: int
    ) -> None:
        self.table, self.bounds, self.deadline, self.ap, self.n = table, bounds, deadline, ap, n

    def model(self) -> tuple[cp_model.CpModel, list[Any]]:
        table = self.table
        model = cp_model.CpModel()
        flags = [model.new_bool_var("") for _ in range(len(table.tp))]
        by_segment = np.argsort(table.segment, kind="stable")
        edges = np.searchsorted(table.segment[by_segment], np.arange(table.segment.max() + 2))
        for first, end in itertools.pairwise(edges):
            model.add_exactly_one(flags[i] for i in by_segment[first:end].tolist())
        for sums, limit in self.bounds:
            model.add(self.total(flags, getattr(table, sums)) <= limit)
        return model, flags

    @staticmethod
    def total(flags: list[Any], coefficients: np.ndarray) -> Any:
        return cp_model.LinearExpr.weighted_sum(flags, coefficients.tolist())

    def solve(
        self, model: cp_model.CpModel, flags: list[Any]
    ) -> tuple[np.ndarray | None, str, float]:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.absolute_gap_limit = 0.0
        solver.parameters.relative_gap_limit = 0.0
        solver.parameters.max_time_in_seconds = max(0.1, self.deadline - time.monotonic())
        status = solver.solve(model)
        bound = solver.best_objective_bound
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None, "nothing found", bound
        picked = np.array([i for i, flag in enumerate(flags) if solver.boolean_value(flag)])
        return picked, "optimal" if status == cp_model.OPTIMAL else "no proof", bound

    def linear(self, value: np.ndarray, unit: int) -> Any:
        model, flags = self.model()
        model.maximize(self.total(flags, value))
        picked, status, bound = self.solve(model, flags)
        return picked, status, bound / unit, ""

    def f1(self) -> Any:
        """Maximise 2 tp q - p (pp + ap) for the ratio p/q at hand until it is 0."""
        table, ratio, best, steps = self.table, Fraction(0), None, 0
        while True:
            p, q = ratio.numerator, ratio.denominator
            model, flags = self.model()
            model.maximize(self.total(flags, 2 * q * table.tp - p * table.pp) - p * self.ap)
            picked, status, bound = self.solve(model, flags)
            steps += 1
            reached = ratio
            if picked is not None:
                tp, pp = int(table.tp[picked].sum()), int(table.pp[picked].sum())
                reached = Fraction(2 * tp, pp + self.ap)
            if picked is not None and (reached > ratio or best is None):
                best = picked
            note = f", {steps} steps"
            if status != "optimal":
                # 2 tp q - p (pp + ap) <= bound, and pp + ap >= ap
                top = float(ratio) + max(0.0, bound) / q / self.ap
                return best, "no proof", max(top, float(reached)), note
            if reached <= ratio:
                return best, "optimal", float(ratio), note
            ratio = reached

    def mcc(self) -> Any:
        """Maximise (n tp - ap pp)^2 - level^2 ap an pp pn until it is 0, in 64 bits.

        Both squares are divided by `coarse` squared, so its proof is one up to rounding.
        """
        table, ap, n = self.table, self.ap, self.n
        an, level, best, steps = n - ap, 0.0, None, 0
        coarse = max(1, (n * ap) >> 26)
        while True:
            model, flags = self.model()
            ahead = model.new_int_var(0, 2**27, "")
            model.add(ahead * coarse <= self.total(flags, n * table.tp - ap * table.pp))
            square = model.new_int_var(0, 2**54, "")
            model.add_multiplication_equality(square, [ahead, ahead])
            flagged = model.new_int_var(0, n, "")
            model.add(flagged == self.total(flags, table.pp))
            flagged_square = model.new_int_var(0, n * n, "")
            model.add_multiplication_equality(flagged_square, [flagged, flagged])
            factor = round(16 * level**2 * ap * an / coarse**2)
            model.maximize(16 * square - factor * (n * flagged - flagged_square))
            picked, status, _ = self.solve(model, flags)
            steps += 1
            note = f", {steps} steps"
            reached = level
            if picked is not None:
                tp, pp = int(table.tp[picked].sum()), int(table.pp[picked].sum())
                if 0 < pp < n:
                    reached = (n * tp - ap * pp) / math.sqrt(ap * an * pp * (n - pp))
            if picked is not None and (reached > level or best is None):
                best = picked
            if status != "optimal":
                return best, "no proof" if best is not None else status, None, note
            if reached <= level * (1 + 1e-9):
                return best, "optimal to rounding", None, note
            level = reached
