"""The command, as a user runs it: files in, thresholds out, an exit code and a clear message."""

import builtins
import csv
import json
import math
import subprocess
import sys

import numpy as np
import pytest

from imbfit import search_thresholds
from imbfit.cli import main

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cases():
    rng = np.random.default_rng(0)
    rows = 600
    y = rng.random(rows) < 0.2
    return pd.DataFrame(
        {
            "case": np.arange(rows),
            "y": y.astype(int),
            "score": np.round(np.clip(rng.normal(0.3 + 0.3 * y, 0.15), 0.001, 0.999), 4),
            "region": rng.choice(["01", "1", "NA", "b,c"], rows),
            "date": np.array(["2024-01-01", "2024-01-02", "2024-01-03"])[
                rng.integers(3, size=rows)
            ],
            "loss": np.round(rng.lognormal(3, 1, rows), 2),
            "weight": rng.integers(1, 4, rows),
        }
    )


@pytest.fixture
def path(cases, tmp_path):
    cases.to_csv(tmp_path / "cases.csv", index=False)
    return tmp_path / "cases.csv"


def run(*arguments):
    return main([str(argument) for argument in arguments])


def tune(path, *arguments, label="y", score="score", goal=("--maximize", "f1")):
    return run("tune", path, "--label", label, "--score", score, *goal, *arguments)


def strict(path):
    """Read JSON as any parser must: no literals that JSON lacks."""

    def refuse(literal):
        raise AssertionError(f"{literal} is no JSON")

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def thresholds_of(content):
    words = {"nobody": math.inf, "everybody": -math.inf}
    return {
        tuple(line["segment"]): words.get(line["threshold"], line["threshold"])
        for line in content["thresholds"]
    }


def refused(capsys, code, *parts):
    """The command ended with `code` and told on stderr, in words and without a traceback."""
    told = capsys.readouterr()
    assert code == 2, told.err
    for part in parts:
        assert part in told.err
    assert "Traceback" not in told.err
    assert told.err.startswith("imbfit ")
    return told


# --------------------------------------------------------------------------------------------
# tune and apply agree with the library


