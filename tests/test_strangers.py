"""What people who did not write this tried, each once, with what they should get."""

import datetime as dt
import pickle

import numpy as np
import pandas as pd
import pytest

from imbfit import SearchWarning, search_table, search_thresholds
from imbfit.metrics import capacity, fn, fp, in_segment, parse, recall

Y = np.array([0, 0, 1, 0, 1, 1, 0, 1])
S = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.15, 0.55])
G = np.array(list("aabbaabb"))


@pytest.mark.parametrize("name", ["y_score", "segments", "sample_weight", "amounts", "per"])
def test_the_same_rows_in_another_order_are_refused(name):
    frame = pd.DataFrame({"y": Y, "s": S, "g": G, "w": 1.0, "day": G})
    other = frame.sort_values("s", ascending=False)
    given = {
        "y_score": frame.s,
        "segments": frame.g,
        "sample_weight": frame.w,
        "amounts": frame[["s"]],
        "per": {"day": frame.day},
    }
    good = search_thresholds(frame.y, objective="f1", **given)
    assert good.objective_value == pytest.approx(8 / 9)
    given[name] = {
        "y_score": other.s,
        "segments": other.g,
        "sample_weight": other.w,
        "amounts": other[["s"]],
        "per": {"day": other.day},
    }[name]
    with pytest.raises(ValueError, match=rf"{name}.* in another order.*write .*\.loc"):
        search_thresholds(frame.y, objective="f1", **given)


def test_scores_that_floats_confuse_are_refused():
    big = np.array([2**60, 2**60 + 1, 2**60 + 2, 2**60 + 3])
    with pytest.raises(ValueError, match=r"beyond 2\*\*53.*ranks"):
        search_thresholds([0, 0, 1, 1], big)
    assert search_thresholds([0, 0, 1, 1], big - 2**60).objective_value == 1
    with pytest.raises(ValueError, match="complex"):
        search_thresholds([0, 0, 1, 1], big * 1j)


def test_a_grid_over_the_whole_range_of_floats():
    found = search_thresholds([0, 0, 1, 1], [-1.7e308, -1.6e308, 1.6e308, 1.7e308], thresholds=10)
    assert found.objective_value == 1


def test_mcc_with_weights_that_round():
    found = search_thresholds(
        [1, 0, 0, 1],
        [0.25, 0.25, 0.5, 0.0],
        segments=[0, 0, 0, 1],
        objective="mcc",
        sample_weight=[12.31, 12.31, 0.3, 12.31],
    )
    # the second segment flags its positive, the first its tied pair or nobody
    tp, total = 12.31, 3 * 12.31 + 0.3
    ap, an = 2 * 12.31, 12.61
    nobody = (an * tp) / np.sqrt(ap * an * tp * (total - tp))
    assert found.objective_value == pytest.approx(nobody, rel=1e-12)


def test_segments_of_odd_objects():
    sets = pd.Series([frozenset([1]), frozenset([2])] * 4)
    assert set(search_thresholds(Y, S, segments=sets).thresholds) == set(sets)
    with pytest.raises(ValueError, match=r"different lengths \[1, 2\]"):
        search_thresholds(Y, S, segments=[("a", 1), ("b",)] * 4)


def test_a_table_with_a_money_column_goes_back_into_the_search():
    loss = (5 * fp + fn).named("loss", greater_is_better=False)
    found = search_thresholds(Y, S, segments=G, objective=loss, amounts={"a": S})
    shown = found.table(expressions=["fpr"])
    shown['fn["a"] + 5 * fp'] = 0.0
    again = search_table(shown, objective=loss)
    assert again.objective_value == found.objective_value


def test_one_expression_may_stand_without_a_list():
    assert "fpr" in search_thresholds(Y, S).table(expressions="fpr")


def test_results_compare_by_identity_and_hash():
    found = search_thresholds(Y, S)
    again = pickle.loads(pickle.dumps(found))
    assert found != again
    assert len({found, again, found}) == 2


def test_a_random_state_of_text_is_refused():
    with pytest.raises(ValueError, match="random_state='a'"):
        search_thresholds(Y, S, random_state="a")


