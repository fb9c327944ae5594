"""ThresholdDisplay: what is drawn is what the rows say, and it can be read."""

import builtins
import itertools
import math

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from imbfit import SearchWarning, search_table, search_thresholds
from imbfit.confusion import Confusion
from imbfit.datasets import make_rare_events
from imbfit.displays import ThresholdDisplay
from imbfit.metrics import as_rules, cost, f1, parse, precision, recall
from imbfit.reading import margin, value
from imbfit.threshold.region import plain

mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


def scored(seed, rows=60, segments=3):
    rng = np.random.default_rng(seed)
    y = rng.random(rows) < 0.35
    y[:2] = True, False
    return {
        "y": y,
        "score": np.round(rng.normal(y * 0.8, 1.0), 1),
        "segment": rng.integers(segments, size=rows),
        "weight": rng.integers(1, 4, size=rows).astype(float),
        "amount": np.round(rng.lognormal(1, 1, size=rows), 2),
        "day": rng.integers(5, size=rows),
    }


def counted(rows, thresholds, where=None):
    """Counts of the rows under thresholds, whole or of one segment."""
    cut = np.array([thresholds[s] for s in rows["segment"]])
    keep = np.ones(len(cut), bool) if where is None else rows["segment"] == where
    return Confusion.from_flags(
        rows["y"][keep],
        (rows["score"] >= cut)[keep],
        weight=rows["weight"][keep],
        columns={"amount": rows["amount"][keep]},
    )


def meets(rows, thresholds, rules, moved):
    """Whether the rows meet the constraints that bear on the moved segments, row by row."""
    cut = np.array([thresholds[s] for s in rows["segment"]])
    flagged = rows["score"] >= cut
    segments = np.unique(rows["segment"])
    for rule in as_rules(rules):
        kind = getattr(rule, "kind", "whole")
        if kind == "capacity" and isinstance(rule.key, str):
            used = np.bincount(rows["day"], rows["weight"] * flagged)
            if used.max() > rule.constraint.right.value:
                return False
            continue
        if kind == "max_gap":
            values = []
            for s in segments:
                own = counted(rows, thresholds, s)
                if own.ap > 0:
                    values.append(float(value(rule.bound.left, own, greater_is_better=True)))
            if values and max(values) - min(values) > rule.bound.right.value + 1e-12:
                return False
            continue
        parts = [None] if kind in ("whole", "capacity") else moved
        for part in parts:
            slack, empty = margin(plain(rule), counted(rows, thresholds, part))
            if not (slack >= -1e-12 or empty):
                return False
    return True


RULES = [
    "precision >= 0.4 in each segment",
    "recall >= 0.3",
    'capacity(9, per="day")',
    "max_gap(recall) <= 0.4",
]


def drawn(seed, rules, objective="5*fp + fn[amount]", *, segments=3):
    rows = scored(seed, segments=segments)
    thresholds = dict.fromkeys(range(segments), 0.65) | {0: 0.25}
    display = ThresholdDisplay.from_predictions(
        rows["y"],
        rows["score"],
        objective=objective,
        greater_is_better=None if objective == "f1" else False,
        constraints=rules,
        segments=rows["segment"],
        amounts={"amount": rows["amount"]},
        per={"day": rows["day"]},
        sample_weight=rows["weight"],
        thresholds=thresholds,
        expressions=["precision", "recall"],
        view="all",
        scale="linear",
    )
    return rows, thresholds, display


def read_off(line, threshold):
    """Height of a curve of steps at a threshold; its points come by falling threshold."""
    x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    assert line.get_drawstyle() == "steps-post"
    assert (np.diff(x) <= 0).all()
    return y[np.flatnonzero(x >= threshold)[-1]]


