"""From records of single fits to means, paired differences and wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t

from benchmarks.adversarial_methods import FLOORED, METRICS
from benchmarks.glm_report import Line, table

FLOOR = 0.8
GOAL = 10
BASE = "logistic, tuned"


@dataclass(frozen=True)
class Contender:
    """A way to predict: what it may choose from, and which cut.

    Attributes
    ----------
    name : str
        For the report.
    methods : callable
        From a metric's name to names of methods; the out-of-fold metric chooses among their fits.
    cut : {"raw", "levelled", "spread", "best", "own"}
        On which scores it is chosen out of fold; "best" is the best of these out of fold, as
        AdversarialMetricClassifier does it, and "own" the sign of the scores.
    """

    name: str
    methods: Callable[[str], tuple[str, ...]]
    cut: str = "raw"


def _trained_for(kind: str) -> Callable[[str], tuple[str, ...]]:
    return lambda metric: (f"{kind} {'F1' if metric == FLOORED else metric}",)


def _joined(*kinds: Callable[[str], tuple[str, ...]]) -> Callable[[str], tuple[str, ...]]:
    return lambda metric: tuple(name for kind in kinds for name in kind(metric))


def _named(name: str) -> Callable[[str], tuple[str, ...]]:
    return lambda _: (name,)


ALIGNED = ("raw", "levelled", "spread")
OBSERVED, ANCHORED = _trained_for("observed"), _named("anchored F1")
CONTENDERS = [
    Contender(BASE, _named("logistic")),
    Contender("logistic, best of the alignments", _named("logistic"), "best"),
    Contender("balanced at 0.5", _named("balanced"), "own"),
    Contender("balanced, tuned", _named("balanced")),
    Contender("observed", OBSERVED, "best"),
    Contender("anchored", ANCHORED, "best"),
    Contender("observed or anchored", _joined(OBSERVED, ANCHORED), "best"),
    Contender("logistic or observed", _joined(_named("logistic"), OBSERVED), "best"),
    Contender("any of the three", _joined(_named("logistic"), OBSERVED, ANCHORED), "best"),
    Contender("observed, trained for F1", _named("observed F1"), "best"),
    Contender("observed, scores as they are", OBSERVED),
    Contender("observed, levelled", OBSERVED, "levelled"),
    Contender("observed, levelled and scaled", OBSERVED, "spread"),
    Contender("anchored for F2", _named("anchored F2"), "best"),
    Contender("bins, anchored", _named("bins, anchored F1"), "best"),
    Contender("bins, observed F2", _named("bins, observed F2"), "best"),
    Contender("constraint in the game", _named("observed precision under recall >= .8"), "best"),
    Contender("expected, tuned", _trained_for("expected"), "best"),
    Contender("expected, sign", _trained_for("expected"), "own"),
    Contender("observed, one ridge and fold", _trained_for("plain observed"), "best"),
    Contender("ap-perf, tuned", lambda metric: (f"ap-perf {metric}",)),
    Contender("ap-perf, sign", lambda metric: (f"ap-perf {metric}",), "own"),
]
PEERS = ("ap-perf, tuned", "ap-perf, sign")
JUDGED = (
    "observed",
    "anchored",
    "observed or anchored",
    "logistic or observed",
    "any of the three",
)


def outcomes(
    records: Sequence[dict[str, Any]], contender: Contender, metric: str, name: str
) -> dict[int, dict[str, Any]]:
    """Return, for each split of a set, what the fit chosen out of fold does on the test rows."""
    wanted = set(contender.methods(metric))
    fits: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for r in records:
        if r["set"] == name and r["method"] in wanted:
            for fit in r["fits"]:
                judged = fit["metrics"].get(metric, {})
                cuts = ALIGNED if contender.cut == "best" else (contender.cut,)
                for one in (judged[cut] for cut in cuts if cut in judged):
                    here = fits.setdefault(r["split"], {}).setdefault(r["method"], [])
                    here.append(one | {"C": fit["C"], "ap": fit["ap"], "method": r["method"]})
    return {
        split: max((one for each in found.values() for one in each), key=_merit(metric))
        for split, found in sorted(fits.items())
        if set(found) == wanted
    }


def _merit(metric: str) -> Callable[[dict[str, Any]], tuple[float, float]]:
    if metric != FLOORED:
        return lambda one: (one["out_of_fold"], 0.0)
    # a cut that nothing was tuned for may miss the floor: come as near as possible
    return lambda one: (min(one["out_of_fold_recall"], FLOOR), one["out_of_fold"])


@dataclass(frozen=True)
class Difference:
    """Paired difference to the base over splits.

    Attributes
    ----------
    mean, error : float
        And its standard error as if splits were independent.
    low, high : float
        95 % interval that allows for the rows that splits share.
    """

    mean: float
    error: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Tell a win, a tie (within one standard error) or a loss."""
        if abs(self.mean) <= self.error:
            return "tie"
        return "win" if self.mean > 0 else "loss"


def difference(own: dict[int, Any], base: dict[int, Any]) -> Difference | None:
    """Compare the splits that both have."""
    shared = sorted(set(own) & set(base))
    if len(shared) < 2:
        return None
    apart = np.array([own[s]["test"] - base[s]["test"] for s in shared])
    mean, spread = float(apart.mean()), float(apart.std(ddof=1))
    # Nadeau and Bengio: as many rows are held out as trained on
    wide = spread * np.sqrt(1 / len(apart) + 1.0) * float(t.ppf(0.975, len(apart) - 1))
    return Difference(mean, spread / np.sqrt(len(apart)), mean - wide, mean + wide)