def test_tune_is_the_search_on_the_files_columns(cases, path, capsys):
    code = tune(
        path,
        "--segment=region",
        "--amount=loss=loss",
        "--weight=weight",
        '--subject-to=capacity(60, per="date")',
        "--subject-to=precision >= 0.5 in each segment",
        "--out=results",
        goal=("--minimize", "20*pp + fn[loss]"),
    )
    assert code == 0
    told = capsys.readouterr()
    assert told.err == ""
    found = search_thresholds(
        cases.y,
        cases.score,
        objective="20*pp + fn[loss]",
        greater_is_better=False,
        constraints=['capacity(60, per="date")', "precision >= 0.5 in each segment"],
        segments=cases.region,
        amounts={"loss": cases.loss},
        per={"date": cases.date},
        sample_weight=cases.weight,
    )
    content = strict(path.parent / "results" / "thresholds.json")
    assert thresholds_of(content) == {(s,): t for s, t in found.thresholds.items()}
    assert content["objective"]["value"] == found.objective_value
    assert content["status"] == "optimal"
    assert content["objective"]["gap"] == found.gap
    assert content["constraints"] == [
        'capacity(60, per="date")',
        "precision >= 0.5 in each segment",
    ]
    assert len(content["constraint_report"]) == 5
    assert all(line["met"] for line in content["constraint_report"])
    for expected in ("Minimize 20 * pp", "proven", "capacity(60", "imbfit apply", "01", "b,c"):
        assert expected in told.out
    with (path.parent / "results" / "table.csv").open(newline="", encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert len(lines) == len(found.table())
    assert {line["region"] for line in lines} == {"01", "1", "NA", "b,c"}
    assert {line["threshold"] for line in lines} >= {"nobody", "everybody"}
    picture = (path.parent / "results" / "curves.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert not (path.parent / "results" / "surface.png").exists()


def test_apply_flags_as_the_thresholds_say_and_leaves_the_rest_alone(cases, path, capsys):
    assert tune(path, "--segment=region", "--out=results") == 0
    content = strict(path.parent / "results" / "thresholds.json")
    assert run("apply", path, "--thresholds=results/thresholds.json", "--out=new.csv") == 0
    cut = cases.region.map({s[0]: t for s, t in thresholds_of(content).items()})
    expected = (cases.score >= cut).astype(int)
    assert f"{expected.sum():,} of 600 cases flagged" in capsys.readouterr().out
    before = path.read_text(encoding="utf-8").splitlines()
    after = (path.parent / "new.csv").read_text(encoding="utf-8").splitlines()
    assert after[0] == before[0] + ",flagged"
    assert [row.rsplit(",", 1)[0] for row in after] == before
    assert [int(row.rsplit(",", 1)[1]) for row in after[1:]] == expected.tolist()


def test_two_segments_get_a_surface(cases, path):
    cases.assign(region=cases.region.replace({"01": "1", "NA": "b,c"})).to_csv(path, index=False)
    assert tune(path, "--segment=region", "--out=results") == 0
    assert (path.parent / "results" / "surface.png").read_bytes().startswith(b"\x89PNG")


def test_without_segments_there_is_one_threshold(cases, path):
    assert tune(path) == 0
    content = strict(path.parent / "imbfit_results" / "thresholds.json")
    found = search_thresholds(cases.y, cases.score)
    assert thresholds_of(content) == {(): found.threshold}
    assert run("apply", path, "--thresholds=imbfit_results/thresholds.json") == 0
    flagged = pd.read_csv(path.parent / "cases_flagged.csv").flagged
    assert (flagged == (cases.score >= found.threshold)).all()


@pytest.mark.parametrize(
    ("goal", "word", "share"), [("pp + 1", "nobody", 0), ("fn", "everybody", 1)]
)
def test_nobody_and_everybody_are_words_in_json_and_are_obeyed(path, goal, word, share):
    assert tune(path, "--thresholds=0.999", goal=("--minimize", goal)) == 0
    content = strict(path.parent / "imbfit_results" / "thresholds.json")
    assert content["thresholds"][0]["threshold"] == word
    assert run("apply", path, "--thresholds=imbfit_results/thresholds.json") == 0
    assert pd.read_csv("cases_flagged.csv").flagged.mean() == share


def test_several_segment_columns(cases, path, capsys):
    assert tune(path, "--segment=region", "--segment=date", "--out=results") == 0
    content = strict(path.parent / "results" / "thresholds.json")
    found = search_thresholds(cases.y, cases.score, segments=cases[["region", "date"]].to_numpy())
    assert thresholds_of(content) == dict(found.thresholds)
    assert list(pd.read_csv("results/table.csv", dtype=str).columns[:2]) == ["region", "date"]
    assert run("apply", path, "--thresholds=results/thresholds.json", "--out=-") == 0
    assert capsys.readouterr().out.count("\n") > 600


def test_a_score_equal_to_the_threshold_is_flagged(tmp_path):
    scores = [(0, 0.1), (0, 0.2), (1, 0.5), (1, 0.7)]
    pd.DataFrame(scores, columns=["y", "score"]).to_csv("ties.csv", index=False)
    assert tune("ties.csv", "--thresholds=0.5") == 0
    content = strict(tmp_path / "imbfit_results" / "thresholds.json")
    assert thresholds_of(content) == {(): 0.5}
    assert run("apply", "ties.csv", "--thresholds=imbfit_results/thresholds.json") == 0
    assert pd.read_csv("ties_flagged.csv").flagged.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("thresholds", ["5", "0.2,0.5,0.7"])
def test_candidates_can_be_given(cases, path, thresholds):
    assert tune(path, f"--thresholds={thresholds}") == 0
    grid = 5 if thresholds == "5" else [0.2, 0.5, 0.7]
    content = strict(path.parent / "imbfit_results" / "thresholds.json")
    expected = search_thresholds(cases.y, cases.score, thresholds=grid)
    assert thresholds_of(content) == {(): expected.threshold}


# --------------------------------------------------------------------------------------------
# Types that files lose


def test_segments_are_compared_as_text_across_csv_and_parquet(cases, tmp_path, capsys):
    """A column of whole numbers is the same column in CSV, in Parquet, and as floats."""
    numbered = cases.assign(region=cases.region.map({"01": 10, "1": 1, "NA": 2, "b,c": 30}))
    numbered.to_csv("n.csv", index=False)
    numbered.to_parquet("n.parquet")
    numbered.assign(region=numbered.region.astype(float)).to_parquet("f.parquet")
    numbered.assign(region=numbered.region.astype(float)).to_csv("f.csv", index=False)
    for source in ("n.csv", "n.parquet", "f.parquet"):
        assert tune(source, "--segment=region", f"--out={source}.out") == 0
    contents = [strict(tmp_path / f"{s}.out" / "thresholds.json") for s in ("n.csv", "n.parquet")]
    assert thresholds_of(contents[0]) == thresholds_of(contents[1])
    assert sorted(thresholds_of(contents[0])) == [("1",), ("10",), ("2",), ("30",)]
    flagged = {}
    for source in ("n.csv", "n.parquet", "f.parquet"):
        for target in ("n.csv", "n.parquet", "f.parquet"):
            out = f"{source}-{target}"
            table = f"--thresholds={source}.out/thresholds.json"
            assert run("apply", target, table, f"--out={out}") == 0
            read = pd.read_csv if target.endswith("csv") else pd.read_parquet
            flagged[out] = read(out).flagged.tolist()
    assert len({tuple(marks) for marks in flagged.values()}) == 1
    # numbers as text with a decimal point are another spelling, which only numbers resolve
    assert run("apply", "f.csv", "--thresholds=n.parquet.out/thresholds.json", "--out=x.csv") == 0
    capsys.readouterr()
    code = run("apply", "f.csv", "--thresholds=n.csv.out/thresholds.json", "--out=x.csv")
    refused(capsys, code, "without a threshold", "'1' is there, written otherwise")


def test_leading_zeros_stay_apart(cases, path, capsys):
    assert tune(path, "--segment=region", "--out=results") == 0
    assert "01" in capsys.readouterr().out
    lost = cases[cases.region != "01"].assign(region=lambda f: f.region.replace({"1": "001"}))
    lost.to_csv("lost.csv", index=False)
    code = run("apply", "lost.csv", "--thresholds=results/thresholds.json")
    refused(capsys, code, "1 segment by region without a threshold: '001'", "written otherwise")


def test_segments_in_constraints_are_the_words_of_the_file(path, capsys):
    assert tune(path, "--segment=region", "--subject-to=precision >= 0.5 in segment 1") == 0
    assert 'precision >= 0.5 in segment "1"' in capsys.readouterr().out
    code = tune(path, "--segment=region", "--subject-to=precision >= 0.5 in segment 01")
    refused(capsys, code, 'begins with 0 is written in quotes, in segment "01"')
    assert tune(path, "--segment=region", '--subject-to=precision >= 0.5 in segment "01"') == 0
    capsys.readouterr()
    code = tune(path, "--segment=region", "--subject-to=precision >= 0.5 in segment 7")
    refused(capsys, code, "there is no segment '7'", "'b,c'")
    code = tune(path, "--subject-to=precision >= 0.5 in segment 1")
    refused(capsys, code, "names a segment; pass --segment COL")
    code = tune(path, "--segment=region", "--segment=date", "--subject-to=fp <= 9 in segment 1")
    refused(capsys, code, "segments come from 2 columns; write in segment (")


@pytest.mark.parametrize(
    "labels", [[0, 1], [0.0, 1.0], ["false", "true"], ["False", "TRUE"], ["0", "1.0"]]
)
def test_labels_that_need_no_word(cases, path, labels):
    cases.assign(y=[labels[v] for v in cases.y]).to_csv(path, index=False)
    assert tune(path) == 0
    expected = search_thresholds(cases.y, cases.score)
    content = strict(path.parent / "imbfit_results" / "thresholds.json")
    assert thresholds_of(content) == {(): expected.threshold}


@pytest.mark.parametrize("kind", [bool, float, "int8"])
def test_labels_of_parquet(cases, kind):
    cases.assign(y=cases.y.astype(kind)).to_parquet("cases.parquet")
    assert tune("cases.parquet") == 0


def test_other_labels_need_to_be_told(cases, path, capsys):
    cases.assign(y=cases.y.map({0: "no", 1: "yes"})).to_csv(path, index=False)
    told = refused(capsys, tune(path), "'no', 'yes'", "--pos-label 'yes'")
    assert told.out == ""
    refused(capsys, tune(path, "--pos-label=Yes"), "--pos-label 'Yes'", "'no', 'yes'")
    assert tune(path, "--pos-label=yes") == 0
    expected = search_thresholds(cases.y, cases.score).threshold
    content = strict(path.parent / "imbfit_results" / "thresholds.json")
    assert thresholds_of(content) == {(): expected}
    cases.assign(y=cases.y + 1).to_csv(path, index=False)
    refused(capsys, tune(path), "'1', '2'", "--pos-label")
    assert tune(path, "--pos-label=2.0") == 0


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ([0, 1, ""], ["has no label in 200 cases (row 3, 6,"]),
        ([0, 1, 2], ["3 kinds of labels ('0', '1', '2')", "against the rest"]),
        ([0, 0, 0], ["all 600 cases are negative"]),
        ([1, 1, 1], ["all 600 cases are positive"]),
    ],
)
def test_labels_that_make_no_two_classes(cases, path, values, parts, capsys):
    cases.assign(y=values * 200).to_csv(path, index=False)
    refused(capsys, tune(path), *parts)