@pytest.mark.parametrize("seed", range(6))
def test_curves_are_what_counting_rows_gives_at_any_threshold(seed):
    rows, thresholds, display = drawn(seed, RULES[:2])
    name = '5 * fp + fn["amount"]'
    for place, segment in enumerate(range(3)):
        lines = display.lines_[place]
        assert list(lines) == [name, "precision", "recall"]
        scores = np.unique(rows["score"][rows["segment"] == segment])
        between = np.concatenate([scores, (scores[1:] + scores[:-1]) / 2, [scores[-1] + 1e-3]])
        for threshold in between:
            moved = thresholds | {segment: threshold}
            whole = counted(rows, moved)
            expected = float(5 * whole.fp + whole.columns["amount"].fn)
            assert read_off(lines[name], threshold) == pytest.approx(expected)
            own = counted(rows, moved, segment)
            assert read_off(lines["recall"], threshold) == pytest.approx(float(own.tp / own.ap))
            if own.pp > 0:
                expected = float(own.tp / own.pp)
                assert read_off(lines["precision"], threshold) == pytest.approx(expected)
            else:
                assert np.isnan(read_off(lines["precision"], threshold))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rules", [RULES[:1], RULES[1:2], RULES[2:3], RULES[3:], RULES])
def test_shaded_thresholds_are_those_that_meet_all_constraints(seed, rules):
    rows, thresholds, display = drawn(seed, rules)
    for place, segment in enumerate(range(3)):
        region = display.feasible_[place]
        spans = [] if region is None else [path.get_extents() for path in region.get_paths()]
        scores = np.unique(rows["score"][rows["segment"] == segment])
        between = np.concatenate([(scores[1:] + scores[:-1]) / 2, [scores[-1] + 1e-3]])
        for threshold in between:
            expected = meets(rows, thresholds | {segment: threshold}, rules, [segment])
            assert any(s.x0 <= threshold <= s.x1 for s in spans) == expected


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("rules", "objective"), [(RULES[:3], "f1"), (RULES, "cost(fp=1, fn=3)")])
def test_surface_is_what_counting_rows_gives(seed, rules, objective):
    rows, thresholds, display = drawn(seed, rules, objective)
    held = display._held
    goal = parse(objective)
    picks = [np.arange(len(display.tables.counts(g).tp)) for g in (0, 2)]
    values, allowed = held.surface([0, 2], picks)
    cuts = [np.append(display.tables.above[display.tables.own(g)], -np.inf) for g in (0, 2)]
    for i, j in itertools.product(*(range(0, len(pick), 3) for pick in picks)):
        moved = thresholds | {0: cuts[0][i], 2: cuts[1][j]}
        expected = value(goal, counted(rows, moved), greater_is_better=display.greater_is_better)
        assert values[i, j] == pytest.approx(float(expected))
        assert allowed[i, j] == meets(rows, moved, rules, [0, 2])


def test_chosen_point_lies_on_the_objective_and_is_the_best_of_the_region():
    rows = scored(3, rows=200)
    found = search_thresholds(
        rows["y"], rows["score"], constraints="recall >= 0.5", segments=rows["segment"]
    )
    display = ThresholdDisplay.from_search(found)
    for place, (segment, threshold) in enumerate(found.thresholds.items()):
        (x,), (y,) = display.chosen_[place].get_data()
        assert x == pytest.approx(threshold), segment
        assert y == pytest.approx(found.objective_value)
        allowed = display._held.feasible(place)
        assert display._held.objective(place)[allowed].max() == pytest.approx(y)
    assert display.objective_value == pytest.approx(found.objective_value)


def test_artists_are_kept():
    rows = scored(1)
    display = ThresholdDisplay.from_predictions(
        rows["y"], rows["score"], constraints="recall >= 0.5", expressions=["precision"]
    )
    assert display.ax_ is display.axes_[0]
    assert display.figure_ is display.ax_.figure
    assert [list(lines) for lines in display.lines_] == [["f1", "precision"]]
    assert len(display.chosen_) == len(display.feasible_) == 1
    told = [text.get_text() for text in display.legend_.get_texts()]
    assert told == ["f1", "precision", "constraints met", "chosen"]
    assert display.ax_.get_xlabel() == "threshold on the score"
    display.plot_surface  # noqa: B018  only there for two segments
    with pytest.raises(ValueError, match="there is 1; name two"):
        display.plot_surface()