def test_days_are_shown_as_days_and_instants_are_pointed_out():
    days = pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02"] * 4))
    found = search_thresholds(Y, S, constraints=capacity(2, per="date"), per={"date": days})
    assert found.constraint_report[0]["group"] in ("2024-01-01", "2024-01-02")
    instants = pd.Series(pd.date_range("2024-01-01", periods=24, freq="h"))
    with pytest.warns(SearchWarning, match="says nothing.*24 different values in 24 rows"):
        search_thresholds(
            np.tile(Y, 3), np.tile(S, 3), constraints=capacity(2, per="at"), per={"at": instants}
        )


def test_a_leading_zero_needs_quotes():
    with pytest.raises(ValueError, match='write "01" in quotes'):
        parse("recall >= 0.5 in segment 01")
    assert parse('recall >= 0.5 in segment "01"') == in_segment("01", recall >= 0.5)


@pytest.mark.parametrize("kind", ["date", "timestamp", "datetime64"])
def test_a_segment_that_is_a_date_can_be_named(kind):
    dates = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)] * 4
    if kind != "date":
        dates = pd.Series(pd.to_datetime(dates))
        dates = dates.astype(object) if kind == "timestamp" else dates
    rule = in_segment(dates[0], recall >= 0.5)
    found = search_thresholds(Y, S, segments=dates, constraints=rule, objective="precision")
    assert found.constraint_report[0]["met"]
    assert set(found.thresholds) == set(dates)
    text = 'recall >= 0.5 in segment "2024-01-01"'
    same = search_thresholds(Y, S, segments=dates, constraints=text, objective="precision")
    assert same.thresholds == found.thresholds
    assert same.constraint_report[0]["segment"] == dates[0]


def test_figures_of_weighted_rows_and_of_names_with_dollars(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    from imbfit import ThresholdDisplay

    rng = np.random.default_rng(0)
    y = rng.random(200) < 0.2
    score = rng.normal(size=200) + y
    draw = ThresholdDisplay.from_predictions
    half = draw(y, score, sample_weight=np.full(200, 0.5))
    assert half.thresholds == draw(y, score).thresholds
    names = np.where(np.arange(200) % 2, r"$\frac$", "b$")
    figure = draw(y, score, segments=names, expressions="precision").figure_
    figure.savefig(tmp_path / "names.png")
    assert any(r"\$\frac\$" in ax.get_title(loc="left") for ax in figure.axes)
    with pytest.raises(ValueError, match="threshold is NaN"):
        draw(y, score, thresholds=np.nan)
    with pytest.raises(ValueError, match="given for 'q', which is none of"):
        draw(y, score, thresholds={None: 0.3, "q": 1.0})


def run_tune(tmp_path, frame, *more):
    from imbfit.cli import main

    file = tmp_path / "cases.csv"
    frame.to_csv(file, index=False)
    out = tmp_path / "out"
    command = ["tune", str(file), "--label", "y", "--score", "s", "--maximize", "f1"]
    return main([*command, "--out", str(out), *more]), out / "thresholds.json"


def test_the_command_with_fractional_weights_and_with_scores_beyond_floats(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    frame = pd.DataFrame({"y": Y, "s": S, "w": 0.5})
    assert run_tune(tmp_path, frame, "--weight", "w")[0] == 0
    frame["s"] = 2**60 + np.arange(len(Y))
    assert run_tune(tmp_path, frame)[0] == 2
    assert "beyond 2**53" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"score": "s"', '"score": "s", "score": "y"', "'score' is given twice"),
        ('"nan_score": "raise"', '"nan_score": "what"', "nan_score 'what' is none of"),
        ('"type": "text"', '"type": "wat"', "segment type 'wat' is none of"),
        ('"a"\n', '"b"\n', "is given twice"),
        ('"a"\n', '"a", "b"\n', "not one value for each segment column"),
    ],
)
def test_apply_refuses_a_damaged_file(tmp_path, capsys, old, new, said):
    pytest.importorskip("matplotlib")
    from imbfit.cli import main

    code, thresholds = run_tune(tmp_path, pd.DataFrame({"y": Y, "s": S, "g": G}), "--segment", "g")
    assert code == 0
    apply = ["apply", str(tmp_path / "cases.csv"), "--thresholds", str(thresholds)]
    assert main([*apply, "--out", str(thresholds)]) == 2
    assert main(apply) == 0
    text = thresholds.read_text()
    assert old in text
    thresholds.write_text(text.replace(old, new))
    assert main(apply) == 2
    assert said in capsys.readouterr().err