def test_a_country_called_na_is_no_missing_segment(path, capsys):
    assert tune(path, "--segment=region") == 0
    assert "  NA " in capsys.readouterr().out


def test_missing_segments(cases, path, capsys):
    cases.loc[[3, 7], "region"] = ""
    cases.to_csv("holes.csv", index=False)
    code = tune("holes.csv", "--segment=region")
    refused(capsys, code, "'region' is empty in 2 cases (row 4, 8)", "--missing-segment NAME")
    assert tune("holes.csv", "--segment=region", "--missing-segment=none", "--out=with") == 0
    assert ("none",) in thresholds_of(strict(path.parent / "with" / "thresholds.json"))
    assert run("apply", "holes.csv", "--thresholds=with/thresholds.json") == 0
    assert tune(path, "--segment=region", "--out=without") == 0
    capsys.readouterr()
    code = run("apply", "holes.csv", "--thresholds=without/thresholds.json")
    refused(capsys, code, "'region' is empty in 2 cases (row 4, 8)", "--unknown-segment negative")


@pytest.mark.parametrize(("policy", "expected"), [("negative", 0), ("0.002", 1)])
def test_unknown_segments_follow_a_policy(cases, path, policy, expected, capsys):
    assert tune(path, "--segment=region") == 0
    new = cases.head(50).assign(region="new", score=0.9)
    new.loc[0, "region"] = ""
    pd.concat([new, cases.tail(50)]).to_csv("new.csv", index=False)
    table = "--thresholds=imbfit_results/thresholds.json"
    assert run("apply", "new.csv", table, f"--unknown-segment={policy}") == 0
    assert (pd.read_csv("new_flagged.csv").flagged.head(50) == expected).all()
    capsys.readouterr()
    new.fillna({"region": "x"}).replace({"region": {"": "new"}}).to_csv("new.csv", index=False)
    refused(capsys, run("apply", "new.csv", table), "1 segment by region", "'new'", "in 50 cases")
    code = run("apply", "new.csv", table, "--unknown-segment=maybe")
    refused(capsys, code, "--unknown-segment 'maybe': give raise, negative or a threshold")


