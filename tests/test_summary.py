"""The table of coefficients: its numbers, and that none of them pretends."""

import json
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import stats

from imbfit.glm.summary import Summary

NAMES = ["intercept", "amount", "night"]
COEF = np.array([-6.2, 0.831, 0.004])
SE = np.array([0.11, 0.02, 0.05])


def rows_of(text):
    """Return the lines of the table, by the name of the coefficient."""
    return {line.split()[0]: line for line in text.splitlines() if line}


class Cells(HTMLParser):
    """Collects the text of each row's cells, and complains of tags left open."""

    def __init__(self):
        super().__init__()
        self.rows, self.open, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.open[-1] in {"td", "th"}:
            self.rows[-1][-1] += data


def cells_of(summary):
    parser = Cells()
    parser.feed(summary._repr_html_())
    parser.close()
    assert parser.open == []
    return parser


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_numbers_are_those_of_the_normal_distribution(level):
    summary = Summary(NAMES, COEF, SE, level=level)
    np.testing.assert_allclose(summary.z, COEF / SE)
    np.testing.assert_allclose(summary.p_value[2], 2 * stats.norm.sf(0.08))
    lower, upper = stats.norm.interval(level, loc=COEF, scale=SE)
    np.testing.assert_allclose(summary.interval, np.column_stack([lower, upper]), rtol=1e-12)
    np.testing.assert_allclose(
        summary.log_p_value, np.log(2) + stats.norm.logsf(np.abs(COEF / SE)), rtol=1e-12
    )


def test_text_has_facts_in_order_then_the_table_then_notes():
    summary = Summary(
        NAMES,
        COEF,
        SE,
        level=0.9,
        facts=[("link", "probit"), ("rows kept", 1_234), ("rate", 0.05)],
        notes=["first note", "second note"],
        title="A model",
    )
    lines = summary.text().splitlines()
    assert lines[:4] == ["A model", "link       probit", "rows kept  1234", "rate       0.05"]
    assert lines[4] == ""
    assert lines[5].split("  ")[-1] == "upper 90%"
    assert [line.split()[0] for line in lines[6:9]] == NAMES
    assert lines[9:] == ["", "first note", "second note"]
    assert str(summary) == repr(summary) == summary.text()
    ends = {len(line) for line in lines[5:9]}
    assert len(ends) == 1


@pytest.mark.parametrize(
    ("coef", "se", "expected"),
    [
        (0.831, 0.02, ["0.8310", "0.0200"]),
        (-6.2, 0.11, ["-6.200", "0.110"]),
        (12345.678, 250.0, ["12346", "250"]),
        (1.5e-7, 2.0e-9, ["1.5e-07", "2e-09"]),
        (-123456789.0, 3.0, ["-1.2346e+08", "3"]),
        (2.0, 0.0, ["2.00", "0.00"]),
    ],
)
def test_digits_follow_the_standard_error(coef, se, expected):
    row = rows_of(Summary(["x"], [coef], [se]).text())["x"]
    assert row.split()[1:3] == expected


@pytest.mark.parametrize("z", [37.0, 37.2, 38.6, 60.0, 1e4, 1e100])
def test_tiny_p_values_are_bounds_and_never_zero(z):
    summary = Summary(["x"], [z], [1.0])
    p = rows_of(summary.text())["x"].split()[4]
    exact = np.log(2) + stats.norm.logsf(z)
    if exact < np.log(1e-300):
        assert p == "<1e-300"
        assert summary.p_value[0] == 1e-300
    else:
        np.testing.assert_allclose(float(p), np.exp(exact), rtol=0.05)
    assert summary.p_value[0] > 0
    assert summary.to_frame()["p-value"].iloc[0] > 0
    np.testing.assert_allclose(summary.log_p_value[0], exact, rtol=1e-10)
    assert summary.to_dict()["coefficients"][0]["log p-value"] == summary.log_p_value[0]
    assert "&lt;1e-300" in summary._repr_html_() or exact > np.log(1e-300)


@pytest.mark.parametrize(
    ("z", "expected"), [(0.0, "1.0000"), (1.96, "0.0500"), (3.8, "0.0001"), (5.0, "5.7e-07")]
)
def test_p_values_that_are_not_tiny(z, expected):
    assert rows_of(Summary(["x"], [z], [1.0]).text())["x"].split()[4] == expected


