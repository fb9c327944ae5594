"""`imbfit demo`: the whole way on simulated card transactions."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from imbfit.cli.messages import DONE, BadInput
from imbfit.cli.printing import (
    amount_text,
    print_columns,
    share_text,
    tell_constraints,
    tell_objective,
    tell_thresholds,
)
from imbfit.cli.results import display_of, make_folder, save_figure
from imbfit.confusion import Confusion
from imbfit.datasets import make_rare_events
from imbfit.displays import ThresholdDisplay
from imbfit.metrics import capacity, each_segment, fn, pp, precision, recall
from imbfit.threshold.classifier import OTLPThresholdClassifier

_REVIEW = 5
_DAYS, _HELD_OUT_DAYS = 90, 30
_PER_DAY, _FLOOR = 15, 0.25


def demo(arguments: argparse.Namespace) -> int:
    """Run `imbfit demo`."""
    from sklearn.linear_model import LogisticRegression

    if arguments.seed < 0:
        raise BadInput(f"--seed {arguments.seed}: give a whole number of at least 0")
    folder = make_folder(arguments.out)
    started = time.monotonic()
    cards = make_rare_events(60_000, n_days=_DAYS, random_state=arguments.seed, as_frame=True)
    frame = cards.frame.assign(fraud=cards.y)
    last = frame["date"].drop_duplicates().iloc[-_HELD_OUT_DAYS]
    past, later = frame[frame["date"] < last], frame[frame["date"] >= last]
    print(
        f"Simulated card transactions: {len(frame):,} over {_DAYS} days, of which "
        f"{int(frame['fraud'].sum()):,} are fraud ({frame['fraud'].mean():.1%}),\n"
        f"in the segments {', '.join(cards.segment_names)}.\n"
        f"The first {_DAYS - _HELD_OUT_DAYS} days train a logistic regression and choose the "
        f"thresholds; the last {_HELD_OUT_DAYS} days only judge.\n"
    )
    loss = (_REVIEW * pp + fn["amount"]).named("money lost", greater_is_better=False)
    model = OTLPThresholdClassifier(
        LogisticRegression(),
        objective=loss,
        constraints=[capacity(_PER_DAY, per="date"), each_segment(precision >= _FLOOR)],
        segments="segment",
        amounts={"amount": "amount"},
        estimator_columns=cards.feature_names,
        random_state=arguments.seed,
    ).fit(past, past["fraud"])
    print(
        f"Wanted: lose as little money as possible. A review costs {_REVIEW}, a missed fraud its "
        f"amount.\n"
        f"Rules:  at most {_PER_DAY} reviews on any day; in each segment at least "
        f"{_FLOOR:.0%} of the reviewed are fraud."
    )
    tell_thresholds(model.search_, ["segment"])
    tell_objective(model.search_, time.monotonic() - started, compare=False)
    tell_constraints(model.search_)

    score = model.predict_proba(later)[:, 1]
    print(f"\nThe last {_HELD_OUT_DAYS} days, {len(later):,} transactions that nobody had seen")
    _tell_before_and_after(
        later, {"threshold 0.5": score >= 0.5, "chosen": model.predict(later) == 1}
    )

    extra = ["precision", "recall"]
    most = sorted(model.thresholds_, key=lambda s: -float(model.search_.segment_counts[s].pp))
    search = display_of(model.search_, extra)
    held_out = ThresholdDisplay.tables_of(model, later, later["fraud"])
    paths = [folder / name for name in ("curves.png", "held_out.png", "surface.png", "cases.csv")]
    save_figure(search, paths[0])
    save_figure(display_of(model.search_, extra, tables=held_out), paths[1])
    save_figure(search, paths[2], show=most[:2], surface=True)
    later[["date", "segment", "amount", "fraud"]].assign(score=score).to_csv(paths[3], index=False)
    print(
        f"\nWritten to {folder}:\n"
        f"  curves.png    money lost, precision and recall over each segment's threshold\n"
        f"  held_out.png  the same on the last {_HELD_OUT_DAYS} days\n"
        f"  surface.png   money lost over the thresholds of two segments\n"
        f"  cases.csv     the last {_HELD_OUT_DAYS} days with scores. Try on it, or on a file of "
        f"your own:\n\n"
        f"imbfit tune {paths[3]} --label fraud --score score --segment segment \\\n"
        f'    --minimize "{_REVIEW}*pp + fn[amount]" \\\n'
        f"    --subject-to 'capacity({_PER_DAY}, per=\"date\")' \\\n"
        f'    --subject-to "precision >= {_FLOOR} in each segment"'
    )
    return DONE


def _tell_before_and_after(later: Any, rules: Mapping[str, np.ndarray]) -> None:
    fraud, amount = later["fraud"].to_numpy() == 1, later["amount"].to_numpy()
    lines = []
    for name, flagged in rules.items():
        counts = Confusion.from_flags(fraud, flagged)
        per_segment = later.assign(hit=fraud)[flagged].groupby("segment")["hit"].mean()
        lines.append(
            [
                name,
                amount_text(float(counts.pp)),
                amount_text(float(counts.tp)),
                amount_text(float(counts.fp)),
                amount_text(float(counts.fn)),
                share_text(counts, precision, float(counts.pp)),
                share_text(counts, recall, float(counts.ap)),
                f"{_REVIEW * flagged.sum() + amount[fraud & ~flagged].sum():,.0f}",
                str(later["date"][flagged].value_counts().max() if flagged.any() else 0),
                f"{per_segment.min():.3f}" if len(per_segment) else "-",
            ]
        )
    print_columns(
        ["rule", "reviews", "fraud found", "false alarms", "fraud missed", "precision", "recall",
         "money lost", "busiest day", "lowest precision"],
        lines,
        left=1,
    )  # fmt: skip
    before, after = (float(line[7].replace(",", "")) for line in lines)
    change = (before - after) / before
    print(
        f"  The chosen thresholds lose {abs(change):.0%} {'less' if change >= 0 else 'more'} money "
        "than the threshold 0.5. The rules were made to hold\n"
        "  on the earlier days; on later ones they hold about as well as the days are alike."
    )