def test_scores_that_are_no_numbers(cases, capsys):
    text = cases.astype({"score": object})
    text.loc[2, "score"] = "0,5"
    text.to_csv("bad.csv", index=False)
    refused(capsys, tune("bad.csv"), "'score' holds '0,5', which is no number", "(row 3)", "point")
    text.loc[2, "score"] = "inf"
    text.to_csv("bad.csv", index=False)
    refused(capsys, tune("bad.csv"), "'score' is infinite in 1 case (row 3)")
    text.loc[2, "score"] = ""
    text.to_csv("bad.csv", index=False)
    refused(capsys, tune("bad.csv"), "'score' has no number in 1 case (row 3)")
    assert tune("bad.csv", "--nan-score=negative") == 0
    assert run("apply", "bad.csv", "--thresholds=imbfit_results/thresholds.json") == 0
    assert pd.read_csv("bad_flagged.csv").flagged[2] == 0
    capsys.readouterr()
    table = "--thresholds=imbfit_results/thresholds.json"
    refused(capsys, run("apply", "bad.csv", table, "--nan-score=raise"), "has no number")


# --------------------------------------------------------------------------------------------
# Files that can't be used


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ["is empty"]),
        (b"y,score\n", ["has a header but no cases"]),
        (b"y,score\n1,0.9\n0,0.1,7\n", ["can't be read", "Expected 2 columns, got 3"]),
        (b"y;score\n1;0.9\n0;0.1\n", ["no ','", "--sep ';'"]),
        (b"y,score,name\n1,0.9,K\xf6ln\n0,0.1,x\n", ["is not encoded as utf-8", "--encoding"]),
        (b"y,score,score\n1,0.9,1\n0,0.1,1\n", ["2 columns called 'score' (--score)"]),
        (b"y,Score\n1,0.9\n0,0.1\n", ["no column 'score' (--score); did you mean 'Score'?"]),
        (b"PK\x03\x04rest", ["spreadsheet or archive"]),
        (b"PAR1rest", ["no readable Parquet file"]),
        (b"\n\n", ["first line"]),
    ],
)
def test_bad_files(content, parts, tmp_path, capsys):
    (tmp_path / "bad.csv").write_bytes(content)
    more = ["--segment=name"] if b"name" in content else []
    refused(capsys, tune("bad.csv", *more), *parts)