def test_money_and_shares_have_an_axis_each():
    rows = scored(1)
    display = ThresholdDisplay.from_predictions(
        rows["y"],
        rows["score"],
        objective="fn[amount]",
        greater_is_better=False,
        amounts={"amount": rows["amount"]},
        expressions=[precision, recall],
    )
    lines = display.lines_[0]
    assert lines['fn["amount"]'].axes is display.ax_
    assert lines["recall"].axes is lines["precision"].axes is not display.ax_
    assert display.ax_.get_ylabel() == 'fn["amount"]'
    assert lines["recall"].axes.get_ylabel() == "precision, recall"
    low, high = lines["recall"].axes.get_ylim()
    assert low <= 0
    assert high >= 1
    assert display.feasible_ == [None]  # without constraints there is nothing to tell apart


def test_amounts_of_expressions_may_be_others_than_those_of_the_objective():
    rows = scored(1)
    display = ThresholdDisplay.from_predictions(
        rows["y"], rows["score"], expressions=["fn[amount]"], amounts={"amount": rows["amount"]}
    )
    assert list(display.lines_[0]) == ["f1", 'fn["amount"]']


@pytest.mark.parametrize(
    ("objective", "threshold", "told"),
    [
        (cost(fp=10, fn=1), math.inf, "nobody is flagged"),
        (cost(fp=1, fn=10), -math.inf, "everybody is flagged"),
    ],
)
def test_nobody_and_everybody_have_a_place_beside_the_scores(objective, threshold, told):
    y = [1, 1, 0, 0] if threshold > 0 else [1, 1, 0, 1]
    display = ThresholdDisplay.from_predictions(y, [0.1, 0.2, 0.3, 0.4], objective=objective)
    assert display.thresholds == {None: threshold}
    ((x,), _) = display.chosen_[0].get_data()
    low, high = display.ax_.get_xlim()
    assert low <= x <= high
    assert x > 0.4 if threshold > 0 else x < 0.1
    assert told in display.ax_.get_title(loc="left")


@pytest.mark.parametrize("x", ["threshold", "flagged"])
@pytest.mark.parametrize("view", ["near", "all"])
@pytest.mark.parametrize(
    "score",
    [
        np.full(30, 0.3),
        np.linspace(-3, 5, 30),
        np.linspace(0, 1, 30),
        np.geomspace(1e-9, 1e-3, 30),
        1 - np.geomspace(1e-9, 0.5, 30),
        np.linspace(1e6, 3e9, 30),
    ],
)
def test_any_scores_give_finite_limits(x, view, score):
    y = np.arange(30) % 3 == 0
    display = ThresholdDisplay.from_predictions(
        y, score, expressions=["precision"], constraints="precision >= 0.2", x=x, view=view
    )
    low, high = display.ax_.get_xlim()
    assert np.isfinite([low, high]).all()
    assert low < high
    ((place,), (height,)) = display.chosen_[0].get_data()
    assert low <= place <= high
    assert np.isfinite(height)
    display.figure_.canvas.draw()


def test_scores_near_zero_get_a_logarithmic_axis_unless_told_otherwise():
    cards = make_rare_events(5000, random_state=0)
    odds = {"y_true": cards.y, "y_score": cards.probability**2}
    assert ThresholdDisplay.from_predictions(**odds).ax_.get_xscale() == "log"
    assert ThresholdDisplay.from_predictions(**odds, scale="linear").ax_.get_xscale() == "linear"
    with pytest.raises(ValueError, match=r"scale='log' takes positive scores.*scale='linear'"):
        ThresholdDisplay.from_predictions([0, 1], [-1, 1], scale="log")
    with pytest.raises(ValueError, match="scale='logit' takes scores between 0 and 1"):
        ThresholdDisplay.from_predictions([0, 1], [0.5, 2], scale="logit")


