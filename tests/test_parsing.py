import itertools
import pickle
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import expressions, rules, segment_keys

from imbfit.expressions import Count, Number, Op
from imbfit.metrics import (
    accuracy,
    ap,
    capacity,
    cost,
    each_segment,
    f1,
    fbeta,
    fn,
    fp,
    in_segment,
    max_gap,
    n,
    parse,
    pp,
    precision,
    recall,
    sqrt,
    threshold,
    tn,
    tp,
)
from imbfit.named import NAMED, SYMBOLS


@settings(max_examples=300)
@given(expressions())
@example(Op("**", Number(-2), Number(2)))
@example(-(tp**2))
@example((-tp) ** 2)
@example(tp - (fp - fn) - (-3))
@example(tp / (fp / fn) / 2)
@example((tp**2) ** -0.5)
@example(fn['it\'s "x"\\ \n\r\t\0 \u2028 \ud800 \U0001f600'])
def test_text_of_an_expression_reads_back_equal(expr):
    again = parse(str(expr))
    assert again == expr
    assert hash(again) == hash(expr)
    assert str(again) == str(expr)


@settings(max_examples=300)
@given(rules())
def test_text_of_a_constraint_reads_back_equal(rule):
    again = parse(str(rule))
    assert again == rule
    assert hash(again) == hash(rule)
    assert pickle.loads(pickle.dumps(rule)) == rule


@settings(max_examples=200)
@given(segment_keys)
def test_segment_keys_keep_their_type(key):
    scope = in_segment(key, recall >= 0.8)
    again = parse(str(scope)).key
    assert again == scope.key
    assert type(again) is type(scope.key)


