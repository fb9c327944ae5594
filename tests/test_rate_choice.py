"""Reading sampling_rate, presampled and prevalence."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from imblearn.under_sampling import NearMiss, RandomUnderSampler

from imbfit.glm.rate_choice import RateChoice, read_rate_choice

SAMPLER = RandomUnderSampler(sampling_strategy=0.1)


@pytest.mark.parametrize("rate", [0.05, 1, 1.0, np.float32(0.5), 1e-6])
def test_numbers(rate):
    choice = read_rate_choice(rate)
    assert choice == RateChoice("number", rate=float(rate))
    assert choice.nominal_rate(10, 1000) == float(rate)
    assert not choice.presampled
    assert not choice.balanced


def test_balanced():
    choice = read_rate_choice("balanced")
    assert choice.balanced
    assert choice.nominal_rate(10, 1000) == 0.01
    # positives that are no minority: all rows
    assert choice.nominal_rate(1000, 10) == 1


def test_auto_only_where_it_is_a_choice():
    choice = read_rate_choice("auto", allow_auto=True)
    assert choice.kind == "auto"
    assert choice.rate is None
    with pytest.raises(ValueError, match="not known before the draw"):
        choice.nominal_rate(10, 1000)
    with pytest.raises(ValueError, match="sampling_rate='auto': allowed are"):
        read_rate_choice("auto")


def test_samplers():
    choice = read_rate_choice(SAMPLER)
    assert choice.kind == "sampler"
    assert choice.sampler is SAMPLER
    assert choice.named() == "RandomUnderSampler(...)"
    with pytest.raises(ValueError, match="nearest to the positives"):
        read_rate_choice(NearMiss())
    with pytest.raises(TypeError, match="is a class"):
        read_rate_choice(RandomUnderSampler)


@pytest.mark.parametrize("rate", [0, 0.0, -0.1, 1.0001, np.nan, np.inf, -np.inf, 101])
def test_rates_out_of_range(rate):
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        read_rate_choice(rate)


def test_per_cent_and_ratios_are_translated():
    with pytest.raises(ValueError) as caught:
        read_rate_choice(5)
    assert "write 0.05" in str(caught.value)
    assert "RandomUnderSampler(sampling_strategy=0.2)" in str(caught.value)


@pytest.mark.parametrize("rate", [True, {0: 500}, [0.1], object(), 0.1j, len])
def test_rates_of_the_wrong_type(rate):
    with pytest.raises(TypeError, match="allowed are a number above 0"):
        read_rate_choice(rate)


@pytest.mark.parametrize("rate", ["majority", "Balanced", "", "0.1"])
def test_unknown_words(rate):
    with pytest.raises(ValueError, match="allowed are") as caught:
        read_rate_choice(rate)
    assert repr(rate) in str(caught.value)


def test_none_is_no_rate_where_rows_are_drawn():
    with pytest.raises(ValueError, match="sampling_rate=None"):
        read_rate_choice(None)


# Presampled rows


@pytest.mark.parametrize("rate", [0.05, 1.0])
def test_presampled_at_a_known_rate(rate):
    choice = read_rate_choice(rate, presampled=True)
    assert choice.presampled
    assert choice.presampled_rate(50, 50) == rate


@pytest.mark.parametrize(("unset", "auto"), [("balanced", False), ("auto", True), (None, False)])
def test_presampled_at_a_known_prevalence(unset, auto):
    choice = read_rate_choice(unset, presampled=True, prevalence=0.01, allow_auto=auto)
    assert choice == RateChoice("presampled", prevalence=0.01)
    # 100 positives at 1 % are of 9,900 negatives
    assert choice.presampled_rate(100, 990) == pytest.approx(0.1, rel=1e-14)


@given(
    prevalence=st.floats(1e-6, 0.5),
    rate=st.floats(1e-3, 1),
    rows=st.integers(10**4, 10**7),
)
def test_the_rate_that_made_the_sample_is_found(prevalence, rate, rows):
    positives, negatives = rows * prevalence, rows * (1 - prevalence)
    choice = read_rate_choice("balanced", presampled=True, prevalence=prevalence)
    assert choice.presampled_rate(positives, rate * negatives) == pytest.approx(rate, rel=1e-9)


@pytest.mark.parametrize(("unset", "auto"), [("balanced", False), ("auto", True), (None, True)])
def test_presampled_rows_alone_tell_no_rate(unset, auto):
    with pytest.raises(ValueError) as caught:
        read_rate_choice(unset, presampled=True, allow_auto=auto)
    text = str(caught.value)
    assert "prevalence=" in text
    # the way that needs neither
    assert "sampling_rate=RandomUnderSampler(...), whose realised rate is counted" in text


def test_a_prevalence_above_the_share_in_the_sample():
    choice = read_rate_choice("balanced", presampled=True, prevalence=0.5)
    assert choice.presampled_rate(10, 10) == 1
    with pytest.raises(ValueError, match=re.escape("above the share of positives")) as caught:
        choice.presampled_rate(10, 20)
    assert "0.333333" in str(caught.value)


CONTRADICTIONS = [
    ({"sampling_rate": 0.1, "prevalence": 0.01}, "says nothing where the rows given to fit are"),
    ({"sampling_rate": "balanced", "prevalence": 0.01}, "says nothing"),
    ({"sampling_rate": SAMPLER, "prevalence": 0.01}, "says nothing"),
    ({"sampling_rate": 0.1, "prevalence": 0.01, "presampled": True}, "leave out one of them"),
    ({"sampling_rate": SAMPLER, "presampled": True}, "would thin rows that are a sample"),
    ({"sampling_rate": SAMPLER, "presampled": True, "prevalence": 0.01}, "would thin rows"),
    ({"sampling_rate": NearMiss(), "presampled": True}, "NearMiss"),
    ({"sampling_rate": RandomUnderSampler, "presampled": True}, "would thin rows"),
    ({"sampling_rate": "auto", "presampled": True}, "nothing is drawn"),
    (
        {"sampling_rate": "balanced", "presampled": True, "prevalence": 0.1, "allow_auto": True},
        "nothing is drawn",
    ),
]


@pytest.mark.parametrize(("parameters", "message"), CONTRADICTIONS)
def test_contradictions_and_inert_combinations(parameters, message):
    with pytest.raises(ValueError, match=message):
        read_rate_choice(**parameters)


@pytest.mark.parametrize("prevalence", [0, 1, -0.1, np.nan, 1.5])
def test_prevalences_out_of_range(prevalence):
    with pytest.raises(ValueError, match="above 0 and below 1"):
        read_rate_choice("balanced", presampled=True, prevalence=prevalence)


def test_a_prevalence_in_per_cent():
    with pytest.raises(ValueError, match=re.escape("write 0.015")):
        read_rate_choice("balanced", presampled=True, prevalence=1.5)


@pytest.mark.parametrize("prevalence", [True, "0.1", [0.1]])
def test_prevalences_of_the_wrong_type(prevalence):
    with pytest.raises(TypeError, match="prevalence="):
        read_rate_choice("balanced", presampled=True, prevalence=prevalence)


@pytest.mark.parametrize("presampled", [1, "yes", None])
def test_presampled_is_a_flag(presampled):
    with pytest.raises(TypeError, match="give True or False"):
        read_rate_choice(0.1, presampled=presampled)


def test_an_array_flag_is_fine():
    assert read_rate_choice(0.1, presampled=np.True_).presampled