def test_large_tables_are_thinned_and_keep_their_extremes():
    rng = np.random.default_rng(0)
    y = rng.random(200_000) < 0.01
    score = rng.normal(y * 2.0)
    display = ThresholdDisplay.from_predictions(
        y, score, objective="mcc", constraints="precision >= 0.05", view="all"
    )
    line = display.lines_[0]["mcc"]
    assert len(line.get_xdata()) < 5000
    full = display._held.objective(0)
    assert line.get_ydata().max() == full.max()
    assert line.get_ydata().min() == full.min()
    assert len(display.feasible_[0].get_paths()) < 3000


def test_near_view_shows_the_choice_and_leaves_out_most_negatives():
    cards = make_rare_events(20_000, random_state=0)
    near = ThresholdDisplay.from_predictions(cards.y, cards.probability, x="flagged")
    everything = ThresholdDisplay.from_predictions(
        cards.y, cards.probability, x="flagged", view="all"
    )
    assert near.ax_.get_xlim()[1] < 2000
    assert everything.ax_.get_xlim()[1] >= 20_000


def test_each_segment_gets_a_panel_up_to_a_limit():
    rows = scored(0, rows=400, segments=20)
    found = search_thresholds(rows["y"], rows["score"], segments=rows["segment"])
    with pytest.raises(ValueError, match=r"20 segments to draw, and 12 panels.*show=\[0, 1\]"):
        ThresholdDisplay.from_search(found)
    assert len(ThresholdDisplay.from_search(found, max_panels=20).axes_) == 20
    few = ThresholdDisplay.from_search(found, show=[3, 7])
    assert [ax.get_title(loc="left").split(":")[0] for ax in few.axes_] == ["3", "7"]
    assert len(ThresholdDisplay.from_search(found, show=3).axes_) == 1
    with pytest.raises(ValueError, match=r"show names the segment 'x', which is none of 0, 1"):
        ThresholdDisplay.from_search(found, show="x")
    with pytest.raises(ValueError, match="show is empty"):
        ThresholdDisplay.from_search(found, show=[])


def test_segments_of_several_columns():
    rows = scored(0, rows=200, segments=2)
    pairs = np.column_stack([rows["segment"], rows["day"] % 2])
    found = search_thresholds(rows["y"], rows["score"], segments=pairs)
    display = ThresholdDisplay.from_search(found, show=(0, 1))
    assert display.ax_.get_title(loc="left").startswith("0, 1: ")


def test_panels_divide_the_place_of_an_axes():
    rows = scored(0, rows=100)
    _, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    one = ThresholdDisplay.from_predictions(rows["y"], rows["score"], ax=left)
    assert one.ax_ is left
    three = ThresholdDisplay.from_predictions(
        rows["y"], rows["score"], segments=rows["segment"], ax=right
    )
    assert len(three.axes_) == 3
    box = right.get_position()
    for ax in three.axes_:
        assert box.x0 <= ax.get_position().x0
        assert ax.get_position().x1 <= box.x1 + 1e-9
    free = plt.figure().add_axes((0, 0, 1, 1))
    with pytest.raises(ValueError, match=r"this Axes is none; make it by plt\.subplots"):
        ThresholdDisplay.from_predictions(
            rows["y"], rows["score"], segments=rows["segment"], ax=free
        )


