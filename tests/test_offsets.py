"""Reading the user's offset."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from imbfit.glm.offsets import called_offset, checked_offset, offset_column

FRAME = pd.DataFrame({"age": [30.0, 40.0], "log_years": [0.0, -1.0]})


@pytest.mark.parametrize("X", [FRAME, pl.from_pandas(FRAME)])
def test_a_name_gives_the_position(X):
    assert offset_column(X, "log_years") == 1


@pytest.mark.parametrize("X", [FRAME.to_numpy(), sp.csr_array(FRAME.to_numpy()), [[1, 2], [3, 4]]])
@pytest.mark.parametrize(("offset", "expected"), [(1, 1), (-1, 1), (0, 0), (np.int64(1), 1)])
def test_a_position_in_an_array(X, offset, expected):
    assert offset_column(X, offset) == expected


def test_a_name_that_is_a_number_in_a_frame():
    X = pd.DataFrame(np.zeros((2, 3)), columns=[7, 8, 9])
    assert offset_column(X, 8) == 1


@pytest.mark.parametrize(
    ("X", "offset", "error", "message"),
    [
        (FRAME, "years", ValueError, r"'years' is no column.*'age', 'log_years'"),
        (FRAME, 1, ValueError, r"offset=1 is no column.*'age', 'log_years'"),
        (FRAME.to_numpy(), "age", ValueError, "is a name, but X is of type ndarray"),
        (FRAME.to_numpy(), 2, ValueError, "which has 2 columns"),
        (FRAME.to_numpy(), 0.5, TypeError, "name or position, or a callable"),
        (FRAME.to_numpy(), True, TypeError, "name or position, or a callable"),
        (pd.concat([FRAME, FRAME], axis=1), "age", ValueError, "the name of 2 columns"),
    ],
)
def test_what_is_no_column_is_refused(X, offset, error, message):
    with pytest.raises(error, match=message):
        offset_column(X, offset)


def test_callables_give_one_value_per_row():
    assert offset_column(FRAME, len) is None
    assert called_offset(FRAME, "age") is None
    np.testing.assert_array_equal(called_offset(FRAME, lambda X: X["log_years"]), [0, -1])
    np.testing.assert_array_equal(called_offset(FRAME, lambda X: X[["log_years"]]), [0, -1])
    with pytest.raises(ValueError, match=r"shape \(2, 2\) for 2 rows"):
        called_offset(FRAME, lambda X: X)
    with pytest.raises(ValueError, match=r"shape \(\) for 2 rows"):
        called_offset(FRAME, lambda _: 1.0)


def test_rows_that_are_not_finite_are_named():
    with pytest.raises(ValueError, match=r"NaN or infinite in 1 row \(position 1\)"):
        checked_offset([0.0, -np.inf])
    with pytest.raises(ValueError, match="no numbers"):
        checked_offset(["a", "b"])