def texts_of(records: Sequence[dict[str, Any]], names: Sequence[str]) -> list[str]:
    """Return tables as markdown."""
    texts = []
    for metric in METRICS:
        found = {
            contender.name: {name: outcomes(records, contender, metric, name) for name in names}
            for contender in CONTENDERS
        }
        found = {k: v for k, v in found.items() if any(v.values())}
        if BASE not in found:
            continue
        texts.append(f"{metric} on test rows, mean over splits\n\n{_means(found, names)}")
        texts.append(
            f"{metric}: paired difference to {BASE}, with its standard error over splits\n\n"
            f"{_differences(found, names)}"
        )
        texts.append(f"{metric}: sets won, tied and lost\n\n{_verdicts(found, names, BASE)}")
        texts += [
            f"{metric}: sets won, tied and lost against {peer}\n\n{_verdicts(found, names, peer)}"
            for peer in PEERS
            if peer in found
        ]
        if metric == FLOORED:
            texts.append(
                f"recall on test rows, and the share of splits with at least {FLOOR:g}\n\n"
                f"{_recalls(found, names)}"
            )
    texts.append(f"average precision of the chosen fit, F1\n\n{_precisions(records, names)}")
    texts.append(f"seconds of a split, all ridges and folds\n\n{_seconds(records, names)}")
    return texts


Found = dict[str, dict[str, dict[int, dict[str, Any]]]]


def _means(found: Found, names: Sequence[str]) -> str:
    rows = []
    for name in names:
        row = [name, str(len(found[BASE][name]))]
        for each in found.values():
            values = [one["test"] for one in each[name].values()]
            row.append(f"{np.mean(values):.3f}" if values else "-")
        rows.append(row)
    return table(["set", "splits", *found], rows)


def _differences(found: Found, names: Sequence[str]) -> str:
    rows = []
    others = [name for name in found if name != BASE]
    for name in names:
        row = [name]
        for other in others:
            apart = difference(found[other][name], found[BASE][name])
            text = "-"
            if apart is not None:
                text = f"{apart.mean:+.3f} ± {apart.error:.3f}"
                text = f"**{text}**" if apart.verdict == "loss" else text
            row.append(text)
        rows.append(row)
    return table(["set", *others], rows)


def _verdicts(found: Found, names: Sequence[str], base: str) -> str:
    rows = []
    for other in found:
        if other == base:
            continue
        every = [difference(found[other][name], found[base][name]) for name in names]
        judged = [apart for apart in every if apart is not None]
        if not judged:
            continue
        counts = [sum(a.verdict == v for a in judged) for v in ("win", "tie", "loss")]
        clear = [sum(a.low > 0 for a in judged), sum(a.high < 0 for a in judged)]
        mean = float(np.mean([a.mean for a in judged]))
        rows.append([other, len(judged), *counts, *clear, f"{mean:+.4f}"])
    head = ["method", "sets", "won", "tied", "lost", "interval above 0", "below 0"]
    return table([*head, "mean difference"], rows)


def _recalls(found: Found, names: Sequence[str]) -> str:
    rows = []
    for name in names:
        row = [name]
        for each in found.values():
            recalls = np.array([one["test_recall"] for one in each[name].values()])
            held = f"{recalls.mean():.3f} / {np.mean(recalls >= FLOOR):.2f}" if len(recalls) else ""
            row.append(held or "-")
        rows.append(row)
    return table(["set", *found], rows)


def _precisions(records: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    shown = [c for c in CONTENDERS if c.name in {BASE, "observed", "anchored", "expected, tuned"}]
    rows = []
    for name in names:
        row = [name]
        for contender in shown:
            values = [one["ap"] for one in outcomes(records, contender, "F1", name).values()]
            row.append(f"{np.mean(values):.3f}" if values else "-")
        rows.append(row)
    return table(["set", *[c.name for c in shown]], rows)


def _seconds(records: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    methods = list(dict.fromkeys(r["method"] for r in records))
    rows = []
    for name in names:
        row = [name]
        for method in methods:
            values = [r["seconds"] for r in records if r["set"] == name and r["method"] == method]
            row.append(f"{np.mean(values):.1f}" if values else "-")
        rows.append(row)
    return table(["set", *methods], rows)


def targets_of(records: Sequence[dict[str, Any]], names: Sequence[str]) -> list[Line]:
    """Hold wins and ties against the goal."""
    lines = []
    for metric in METRICS:
        base = {name: outcomes(records, CONTENDERS[0], metric, name) for name in names}
        for contender in CONTENDERS:
            if contender.name not in JUDGED:
                continue
            every = {
                name: difference(outcomes(records, contender, metric, name), base[name])
                for name in names
            }
            judged = {name: a.verdict for name, a in every.items() if a is not None}
            if not judged:
                continue
            good = sum(v != "loss" for v in judged.values())
            lost = [name for name, v in judged.items() if v == "loss"]
            told = f"{good} of {len(judged)}" + (f", not on {', '.join(lost)}" if lost else "")
            wanted = f"wins or ties with {BASE} on at least {GOAL} of 14 sets, {contender.name}"
            lines.append(Line(metric, wanted, told, good >= GOAL))
    return lines