def test_surface_of_two_segments():
    rows = scored(2, rows=300, segments=2)
    found = search_thresholds(
        rows["y"],
        rows["score"],
        constraints=["precision >= 0.5 in each segment", "capacity(80)"],
        segments=rows["segment"],
    )
    display = ThresholdDisplay.from_search(found).plot_surface()
    (x,), (y,) = display.chosen_[0].get_data()
    assert [x, y] == pytest.approx(list(found.thresholds.values()))
    values = np.asarray(display.surface_.get_array())
    assert values.max() >= found.objective_value - 1e-12
    assert display.colorbar_.ax.get_ylabel() == "f1 (greater is better)"
    told = [text.get_text() for text in display.legend_.get_texts()]
    assert told == ["chosen", "a constraint is missed"]
    display.plot_surface(x="flagged").figure_.canvas.draw()


def test_surface_needs_two_of_several_segments():
    rows = scored(2, rows=300)
    found = search_thresholds(rows["y"], rows["score"], segments=rows["segment"])
    display = ThresholdDisplay.from_search(found)
    with pytest.raises(ValueError, match=r"there are 3; name two of 0, 1, 2 by show="):
        display.plot_surface()
    with pytest.raises(ValueError, match="name two"):
        display.plot_surface(show=[1, 1])
    assert display.plot_surface(show=[2, 0]).ax_.get_xlabel() == "threshold in 2"


def test_surface_with_many_candidates_has_the_choice_among_its_cells():
    cards = make_rare_events(20_000, n_segments=2, random_state=0)
    found = search_thresholds(cards.y, cards.probability, segments=cards.segment)
    display = ThresholdDisplay.from_search(found).plot_surface()
    values = np.asarray(display.surface_.get_array())
    assert max(values.shape) <= 200
    assert values.max() == pytest.approx(found.objective_value)


def test_ready_tables_are_points_of_a_grid():
    table = {
        "threshold": [0.05, 0.1, 0.35],
        "tp": [48, 45, 40],
        "fp": [15, 10, 5],
        "fn": [2, 5, 10],
        "tn": [85, 90, 95],
    }
    display = ThresholdDisplay.from_search(search_table(table, constraints="pp <= 50"))
    line = display.lines_[0]["f1"]
    assert set(table["threshold"]) <= set(line.get_xdata())
    assert line.get_drawstyle() == "default"


def test_vectorised_functions_can_be_drawn():
    rows = scored(1)

    def hits(tp, fp, fn, tn):  # noqa: ARG001  the signature is fixed
        return tp - 0.5 * fp

    display = ThresholdDisplay.from_predictions(
        rows["y"], rows["score"], objective=hits, greater_is_better=True
    )
    assert list(display.lines_[0]) == ["hits"]
    best = max(display._held.objective(0))
    assert display.objective_value == best


def test_a_choice_that_misses_a_constraint_says_so():
    rows = scored(1)
    with pytest.warns(SearchWarning):
        display = ThresholdDisplay.from_predictions(
            rows["y"],
            rows["score"],
            constraints=["precision >= 0.99", "recall >= 0.99"],
            infeasible="least_violation",
        )
    assert "a constraint is missed" in display.ax_.get_title(loc="left")
    assert display.feasible_ == [None]


def frauds():
    cards = make_rare_events(6000, prevalence=0.05, n_segments=2, random_state=0, as_frame=True)
    return cards, cards.frame


def test_from_estimator_on_its_own_rows_is_its_search():
    from imbfit.threshold.classifier import OTLPThresholdClassifier

    cards, frame = frauds()
    inner = LogisticRegression().fit(cards.X, cards.y)
    model = OTLPThresholdClassifier(
        FrozenEstimator(inner),
        objective="5*fp + fn[amount]",
        greater_is_better=False,
        constraints=['capacity(20, per="date")', "precision >= 0.3 in each segment"],
        segments="segment",
        amounts={"amount": "amount"},
        estimator_columns=cards.feature_names,
    ).fit(frame, cards.y)
    mine = ThresholdDisplay.from_search(model.search_, expressions=["recall"])
    other = ThresholdDisplay.from_estimator(model, frame, cards.y, expressions=["recall"])
    assert other.objective_value == pytest.approx(model.objective_value_)
    for one, two in zip(mine.lines_, other.lines_, strict=True):
        assert one.keys() == two.keys()
        for name in one:
            np.testing.assert_allclose(one[name].get_ydata(), two[name].get_ydata())
    for g in range(2):
        assert (mine._held.feasible(g) == other._held.feasible(g)).all()
    half = ThresholdDisplay.from_estimator(model, frame.iloc[:2000], cards.y.iloc[:2000])
    flagged = model.predict(frame.iloc[:2000]) == 1
    truth = cards.y.iloc[:2000].to_numpy() == 1
    lost = frame["amount"].iloc[:2000].to_numpy()
    expected = 5 * (flagged & ~truth).sum() + lost[truth & ~flagged].sum()
    assert half.objective_value == pytest.approx(expected)


