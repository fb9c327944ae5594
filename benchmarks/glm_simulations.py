"""How good the estimators are: errors relative to a fit of all rows, and coverage, by simulation.

python benchmarks/glm_simulations.py [--replicates 200] [--more 2000 --of NAME ...] [--jobs 2]

Four parts. `grid`: every method in each population at several rates, set against the figures of an
independent implementation of the same formulas (`KNOWN`), within the Monte-Carlo error of both.
`coverage`: two of the methods only, which is cheap enough for thousands of replicates. `four`:
designs beyond the uniform one, four negatives per positive. `auto`: the precision that the
automatic rate keeps, against the five per cent it may lose. All methods of a replicate fit the same
draw. Results are appended to a file, a line per replicate; what is there is not run again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# before numpy is imported, which reads them once
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import math
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from benchmarks import glm_report
from benchmarks.glm_problems import FOUR, GRID, Data, Population
from benchmarks.glm_report import Line
from benchmarks.records import Records
from imbfit import DownsampledGLMClassifier
from imbfit.exceptions import SamplingWarning

METHODS = ("iw", "cmle", "pseudo_mle", "profile", "naive")
NORMAL_975 = float(ndtri(0.975))
# Where a difference from the known figures counts: of some 170 comparisons half a one is expected
# beyond three standard errors by chance.
FAR = 3.0


@dataclass(frozen=True)
class Known:
    """What the independent implementation found in one cell.

    Attributes
    ----------
    iw, cmle, pseudo_mle : tuple of str
        Squared error of the slopes relative to the fit of all rows, and coverage where it was
        counted; as strings, whose digits tell how they were rounded.
    replicates : int
        How many it ran.
    """

    iw: tuple[str, ...]
    cmle: tuple[str, ...]
    pseudo_mle: tuple[str, ...]
    replicates: int = 200
    profile: tuple[str, ...] = ()

    def of(self, method: str) -> tuple[str, ...]:
        """Return figures of one method, or nothing."""
        return tuple(getattr(self, method, ()))


K = Known
# By population and rate, with a free intercept.
KNOWN = {
    ("logit_0.1%", 0.005): K(("1.42", ".94"), ("1.35", ".94"), ("2.59", ".67")),
    ("logit_0.1%", 0.01): K(("1.18",), ("1.16",), ("1.43", ".87")),
    ("logit_0.1%", 0.05): K(("1.03", ".95"), ("1.03", ".95"), ("0.98", ".95")),
    ("logit_0.1%", 0.2): K(("1.01",), ("1.01",), ("1.00",)),
    ("logit_1%", 0.005): K(("5.03", ".94"), ("3.56", ".95"), ("201", ".00")),
    ("logit_1%", 0.01): K(("2.92",), ("2.37",), ("123", ".00")),
    ("logit_1%", 0.05): K(("1.31", ".95"), ("1.28", ".96"), ("17.5", ".04")),
    ("logit_1%", 0.2): K(("1.07",), ("1.07",), ("1.73", ".86")),
    ("logit_5%", 0.005): K(("17.0", ".94"), ("10.4", ".95"), ("1629", ".00")),
    ("logit_5%", 0.05): K(("2.45",), ("2.17",), ("502", ".00")),
    ("logit_5%", 0.2): K(("1.28",), ("1.29",), ("57", ".00")),
    ("logit_0.1%_normal", 0.005): K(("3.73", ".92"), ("1.90", ".95"), ("25", ".02")),
    ("logit_0.1%_normal", 0.05): K(("1.28",), ("1.17",), ("2.44", ".69")),
    ("logit_0.1%_normal", 0.2): K(("1.08",), ("1.06",), ("1.07",)),
    ("logit_1%_normal", 0.01): K(("8.31", ".94"), ("3.34", ".95"), ("557", ".00")),
    ("logit_1%_normal", 0.2): K(("1.26",), ("1.19",), ("19.5", ".07")),
    ("probit_0.1%", 0.005): K(("2.77", ".95"), ("1.88", ".96"), ("29.7", ".00")),
    ("probit_0.1%", 0.05): K(("1.16",), ("1.15",), ("2.44", ".68")),
    ("probit_0.1%", 0.2): K(("1.05",), ("1.05",), ("1.02", ".93")),
    ("probit_1%", 0.01): K(("5.54", ".93"), ("3.01", ".93"), ("542", ".00")),
    ("probit_5%", 0.005): K(("26.6", ".94"), ("8.71", ".95"), ("4623", ".00")),
    ("probit_5%", 0.2): K(("1.43",), ("1.36",), ("335", ".00")),
    ("cloglog_5%", 0.05): K(("2.51",), ("2.19",), ("548",)),
    ("logit_0.01%", 0.005): K(("1.05", ".95"), ("1.05", ".96"), ("0.97", ".94"), 400),
    ("logit_0.1%_1e6", 0.005): K(("1.44",), ("1.41", ".94"), ("9.4", ".15"), 60),
    ("logit_0.1%_1e6", 0.01): K(("1.19",), ("1.18",), ("3.63", ".53"), 60),
    ("logit_0.1%_1e6", 0.05): K(("1.00",), ("1.00",), ("0.98", ".95"), 60),
}
# With the intercept known, relative to a fit of all rows that knows it too.
KNOWN_INTERCEPT = {
    ("logit_0.1%", 0.005): K(("1.42",), ("1.37",), ("2.71",), 200, ("1.36",)),
    ("logit_1%", 0.01): K(("2.96",), ("2.49",), ("121",), 200, ("2.44",)),
    ("probit_1%", 0.005): K(("8.48",), ("3.93",), ("590",), 200, ("3.88",)),
    ("logit_0.01%", 0.005): K(("1.03",), ("1.03",), ("1.00",), 200, ("1.03",)),
}
# Four negatives for each positive, 150 replicates: uniform, then non-uniform.
KNOWN_FOUR = {
    "logit_0.5%_normal": {"iw": "3.20", "cmle": "1.91", "a_optimal": "1.11", "l_optimal": "1.15"},
    "cloglog_0.5%_normal": {"iw": "3.74", "cmle": "2.02", "a_optimal": "1.16", "l_optimal": "1.21"},
    "probit_0.5%": {"iw": "2.11", "cmle": "1.64", "a_optimal": "1.10", "l_optimal": "1.23"},
}
FOUR_REPLICATES = 150
BEYOND = ("a_optimal", "l_optimal", "local_case_control")
# Cells without known figures.
ALSO = {"cloglog_0.1%": [0.005, 0.05, 0.2], "cloglog_1%": [0.01, 0.05, 0.2]}
EXPECTED_POSITIVES = 200
JUDGED = ("iw", "cmle")
AUTO = [p for p in GRID if p.prevalence >= 0.001 and p.rows == 200_000]
ENOUGH = [p for p in GRID if p.prevalence * p.rows >= EXPECTED_POSITIVES * 0.97]


def rates(population: Population) -> list[float]:
    """Rates at which a population of the grid is sampled."""
    known = [rate for name, rate in KNOWN if name == population.name]
    return known or ALSO.get(population.name, [])


def fit(data: Data, link: str, **settings: Any) -> dict[str, Any]:
    """Fit, and keep slopes and standard errors."""
    with warnings.catch_warnings():
        # the pseudo-likelihood's bias is what is measured, and few rows are what is asked for
        warnings.simplefilter("ignore", SamplingWarning)
        model = DownsampledGLMClassifier(link, **settings).fit(data.X, data.y)
    width = model.coef_.size
    found = {
        "coef": model.coef_.ravel().tolist(),
        "se": np.asarray(model.standard_errors_)[-width:].tolist(),
    }
    if not model.converged_:
        found["converged"] = False
    if settings.get("sampling_rate") == "auto":
        found["rate"] = float(model.sampling_rate_)
        efficiency = getattr(model, "relative_efficiency_", None)
        found["efficiency"] = None if efficiency is None else np.asarray(efficiency).tolist()
    return found


def grid(population: Population, replicate: int) -> dict[str, Any]:
    """Fit every method at every rate of the grid."""
    data = population.draw(replicate)
    common = {"link": population.link, "random_state": replicate}
    fits = {"full": fit(data, sampling_rate=1.0, **common)}
    for rate in rates(population):
        for method in METHODS:
            settings = {"method": method, "sampling_rate": rate}
            fits[f"{method}@{rate}"] = fit(data, **settings, **common)
        settings = {"sampling": "a_optimal", "sampling_rate": rate}
        fits[f"a_optimal@{rate}"] = fit(data, **settings, **common)
    at = [rate for name, rate in KNOWN_INTERCEPT if name == population.name]
    common["known_intercept"] = population.intercept
    if at:
        fits["full, known"] = fit(data, sampling_rate=1.0, **common)
    for rate in at:
        for method in METHODS[:4]:
            settings = {"method": method, "sampling_rate": rate}
            fits[f"{method}@{rate}, known"] = fit(data, **settings, **common)
    return {"positives": int(data.y.sum()), "fits": fits}


def coverage(population: Population, replicate: int) -> dict[str, Any]:
    """Fit as the grid does, but only what is held to its coverage."""
    data = population.draw(replicate)
    common = {"link": population.link, "random_state": replicate}
    fits = {
        f"{method}@{rate}": fit(data, method=method, sampling_rate=rate, **common)
        for rate in rates(population)
        for method in JUDGED
    }
    return {"positives": int(data.y.sum()), "fits": fits}


def four(population: Population, replicate: int) -> dict[str, Any]:
    """Fit with four negatives for each positive."""
    data = population.draw(replicate)
    rate = 4 * population.prevalence / (1 - population.prevalence)
    common = {"link": population.link, "random_state": replicate}
    fits = {"full": fit(data, sampling_rate=1.0, **common)}
    for method in ("iw", "cmle"):
        fits[method] = fit(data, method=method, sampling_rate=rate, **common)
    for sampling in BEYOND:
        fits[sampling] = fit(data, sampling=sampling, sampling_rate=rate, **common)
        weighted = fit(data, method="iw", sampling=sampling, sampling_rate=rate, **common)
        fits[f"{sampling}, iw"] = weighted
    return {"positives": int(data.y.sum()), "fits": fits}


def auto(population: Population, replicate: int) -> dict[str, Any]:
    """Fit at the automatic rate, apart from what the grid draws."""
    data = population.draw(1_000_000 + replicate)
    common = {"link": population.link, "random_state": replicate}
    fits = {
        "full": fit(data, sampling_rate=1.0, **common),
        "auto": fit(data, sampling_rate="auto", **common),
    }
    return {"positives": int(data.y.sum()), "fits": fits}


PARTS = {
    "grid": (grid, GRID),
    "coverage": (coverage, ENOUGH),
    "four": (four, FOUR),
    "auto": (auto, AUTO),
}


def work(part: str, name: str, rows: int | None, replicate: int) -> dict[str, Any]:
    """Run one replicate, in whatever process."""
    run, populations = PARTS[part]
    population = next(p for p in populations if p.name == name)
    if rows is not None:
        population = population.smaller(rows)
    return {"part": part, "population": name, "replicate": replicate, **run(population, replicate)}


class Coverage:
    """Share of 95 % intervals that hold the true slope, averaged over slopes."""

    def __init__(self, population: Population, records: Sequence[dict[str, Any]], key: str) -> None:
        coef, se = (np.array([r["fits"][key][what] for r in records]) for what in ("coef", "se"))
        inside = (np.abs(coef - population.coef) <= NORMAL_975 * se).mean(axis=1)
        self.share, self.sd = float(inside.mean()), float(inside.std(ddof=1))
        self.error = self.sd / math.sqrt(len(records))


class Cell:
    """Errors of one fit over replicates, beside those of the fit of all rows."""

    def __init__(
        self, population: Population, records: Sequence[dict[str, Any]], key: str, full: str
    ) -> None:
        coef, base = (
            np.array([r["fits"][which]["coef"] for r in records]) for which in (key, full)
        )
        self.replicates = len(records)
        self.failed = sum(r["fits"][key].get("converged") is False for r in records)
        self.squares = (coef - population.coef) ** 2
        self.full_squares = (base - population.coef) ** 2
        own, full_sum = self.squares.sum(axis=1), self.full_squares.sum(axis=1)
        self.ratio, self.ratio_sd = _ratio(own, full_sum)
        inside = Coverage(population, records, key)
        self.coverage, self.coverage_sd = inside.share, inside.sd
        self.apart = coef - base

    @property
    def ratio_error(self) -> float:
        """Standard error of the ratio."""
        return self.ratio_sd / math.sqrt(self.replicates)

    @property
    def coverage_error(self) -> float:
        """Standard error of the coverage."""
        return self.coverage_sd / math.sqrt(self.replicates)

    def against(self, figure: str, replicates: int, what: str) -> float:
        """Distance from a known figure, in standard errors of both and of its rounding."""
        value, sd = (
            (self.ratio, self.ratio_sd) if what == "ratio" else (self.coverage, self.coverage_sd)
        )
        decimals = len(figure.partition(".")[2])
        rounding = 10.0**-decimals / math.sqrt(12)
        error = math.sqrt(sd**2 * (1 / self.replicates + 1 / replicates) + rounding**2)
        return (value - float(figure)) / error


def _ratio(own: np.ndarray, full: np.ndarray) -> tuple[float, float]:
    """Return a ratio of means, and the standard deviation of one replicate's part in it."""
    ratio = own.mean() / full.mean()
    return float(ratio), float((own - ratio * full).std(ddof=1) / full.mean())


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--more", type=int, default=0, help="replicates of those named by --of")
    parser.add_argument("--of", action="append", metavar="PART:POPULATION", default=[])
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--only", action="append", metavar="POPULATION")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--records", type=Path, default=Path("build/glm_simulations.jsonl"))
    parser.add_argument("--rows", type=int, help="at most so many, to try it out")
    parser.add_argument("--out", type=Path, help="write OUT.json and OUT.md")
    options = parser.parse_args()
    print(glm_report.about(), flush=True)
    records = Records(options.records)
    collect(records, options)
    lines: list[Line] = []
    tables, figures = [], {}
    for part, report in REPORTS.items():
        if part in options.parts:
            text, found = report(records, lines, options)
            tables += text
            figures[part] = found
    tables.insert(0, glm_report.targets(lines, judged=options.rows is None))
    print("\n" + "\n\n".join(tables))
    if options.out:
        glm_report.write(options.out, lines, tables, figures)
    return 0