def test_file_that_is_not_there(path, capsys):
    refused(capsys, tune("case.csv"), "there is no file case.csv; did you mean cases.csv?")
    refused(capsys, tune(path.parent), "is a folder")


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (b"\xef\xbb\xbfy,score\n1,0.9\n0,0.1\n", []),
        (b"y;score\n1;0.9\n0;0.1\n", ["--sep=;"]),
        ("y,score,name\n1,0.9,Köln\n0,0.1,Köln\n".encode("latin-1"), ["--encoding=latin-1"]),
        (b'y,score,"two\nlines"\n1,0.9,"a\nb"\n0,0.1,"c"\n', []),
        (b"y,score\r\n1,0.9\r\n0,0.1\r\n", []),
    ],
)
def test_files_that_are_only_unusual(content, arguments, tmp_path):
    (tmp_path / "good.csv").write_bytes(content)
    assert tune("good.csv", *arguments) == 0
    assert run("apply", "good.csv", "--thresholds=imbfit_results/thresholds.json", *arguments) == 0
    assert b"0.9" in (tmp_path / "good_flagged.csv").read_bytes()


def test_columns_that_repeat_are_fine_where_nobody_asks_for_them(tmp_path):
    (tmp_path / "twice.csv").write_text("y,a,score,a\n1,x,0.9,z\n0,y,0.1,w\n", encoding="utf-8")
    assert tune("twice.csv") == 0
    assert run("apply", "twice.csv", "--thresholds=imbfit_results/thresholds.json") == 0
    written = (tmp_path / "twice_flagged.csv").read_text(encoding="utf-8")
    assert written == "y,a,score,a,flagged\n1,x,0.9,z,1\n0,y,0.1,w,0\n"


# --------------------------------------------------------------------------------------------
# Expressions and options


@pytest.mark.parametrize(
    ("goal", "parts"),
    [
        (("--minimize", "f1"), ["f1 is better when greater; write --maximize 'f1'"]),
        (("--maximize", "cost(fp=1, fn=2)"), ["better when lower; write --minimize"]),
        (("--maximize", "f1 +"), ["--maximize 'f1 +'", "at character"]),
        (("--maximize", "f7"), ["'f7' is not known"]),
        (("--maximize", "recall >= 0.5"), ["is a constraint, but a metric was asked for"]),
        (("--minimize", "fn[money]"), ["the amount 'money'", "--amount money=COL", "'loss'"]),
    ],
)
def test_objectives_that_can_not_be_used(path, goal, parts, capsys):
    refused(capsys, tune(path, goal=goal), *parts)