def test_from_estimator_treats_unknown_segments_as_predict_does():
    from imbfit.threshold.classifier import OTLPThresholdClassifier

    cards, frame = frauds()
    model = OTLPThresholdClassifier(
        LogisticRegression(), cv=2, segments="segment", estimator_columns=cards.feature_names
    ).fit(frame, cards.y)
    new = frame.assign(segment=np.where(np.arange(len(frame)) % 3 == 0, "new", frame.segment))
    with pytest.raises(ValueError, match="no threshold is given for the segment 'new'"):
        ThresholdDisplay.from_estimator(model, new, cards.y)
    for policy in ("negative", 0.3):
        model.set_params(unknown_segment=policy)
        display = ThresholdDisplay.from_estimator(model, new, cards.y)
        assert display.objective_value == pytest.approx(f1(cards.y, model.predict(new)))


def test_from_estimator_takes_a_pipeline_that_ends_in_one():
    from imbfit.threshold.classifier import OTLPThresholdClassifier

    cards, _ = frauds()
    pipe = make_pipeline(StandardScaler(), OTLPThresholdClassifier(LogisticRegression(), cv=2))
    pipe.fit(cards.X, cards.y)
    display = ThresholdDisplay.from_estimator(pipe, cards.X, cards.y)
    assert display.objective_value == pytest.approx(f1(cards.y, pipe.predict(cards.X)))


def test_from_estimator_refuses_a_model_without_thresholds():
    inner = DummyClassifier().fit([[0], [1]], [0, 1])
    with pytest.raises(
        TypeError, match=r"draws a fitted OTLPThresholdClassifier.*from_predictions"
    ):
        ThresholdDisplay.from_estimator(inner, [[0], [1]], [0, 1])


def test_a_segment_without_a_threshold_is_an_error():
    rows = scored(0)
    with pytest.raises(ValueError, match="no threshold is given for the segment 2"):
        ThresholdDisplay.from_predictions(
            rows["y"], rows["score"], segments=rows["segment"], thresholds={0: 0.5, 1: 0.5}
        )


@pytest.mark.parametrize(
    ("option", "allowed"), [("x", "'flagged'"), ("scale", "'logit'"), ("view", "'all'")]
)
def test_wrong_options_are_named(option, allowed):
    with pytest.raises(ValueError, match=rf"{option}='wrong': allowed are .*{allowed}"):
        ThresholdDisplay.from_predictions([0, 1], [0.1, 0.9], **{option: "wrong"})


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    real = builtins.__import__

    def blocked(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", blocked)
    with pytest.raises(ImportError, match=r'not installed; write pip install "imbfit\[plot\]"'):
        ThresholdDisplay.from_predictions([0, 1], [0.1, 0.9])


def test_pictures_do_not_depend_on_the_order_of_rows():
    rows = scored(4, rows=150)
    order = np.random.default_rng(0).permutation(150)
    one = ThresholdDisplay.from_predictions(rows["y"], rows["score"], view="all")
    two = ThresholdDisplay.from_predictions(rows["y"][order], rows["score"][order], view="all")
    np.testing.assert_array_equal(*(display.lines_[0]["f1"].get_xydata() for display in (one, two)))