def todo(records: Records, options: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    """List what is left to run, spread evenly so that a stop leaves all parts alike."""
    left = []
    for part in options.parts:
        for population in PARTS[part][1]:
            if options.only and population.name not in options.only:
                continue
            more = f"{part}:{population.name}" in options.of
            wanted = max(options.replicates, options.more if more else 0)
            found = records.matching(part=part, population=population.name)
            done = {r["replicate"] for r in found}
            left += [(part, population.name, r) for r in range(wanted) if r not in done]
    yield from sorted(left, key=lambda one: one[2])


def collect(records: Records, options: argparse.Namespace) -> None:
    """Run the replicates that are missing."""
    left = list(todo(records, options))
    parts, names, replicates = ([one[k] for one in left] for k in range(3))
    rows = [options.rows] * len(left)
    if options.jobs == 1:
        results: Iterator[dict[str, Any]] = map(work, parts, names, rows, replicates)
        _keep(results, records, len(left))
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        _keep(pool.map(work, parts, names, rows, replicates), records, len(left))


def _keep(results: Iterator[dict[str, Any]], records: Records, count: int) -> None:
    for k, result in enumerate(results, 1):
        records.add(result)
        if k % 200 == 0:
            print(f"{k} of {count}", flush=True)


def _of(records: Records, part: str, population: Population, rows: int | None) -> Any:
    found = records.matching(part=part, population=population.name)
    return population if rows is None else population.smaller(rows), found


def report_grid(
    records: Records, lines: list[Line], options: argparse.Namespace
) -> tuple[list[str], Any]:
    """Every cell, and what differs from the known figures."""
    rows, compared, figures = [], [], []
    for each in GRID:
        population, found = _of(records, "grid", each, options.rows)
        if len(found) < 2:
            continue
        positives = round(float(np.mean([r["positives"] for r in found])))
        kinds: list[tuple[float, str]] = [(rate, "") for rate in rates(each)]
        kinds += [(rate, ", known") for name, rate in KNOWN_INTERCEPT if name == each.name]
        for rate, kind in kinds:
            known = (KNOWN_INTERCEPT if kind else KNOWN).get((each.name, rate))
            methods = [*METHODS[:4]] if kind else [*METHODS, "a_optimal"]
            name = f"{each.name} ({positives})" + (", intercept known" if kind else "")
            shown: list[str] = [
                name,
                f"{rate:g}",
                f"{rate * (1 - each.prevalence) / each.prevalence:.2g}",
            ]
            for method in methods:
                cell = Cell(population, found, f"{method}@{rate}{kind}", f"full{kind}")
                text = f"{cell.ratio:.3g} ({cell.coverage:.3f})"
                shown.append(text + (f", {cell.failed} not converged" if cell.failed else ""))
                figures.append(
                    {
                        "population": each.name,
                        "rate": rate,
                        "method": method + kind,
                        "replicates": cell.replicates,
                        "ratio": cell.ratio,
                        "ratio_error": cell.ratio_error,
                        "coverage": cell.coverage,
                        "coverage_error": cell.coverage_error,
                    }
                )
                compared += _compare(name, rate, method, cell, known)
            shown += ["-"] * (9 - len(shown))
            rows.append([*shown, len(found)])
    head = ["population (positives)", "rate", "negatives per positive"]
    head += ["iw", "cmle", "pseudo_mle", "profile", "naive", "a_optimal", "replicates"]
    _judge_grid(lines, compared)
    far = [row for row in compared if abs(row[-1]) > FAR]
    shown_known = [[*row[:-1], f"{row[-1]:+.1f}"] for row in compared]
    tables = [
        glm_report.table(head, rows),
        glm_report.table(
            ["population", "rate", "method", "figure", "ours", "known", "apart"], shown_known
        ),
    ]
    return tables, {"cells": figures, "compared": len(compared), "far": [row[:-1] for row in far]}


def _compare(
    name: str, rate: float, method: str, cell: Cell, known: Known | None
) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    if known is None:
        return rows
    pairs = zip(known.of(method), ("ratio", "coverage"), strict=False)
    for figure, what in pairs:
        value, error = (
            (cell.ratio, cell.ratio_error)
            if what == "ratio"
            else (cell.coverage, cell.coverage_error)
        )
        apart = cell.against(figure, known.replicates, what)
        ours = f"{value:.4g} ± {error:.2g}"
        rows.append((name, f"{rate:g}", method, what, ours, figure, apart))
    return rows


def _judge_grid(lines: list[Line], compared: Sequence[tuple[Any, ...]]) -> None:
    if compared:
        far = [row for row in compared if abs(row[-1]) > FAR]
        text = f"{len(compared) - len(far)} of {len(compared)} within {FAR:g} standard errors"
        chance = len(compared) * 0.0027
        text += f" ({chance:.1f} beyond expected by chance)"
        text += "".join(f"; {r[0]} at {r[1]}, {r[2]} {r[3]}: {r[4]} against {r[5]}" for r in far)
        # the largest of so many normal deviates stays below this but once in a hundred runs
        most = -float(ndtri(0.005 / len(compared)))
        met = all(abs(row[-1]) <= most for row in compared)
        lines.append(Line("grid", f"known figures, none beyond {most:.1f} SE", text, met))


def report_coverage(
    records: Records, lines: list[Line], options: argparse.Namespace
) -> tuple[list[str], Any]:
    """Count how often the 95 % intervals hold the true slope."""
    rows, figures, out = [], [], []
    for each in ENOUGH:
        population, found = _of(records, "coverage", each, options.rows)
        if len(found) < 2:
            continue
        positives = round(float(np.mean([r["positives"] for r in found])))
        for rate in rates(each):
            cells = {m: Coverage(population, found, f"{m}@{rate}") for m in JUDGED}
            texts = {m: f"{c.share:.4f} ± {c.error:.4f}" for m, c in cells.items()}
            rows.append([f"{each.name} ({positives:,})", f"{rate:g}", *texts.values(), len(found)])
            for method, cell in cells.items():
                figures.append((each.name, rate, method, cell.share, cell.error, len(found)))
                if not 0.93 <= cell.share <= 0.97:
                    out.append(f"{each.name} at {rate:g}, {method}: {texts[method]}")
    if figures:
        every = [share for _, _, _, share, _, _ in figures]
        lines.append(
            Line(
                "at least 200 positives",
                "coverage of iw and cmle within [.93, .97]",
                f"{min(every):.3f} to {max(every):.3f} in {len(every)} cells"
                + (f"; outside: {'; '.join(out)}" if out else ""),
                not out,
            )
        )
    head = ["population (positives)", "rate", *JUDGED, "replicates"]
    return [glm_report.table(head, rows)] if rows else [], figures


def report_four(
    records: Records, lines: list[Line], options: argparse.Namespace
) -> tuple[list[str], Any]:
    """Designs beyond the uniform one."""
    rows, figures = [], []
    for each in FOUR:
        population, found = _of(records, "four", each, options.rows)
        if len(found) < 2:
            continue
        for key in found[0]["fits"]:
            if key == "full":
                continue
            cell = Cell(population, found, key, "full")
            figure = KNOWN_FOUR[each.name].get(key)
            apart = None if figure is None else cell.against(figure, FOUR_REPLICATES, "ratio")
            rows.append(
                (
                    each.name,
                    key,
                    f"{cell.ratio:.3g} ± {cell.ratio_error:.2g}",
                    figure or "-",
                    "-" if apart is None else f"{apart:+.1f}",
                    f"{cell.coverage:.3f}",
                    cell.replicates,
                )
            )
            figures.append((each.name, key, cell.ratio, cell.ratio_error, cell.coverage))
        best, plain = (Cell(population, found, key, "full").ratio for key in ("a_optimal", "cmle"))
        target = "a_optimal loses less than the uniform sample"
        lines.append(Line(each.name, target, f"{best:.2f} against {plain:.2f}", best < plain))
    head = ["population", "design", "ours", "known", "apart", "coverage", "replicates"]
    return [glm_report.table(head, rows)], figures


def report_auto(
    records: Records, lines: list[Line], options: argparse.Namespace
) -> tuple[list[str], Any]:
    """Measure the precision that the automatic rate keeps."""
    rows, figures = [], []
    for each in AUTO:
        population, found = _of(records, "auto", each, options.rows)
        if len(found) < 2:
            continue
        cell = Cell(population, found, "auto", "full")
        used = np.array([r["fits"]["auto"]["rate"] for r in found])
        if (used == 1).all():
            rows.append((each.name, "all rows", "-", "1", "1", "1", len(found)))
            continue
        own, full = cell.squares, cell.full_squares
        slopes = range(own.shape[1])
        plain = [_ratio(full[:, j], own[:, j]) for j in slopes]
        # a sample's estimate is the full one plus independent noise, whose variance is less noisy
        split = [_ratio(full[:, j], full[:, j] + cell.apart[:, j] ** 2) for j in slopes]
        worst, better = min(plain), min(split)
        root, low, high = math.sqrt(len(found)), *np.quantile(used, [0.1, 0.9])
        predicted = [
            r["fits"]["auto"]["efficiency"] for r in found if r["fits"]["auto"]["efficiency"]
        ]
        said = np.array(predicted).reshape(len(predicted), -1).min(axis=1).mean()
        rows.append(
            (
                each.name,
                f"{np.median(used):.3f} [{low:.3f}, {high:.3f}]",
                int((used == 1).sum()),
                f"{said:.3f}",
                f"{worst[0]:.3f} ± {worst[1] / root:.3f}",
                f"{better[0]:.3f} ± {better[1] / root:.3f}",
                len(found),
            )
        )
        figures.append((each.name, float(np.median(used)), worst[0], better[0], len(found)))
        print(*rows[-1], sep="  ")
        lines.append(
            Line(
                f"{each.name}, auto",
                "worst slope keeps .92 to .98 of its precision",
                f"{better[0]:.3f} ± {better[1] / root:.3f} (directly {worst[0]:.3f} ± "
                f"{worst[1] / root:.3f})",
                0.92 <= better[0] <= 0.98,
            )
        )
    head = ["population", "rate: median [10 %, 90 %]", "all rows used", "by its own account"]
    head += ["worst slope", "same, as full plus noise", "replicates"]
    return [glm_report.table(head, rows)], figures


REPORTS = {
    "grid": report_grid,
    "coverage": report_coverage,
    "four": report_four,
    "auto": report_auto,
}

if __name__ == "__main__":
    sys.exit(main())