def test_what_is_not_identified_says_so_and_claims_nothing():
    summary = Summary(["a", "b"], [1.0, 0.0], [0.5, np.inf])
    assert summary.identified.tolist() == [True, False]
    assert np.isnan(summary.z[1])
    assert np.isnan(summary.p_value[1])
    assert summary.interval[1].tolist() == [-np.inf, np.inf]
    assert rows_of(summary.text())["b"].split(maxsplit=2)[1:] == ["0", "not identified"]
    assert cells_of(summary).rows[-1] == ["b", "0", "not identified", "", "", "", ""]
    row = summary.to_dict()["coefficients"][1]
    assert row == {
        "name": "b",
        "coefficient": 0.0,
        "standard error": None,
        "z": None,
        "p-value": None,
        "lower": None,
        "upper": None,
        "log p-value": None,
    }


def test_a_missing_standard_error_is_shown_as_such():
    summary = Summary(["a"], [1.0], [np.nan])
    assert rows_of(summary.text())["a"].split() == ["a", "1", *["nan"] * 5]


def test_html_is_escaped_and_whole():
    summary = Summary(
        ["<script>alert(1)</script>", "a & b"],
        [1.0, 2.0],
        [0.5, 0.5],
        facts=[("<b>", "x < y & z")],
        notes=["1 < 2"],
        title="<i>",
    )
    source = summary._repr_html_()
    for bad in ("<script", "<b>", "<i>", "a & b", "x < y"):
        assert bad not in source
    parser = cells_of(summary)
    assert parser.rows[0] == ["<b>", "x < y & z"]
    assert parser.rows[1][1:5] == ["coefficient", "standard error", "z", "p-value"]
    assert [row[0] for row in parser.rows[2:]] == ["<script>alert(1)</script>", "a & b"]
    assert parser.rows[3][1:4] == ["2.000", "0.500", "4.00"]
    assert "1 < 2" in parser.texts
    assert "<i>" in parser.texts


def test_html_sets_no_colour_of_its_own():
    source = Summary(NAMES, COEF, SE)._repr_html_()
    for word in ("#", "rgb", "black", "white;", 'white"', "background:"):
        assert word not in source.replace("background:transparent", "")
    assert "color:inherit" in source


def test_html_and_text_show_the_same_cells():
    summary = Summary(NAMES, COEF, SE)
    lines = rows_of(summary.text())
    for row in cells_of(summary).rows[1:]:
        assert lines[row[0]].split() == row


def test_frame():
    frame = Summary(NAMES, COEF, SE, level=0.9).to_frame()
    assert frame.columns.tolist() == [
        "coefficient",
        "standard error",
        "z",
        "p-value",
        "lower",
        "upper",
    ]
    assert frame.index.tolist() == NAMES
    np.testing.assert_array_equal(frame["coefficient"], COEF)
    np.testing.assert_allclose(frame["upper"] - frame["lower"], 2 * 1.6448536269514722 * SE)


def test_frame_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install pandas.*to_dict"):
        Summary(NAMES, COEF, SE).to_frame()


def test_dict_is_json():
    summary = Summary(
        NAMES, COEF, [0.11, np.inf, 0.0], facts=[("link", "logit"), ("rows", 10)], notes=["a note"]
    )
    told = json.loads(json.dumps(summary.to_dict(), allow_nan=False))
    assert told["facts"] == {"link": "logit", "rows": 10}
    assert told["notes"] == ["a note"]
    assert told["level"] == 0.95
    assert [row["name"] for row in told["coefficients"]] == NAMES
    assert told["coefficients"][0]["lower"] == summary.interval[0, 0]


def test_long_notes_are_wrapped_and_names_stay_on_a_line():
    summary = Summary(["a\nb", "c"], [1.0, 2.0], [0.1, 0.1], notes=["word " * 60])
    lines = summary.text().splitlines()
    assert max(map(len, lines)) <= 100
    assert sum("word" in line for line in lines) > 1
    assert any(line.startswith("a b ") for line in lines)


def test_it_can_not_be_changed():
    coef = COEF.copy()
    summary = Summary(NAMES, coef, SE)
    coef[0] = 99.0
    assert summary.z[0] == COEF[0] / SE[0]
    with pytest.raises(AttributeError):
        summary.level = 0.5
    with pytest.raises(ValueError, match="read-only"):
        summary.coef[0] = 1.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"coef": [1.0, 2.0]}, r"coef has the shape \(2,\), but there are 3 names"),
        ({"se": np.ones((3, 1))}, r"se has the shape \(3, 1\)"),
        ({"se": [1.0, -0.5, 1.0]}, "standard error of 'amount' is -0.5"),
        ({"level": 95}, "level is 95; give .* such as 0.95"),
        ({"level": 0.0}, "level is 0.0"),
        ({"facts": [("link", 1), ("link", 2)]}, "two facts are called 'link'"),
    ],
)
def test_refusals(changed, message):
    options = {"coef": COEF, "se": SE, "level": 0.95, "facts": []} | changed
    with pytest.raises(ValueError, match=message):
        Summary(NAMES, **options)