def test_formulas_take_their_direction_from_the_option(cases, path):
    for option, greater in (("--maximize", True), ("--minimize", False)):
        assert tune(path, goal=(option, "tp - 0.3*fp")) == 0
        content = strict(path.parent / "imbfit_results" / "thresholds.json")
        expected = search_thresholds(
            cases.y, cases.score, objective="tp - 0.3*fp", greater_is_better=greater
        )
        assert content["objective"]["value"] == expected.objective_value


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--subject-to=precision"], ["--subject-to 'precision'", "put it in quotes"]),
        (["--subject-to=precision > 0.5"], ["use >= or <="]),
        (['--subject-to=capacity(5, per="day")'], ["no column 'day'", "did you mean 'date'?"]),
        (["--amount=loss"], ["write NAME=COL"]),
        (["--amount=loss=los"], ["no column 'los' (--amount); did you mean 'loss'?"]),
        (["--segment=regionn"], ["no column 'regionn' (--segment); did you mean 'region'?"]),
        (["--weight=region"], ["'region' holds", "which is no number"]),
        (["--thresholds=0.1,x"], ["give all, a whole number"]),
        (["--thresholds=0"], ["give all, a whole number"]),
        (["--time-limit=0"], ["give seconds above 0"]),
        (["--sep=,,"], ["give one character"]),
        (["--encoding=klingon"], ["no such encoding"]),
    ],
)
def test_options_that_can_not_be_used(path, arguments, parts, capsys):
    refused(capsys, tune(path, *arguments), *parts)


def test_negative_weights_are_named(cases, path, capsys):
    cases.assign(weight=-1).to_csv(path, index=False)
    refused(capsys, tune(path, "--weight=weight"), "the column 'weight' is negative")


def test_what_can_not_be_searched_is_refused_by_name(path, capsys):
    code = tune(path, "--segment=region", goal=("--maximize", "mcc * 2 + fp ** 2"))
    refused(capsys, code, "over 4 segments")


def test_a_time_of_day_as_capacity_is_remarked_on(cases, path, capsys):
    cases.assign(at=[f"2024-01-01 00:{i // 60:02d}:{i % 60:02d}" for i in range(600)]).to_csv(
        path, index=False
    )
    assert tune(path, '--subject-to=capacity(5, per="at")') == 0
    assert "warning: the column 'at' has 600 values in 600 cases" in capsys.readouterr().err


def test_usage_errors_exit_with_2(path, capsys):
    assert run() == 2
    assert run("tune") == 2
    assert run("tune", path, "--label=y", "--score=score") == 2
    assert tune(path, "--minimize=f1") == 2
    assert run("conquer") == 2
    assert "invalid choice: 'conquer'" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["tune", "--help"], ["--version"]])
def test_help_and_version(arguments, capsys):
    assert main(arguments) == 0
    assert "imbfit" in capsys.readouterr().out


# --------------------------------------------------------------------------------------------
# Infeasible, and out of time


def test_infeasible_constraints_exit_with_3_and_are_explained(path, capsys):
    code = tune(path, "--subject-to=precision >= 0.99", "--subject-to=recall >= 0.9", "--out=no")
    assert code == 3
    told = capsys.readouterr()
    assert "imbfit tune: error: no choice of thresholds meets" in told.err
    assert "- precision >= 0.99: reaches" in told.err
    assert "- recall >= 0.9: reaches" in told.err
    assert "pass --infeasible least_violation" in told.err
    assert "Traceback" not in told.err
    assert not (path.parent / "no").exists()


def test_least_violation(path, capsys):
    code = tune(
        path,
        "--subject-to=precision >= 0.99",
        "--subject-to=recall >= 0.9",
        "--infeasible=least_violation",
    )
    assert code == 0
    told = capsys.readouterr()
    assert "warning: no choice of thresholds meets all constraints" in told.err
    assert "BROKEN" in told.out
    content = strict(path.parent / "imbfit_results" / "thresholds.json")
    assert content["status"] == "least_violation"
    assert run("apply", path, "--thresholds=imbfit_results/thresholds.json") == 0
    assert "these thresholds break constraints" in capsys.readouterr().out


# --------------------------------------------------------------------------------------------
# apply


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("nonsense", ["is no JSON"]),
        ("[1, 2]", ["holds no thresholds"]),
        ('{"format": "imbfit-thresholds", "format_version": 99}', ["format version 99"]),
        ('{"format": "imbfit-thresholds", "format_version": 1}', ["is damaged", "score"]),
    ],
)
def test_apply_refuses_other_json(path, tmp_path, content, parts, capsys):
    (tmp_path / "t.json").write_text(content, encoding="utf-8")
    refused(capsys, run("apply", path, "--thresholds=t.json"), *parts)
    refused(capsys, run("apply", path, "--thresholds=none.json"), "there is no file none.json")