@settings(max_examples=300)
@given(st.one_of(st.text(max_size=30), st.text("tpfn()[]*/+-<>=.,0123456789 \"'eE", max_size=30)))
def test_any_text_reads_or_raises_value_error(text):
    problem = ""
    try:
        parse(text)
    except ValueError as error:
        problem = str(error)
    assert not problem or "at character" in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f1", f1),
        (" f1\t\n", f1),
        ("5*fp + fn[amount]", 5 * fp + fn["amount"]),
        ('5*fp + fn["amount"]', 5 * fp + fn["amount"]),
        ("fn['the amount']", fn["the amount"]),
        ("fn[Größe]", fn["Größe"]),
        ('fn["Gr\\u00f6\\u00dfe"]', fn["Größe"]),
        ("tp[amount]/ap[amount]", tp["amount"] / ap["amount"]),
        ("tp/(tp + fp)", tp / (tp + fp)),
        ("tp - fp - fn", (tp - fp) - fn),
        ("tp / fp / fn", (tp / fp) / fn),
        ("tp + fp * fn", tp + (fp * fn)),
        ("-tp", -tp),
        ("+tp", tp),
        ("- -tp", -1 * (-1 * tp)),
        ("--tp", -1 * (-1 * tp)),
        ("-2", Number(-2)),
        ("-2 ** 2", -(Number(2) ** 2)),
        ("2 ** -1", Number(2) ** -1),
        ("tp ** 0.5", sqrt(tp)),
        ("sqrt(tp)", sqrt(tp)),
        (".5 * tp", 0.5 * tp),
        ("5. * tp", 5 * tp),
        ("1e-3*tp", 0.001 * tp),
        ("1E+3*tp", 1000 * tp),
        ("fbeta(0.5)", fbeta(0.5)),
        ("fbeta(beta=2)", fbeta(2)),
        ("cost(fp=1, fn=10)", cost(fp=1, fn=10)),
        ("cost(fn=10, fp=1, tp=-2.5)", cost(fp=1, fn=10, tp=-2.5)),
        ("(tp + tn) / n", accuracy),
        ("precision >= 0.5", precision >= 0.5),
        ("0.5 <= precision", precision >= 0.5),
        ("threshold >= 0.3", threshold >= 0.3),
        ("0.3 >= threshold", threshold <= 0.3),
        ("precision >= 0.5 in each segment", each_segment(precision >= 0.5)),
        ("each_segment(precision >= 0.5)", each_segment(precision >= 0.5)),
        ("recall >= 0.8 in segment DE", in_segment("DE", recall >= 0.8)),
        ('recall >= 0.8 in segment "North East"', in_segment("North East", recall >= 0.8)),
        ("recall >= 0.8 in segment -7", in_segment(-7, recall >= 0.8)),
        ("recall >= 0.8 in segment True", in_segment(True, recall >= 0.8)),
        ("recall >= 0.8 in segment None", in_segment(None, recall >= 0.8)),
        ('recall >= 0.8 in segment ("DE", 7)', in_segment(("DE", 7), recall >= 0.8)),
        ("in_segment(DE, recall >= 0.8)", in_segment("DE", recall >= 0.8)),
        ("threshold >= 0.3 in segment DE", in_segment("DE", threshold >= 0.3)),
        ("max_gap(recall) <= 0.05", max_gap(recall) <= 0.05),
        ("0.05 >= max_gap(recall)", max_gap(recall) <= 0.05),
        ("capacity(200)", capacity(200)),
        ("capacity(200, per=1000)", capacity(200, per=1000)),
        ('capacity(200, per="date")', capacity(200, per="date")),
        ("capacity(200, per=date)", capacity(200, per="date")),
        ("capacity(limit=200, per='date')", capacity(200, per="date")),
        ("capacity(5, per=100) in each segment", each_segment(capacity(5, per=100))),
        ("pp <= 200", pp <= 200),
        ("tp + fp <= 0.1 * n", tp + fp <= 0.1 * n),
    ],
)
def test_reads(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize("name", [*NAMED, *SYMBOLS])
def test_every_word_reads_as_the_object_of_that_name(name):
    assert parse(name) is (NAMED | SYMBOLS)[name]


def test_words_keep_name_and_direction():
    assert parse("f1").name == "f1"
    assert parse("fnr").greater_is_better is False
    assert parse("cost(fp=1, fn=2)").greater_is_better is False
    assert parse("fbeta(3)").greater_is_better is True
    assert parse("5*fp").greater_is_better is None


@pytest.mark.parametrize(
    ("text", "character", "message"),
    [
        ("", 1, "no text to read"),
        ("   ", 1, "no text to read"),
        ("precisio >= 0.5", 1, "did you mean precision"),
        ("2 * wombat", 5, "'wombat' is not known. Known are tp"),
        ("tp + ", 5, "the end came"),
        ("tp + * fp", 6, "'\\*' came"),
        ("(tp + fp", 9, "a bracket is open"),
        ("tp + fp)", 8, "'\\)' is too much here"),
        ("tp fp", 4, "'fp' is too much here"),
        ("2tp", 2, "'tp' is too much here"),
        ("tp $ fp", 4, "'\\$' can't be read"),
        ("tp = 3", 4, "use >= or <="),
        ("tp == 3", 4, "use >= or <="),
        ("precision > 0.5", 11, "use >= or <="),
        ("0.2 <= precision <= 0.9", 18, "a chain of comparisons is two constraints"),
        ("precision >= 0.5 and recall >= 0.5", 18, "one by one"),
        ("precision in each segment", 11, "give one constraint"),
        ("precision >= 0.5 in every segment", 21, "in segment NAME"),
        ("precision >= 0.5 in segment", 28, "a name was expected"),
        ("precision >= 0.5 in segment -DE", 30, "a name was expected"),
        ("precision >= 0.5 in segment North East", 35, "'East' is too much"),
        ("max_gap(recall)", 16, "a gap needs its bound"),
        ("max_gap(recall) >= 0.05", 17, "bounded from above"),
        ("max_gap(recall) + 1", 17, "can't be used with '\\+'"),
        ("max_gap(threshold) <= 1", 1, "the threshold itself can't be compared"),
        ("max_gap", 1, "with its arguments"),
        ("threshold >= recall", 11, "bounded by a number"),
        ("tp ** fp", 4, "exponent"),
        ("2 ** tp", 3, "exponent"),
        ("precision[amount]", 10, "only counts take a column"),
        ("fn[3]", 4, "takes the name of a column"),
        ("fn[]", 4, "takes the name of a column"),
        ("fn['']", 4, "name a column"),
        ("fn[amount", 10, "a column's name is open"),
        ("fn['amount", 4, "\"'\" can't be read"),
        ("fn['a\\x41']", 4, "escape"),
        ("fn['a\\q']", 4, "escape"),
        ("f1(2)", 1, "takes no arguments"),
        ("fbeta()", 1, "missing"),
        ("fbeta(-1)", 1, "positive number"),
        ("fbeta(2, 3)", 1, "argument"),
        ("fbeta(2 3)", 9, "',' was expected"),
        ("cost(1, 2)", 1, "argument"),
        ("cost(fp=1, fp=2, fn=3)", 12, "twice"),
        ("cost(fp=1)", 1, "fn"),
        ("cost(fp=1, fn=2, xx=3)", 1, "xx"),
        ("cost(fp=tp, fn=2)", 1, "a price per case is a number"),
        ("capacity(-1)", 1, "at least 0"),
        ("capacity(5, per=0)", 1, "whole number of rows"),
        ("capacity(5, per=date) in each segment", 23, "give one constraint"),
        ("1e999 * tp", 1, "too large"),
        ("tp * " + "9" * 400, 6, "too large"),
        ("recall >= 0.8 in segment " + "9" * 5000, 26, "too large"),
        ("tp\n  + wombat", 8, "'wombat' is not known"),
        ("'tp'", 1, "a number, a count or a metric"),
    ],
)
def test_errors_point_at_the_character(text, character, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse(text)
    first, shown, caret = str(caught.value).rsplit("\n", 2)
    assert f"at character {character}:" in first
    # the caret stands under the character, also where a long text is cut
    under = shown[caret.index("^") : caret.index("^") + 1]
    assert under.strip() == text[character - 1 : character].strip()


def test_errors_show_a_part_of_a_long_text():
    with pytest.raises(ValueError, match="wombat") as caught:
        parse("tp + " * 40 + "wombat" + " + tp" * 4000)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("thing", [None, 3, b"f1", f1, ["f1"]])
def test_only_text_is_read(thing):
    with pytest.raises(TypeError, match="parse takes text"):
        parse(thing)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "tp.__class__",
        "tp.__class__.__mro__",
        "(lambda: tp)()",
        "[tp for tp in [1]]",
        "eval('tp')",
        "exec(tp)",
        "open('x')",
        "tp if tp else fp",
        "f'{tp}'",
        "tp; fp",
        "tp := 3",
        "globals()",
        "parse('tp')",
        "Count('tp')",
        "scorer(f1)",
        "fbeta.__call__(2)",
        "fbeta(*[2])",
        "cost(**{})",
        "capacity(5, per=__import__('os'))",
        "tp[__import__('os')]",
        "recall >= 0.8 in segment __import__('os')",
        "not tp",
        "tp // fp",
        "tp % 2",
        "tp @ fp",
        "tp & fp",
        "~tp",
        "0x10",
        "1_000",
        "1j",
        "inf",
        "nan",
        "True",
        "\uff46\uff11",  # f1 in full width
        "t\u0440",  # a Cyrillic letter
        "\u0663 * tp",  # an Arabic digit
        "tp \u2212 fp",  # a typographic minus
        "tp \u2265 3",
        "tp\0",
        "#",
        "tp # comment",
    ],
)
def test_nothing_outside_of_the_language_is_read(text):
    with pytest.raises(ValueError, match="at character"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000 + "tp" + ")" * 100_000,
        "-" * 100_000 + "tp",
        "tp" + "**2" * 1 + " + tp" * 100_000,
        "tp" + "**(2" * 5000 + ")" * 5000,
        "sqrt(" * 50_000 + "tp" + ")" * 50_000,
        "recall >= 0.8 in segment " + "(" * 50_000,
        "each_segment(" * 50_000,
        "1" * 100_000,
    ],
)
def test_monstrous_texts_are_refused_at_once(text):
    # of the processor's time: a reader that hangs takes minutes, and a busy machine must not matter
    start = time.process_time()
    with pytest.raises(ValueError, match=r"nest|too large"):
        parse(text)
    assert time.process_time() - start < 10


def test_moderate_nesting_is_read():
    assert parse("(" * 50 + "tp" + ")" * 50) == tp
    long_sum = parse(" + ".join(["tp"] * 140))
    assert long_sum == parse(str(long_sum))
    assert pickle.loads(pickle.dumps(long_sum)) == long_sum


def test_precedence_agrees_with_python():
    names = {symbol: Count(symbol) for symbol in ("tp", "fp", "fn")}
    signs = ["+", "-", "*", "/"]
    for a, b in itertools.product(signs, signs):
        for text in (f"tp {a} fp {b} fn", f"tp {a} -fp {b} 2", f"(tp {a} fp) {b} fn ** 2"):
            by_python = eval(text, {"__builtins__": {}}, names)  # noqa: S307  our own three lines
            assert parse(text) == by_python, text
    assert tn not in names.values()
