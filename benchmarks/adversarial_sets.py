"""Real, imbalanced sets, and the features that every method of a study gets."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix, issparse
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

ROOT = Path(__file__).resolve().parents[1]
FARTHEST = 10.0
RAREST_LEVEL = 10


@dataclass(frozen=True)
class RealSet:
    """A set and how to read it.

    Attributes
    ----------
    name : str
        Of its file.
    rows, positives : int
        As the file has them; the small sets come first in a study.
    target : callable
        From the frame to what is positive.
    dropped : tuple of str
        The target, identifiers, and what is known only after the event.
    nominal : tuple of str
        Columns of numbers that are names.
    sparse : bool
        All columns are 0 or 1, and mostly 0.
    """

    name: str
    rows: int
    positives: int
    target: Callable[[pd.DataFrame], Any]
    dropped: tuple[str, ...]
    nominal: tuple[str, ...] = ()
    sparse: bool = False

    @property
    def path(self) -> Path:
        """Where it is looked for."""
        return data_folder() / f"{self.name}.parquet"

    def load(self, most: int | None = None) -> tuple[Any, np.ndarray]:
        """Return features as they are, and what is positive.

        Parameters
        ----------
        most : int, default=None
            So many rows, drawn at random, are enough.
        """
        frame = pd.read_parquet(self.path)
        if most is not None and most < len(frame):
            frame = frame.sample(most, random_state=0)
        y = np.asarray(self.target(frame), dtype=int)
        X = frame.drop(columns=list(self.dropped))
        if self.sparse:
            return csr_matrix(X.to_numpy(float)), y
        names = [c for c in X.columns if not pd.api.types.is_numeric_dtype(X[c])]
        for name in {*names, *self.nominal}:
            X[name] = X[name].astype(object).where(X[name].notna(), "missing").astype(str)
        return X, y


def features(X: Any) -> Pipeline:
    """Return what turns the columns into numbers: one-hot, medians, scaled and clipped."""
    if issparse(X):
        return make_pipeline("passthrough")
    numbers = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True),
        StandardScaler(),
        FunctionTransformer(np.clip, kw_args={"a_min": -FARTHEST, "a_max": FARTHEST}),
    )
    names = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=RAREST_LEVEL)
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include=np.number)),
        (names, make_column_selector(dtype_exclude=np.number)),
    )
    return make_pipeline(columns)


def data_folder() -> Path:
    """Return where the data are looked for."""
    return Path(os.environ.get("IMBFIT_DATA", ROOT / ".." / "shared" / "data"))


SETS = [
    RealSet("oil_spill", 937, 41, lambda d: d["y"] == 1, ("y", "f1")),
    RealSet("ulb_fraud_casecontrol", 5_492, 492, lambda d: d["Class"] == 1, ("Class",)),
    RealSet(
        "caravan_coil2000",
        5_822,
        348,
        lambda d: d["Purchase"] == "Yes",
        ("Purchase",),
        nominal=("MOSTYPE", "MOSHOOFD"),
    ),
    RealSet(
        "thyroid0387",
        9_172,
        667,
        lambda d: d["target"].str[0].isin(list("EFGH")),
        ("target", "patient_id"),
    ),
    RealSet(
        "churn_tv_costs",
        9_379,
        449,
        lambda d: d["target"] == 1,
        ("target", "id", "C_FP", "C_FN", "C_TP", "C_TN"),
    ),
    RealSet("mammography", 11_183, 260, lambda d: d["y"] == "'1'", ("y",)),
    RealSet(
        "vehicle_claim_fraud",
        15_420,
        923,
        lambda d: d["FraudFound_P"] == 1,
        ("FraudFound_P", "PolicyNumber"),
        nominal=("RepNumber", "Year"),
    ),
    RealSet(
        "w7a_web_sparse", 49_749, 1_479, lambda d: d["y"].astype(str) == "1", ("y",), sparse=True
    ),
    RealSet(
        "hillstrom_email",
        64_000,
        578,
        lambda d: d["conversion"] == 1,
        ("visit", "conversion", "spend"),
    ),
    RealSet("ecom_fraud_flat", 92_790, 1_319, lambda d: d["fraud_flag"] == 1, ("fraud_flag", "ID")),
    RealSet("ulb_fraud_truncated_113922", 113_922, 179, lambda d: d["Class"] == 1, ("Class",)),
    RealSet("brfss2015_half", 126_840, 5_136, lambda d: d["Stroke"] == 1, ("Stroke",)),
    RealSet(
        "give_me_some_credit",
        150_000,
        10_026,
        lambda d: d["SeriousDlqin2yrs"] == 1,
        ("SeriousDlqin2yrs", "id"),
    ),
    RealSet("norauto", 183_999, 8_444, lambda d: d["NbClaim"] > 0, ("NbClaim", "ClaimAmount")),
]