def test_apply_never_overwrites_its_input_or_a_column(cases, path, capsys):
    assert tune(path, "--segment=region") == 0
    table = "--thresholds=imbfit_results/thresholds.json"
    capsys.readouterr()
    refused(capsys, run("apply", path, table, f"--out={path}"), "is the file of the cases")
    refused(capsys, run("apply", path, table, "--column=y"), "already has a column 'y'")
    refused(capsys, run("apply", path, table, "--out=x.parquet"), "written as CSV")
    refused(capsys, run("apply", path, table, "--out=no/x.csv"), "there is no folder no")
    cases.drop(columns="region").to_csv("less.csv", index=False)
    refused(capsys, run("apply", "less.csv", table), "no column 'region'")
    assert run("apply", path, table, "--column=review", "--out=-") == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[0].endswith(",review")
    assert "cases flagged" in told.err


def test_parquet_in_parquet_out(cases):
    cases.to_parquet("cases.parquet")
    assert tune("cases.parquet", "--segment=region") == 0
    assert run("apply", "cases.parquet", "--thresholds=imbfit_results/thresholds.json") == 0
    written = pd.read_parquet("cases_flagged.parquet")
    pd.testing.assert_frame_equal(written.drop(columns="flagged"), cases)
    assert written.flagged.isin([0, 1]).all()


# --------------------------------------------------------------------------------------------
# Size, packages, the process


def test_thousands_of_segments_are_told_in_a_page(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = 60_000
    y = rng.random(rows) < 0.05
    pd.DataFrame(
        {
            "y": y.astype(int),
            "score": rng.normal(y * 2.0),
            "shop": [f"{i:04d}" for i in rng.integers(2000, size=rows)],
        }
    ).to_csv("shops.csv", index=False)
    code = tune(
        "shops.csv", "--segment=shop", "--subject-to=precision >= 0.2 in each segment",
        "--subject-to=capacity(1500)",
    )  # fmt: skip
    assert code == 0
    told = capsys.readouterr().out
    assert len(told.splitlines()) < 60
    assert "1,982 segments that flag fewer" in told
    assert "of 2,000 segments have fewer than 10 positive cases" in told
    assert "(the 12 segments that flag most)" in told
    content = strict(tmp_path / "imbfit_results" / "thresholds.json")
    assert len(content["thresholds"]) == 2000


@pytest.mark.parametrize("package", ["matplotlib", "pandas", "pyarrow"])
def test_a_missing_package_is_named_with_the_extra(path, package, monkeypatch, capsys):
    real = builtins.__import__

    def blocked(name, *args, **kwargs):
        if name == package:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", blocked)
    refused(capsys, tune(path), f"{package} is not installed", 'pip install "imbfit[cli]"')


def test_the_process_ends_with_the_exit_code(path):
    command = [sys.executable, "-m", "imbfit.cli", "tune", str(path), "--label=y", "--score=score"]
    command += ["--minimize=f1"]
    bad = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  our own
    assert bad.returncode == 2
    assert bad.stderr.count("\n") == 1


def test_demo_compares_the_default_threshold_with_the_chosen_on_held_out_days(tmp_path, capsys):
    assert run("demo", "--out=shown", "--seed=0") == 0
    told = capsys.readouterr().out
    for expected in (
        "Simulated card transactions",
        "at most 15 reviews on any day",
        "threshold 0.5",
        "chosen",
        "money lost",
        "Constraints (on these cases)",
        "% less money",
    ):
        assert expected in told
    for name in ("curves.png", "held_out.png", "surface.png"):
        assert (tmp_path / "shown" / name).read_bytes().startswith(b"\x89PNG")
    # the command that it suggests works
    assert tune(
        "shown/cases.csv", "--segment=segment", '--subject-to=capacity(15, per="date")',
        "--subject-to=precision >= 0.25 in each segment",
        label="fraud", goal=("--minimize", "5*pp + fn[amount]"),
    ) == 0  # fmt: skip
