"""
Precision with a recall of 0.8
==============================

At least 80% of the positives must be found, with as few false alarms as possible. Does it help to
train under that constraint, or is it enough to choose the threshold under it?
"""

# %%
# Most positives lie on one side of the negatives, and a few on the other, as in
# :doc:`plot_training_for_f1`. Where these few are less than a fifth of all, a line may give them up
# and still find 80%. One model is a logistic regression, the other is trained for precision under
# the constraint, in minibatches of about ten positives, which is quicker than all rows at once: a
# game with a constraint has no closed form. Both thresholds are the best ones under the constraint
# on other rows, and both are tried on new rows.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import precision_recall_curve

from imbfit import AdversarialMetricClassifier, OTLPThresholdClassifier
from imbfit.metrics import precision, recall

warnings.simplefilter("ignore", ConvergenceWarning)  # a few passes do, and no gap is certified


def simulate(rng: np.random.Generator, n_rows: int, second: float) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((n_rows, 2))
    drawn = rng.random(n_rows)
    one, other = drawn < 0.08, (drawn >= 0.08) & (drawn < 0.08 + second)
    X[one] = [3.0, 1.0] + 0.5 * X[one]
    X[other] = [-2.8, 1.8] + 0.5 * X[other]
    return X, (one | other).astype(int)


def fitted(rng: np.random.Generator, second: float) -> dict:
    X, y = simulate(rng, 1_000, second)
    X_cut, y_cut = simulate(rng, 1_000, second)
    goal = {"objective": "precision", "constraints": recall >= 0.8}
    logistic = FrozenEstimator(LogisticRegression().fit(X, y))
    trained = AdversarialMetricClassifier(
        "precision",
        constraints=recall >= 0.8,
        threshold="train",
        batch_size=125,
        max_iter=5,
        random_state=0,
    )
    return {
        "threshold alone": OTLPThresholdClassifier(logistic, **goal).fit(X_cut, y_cut),
        "trained for it": trained.fit(X, y).set_cut(X_cut, y_cut),
    }


shares = np.array([0.0, 0.005, 0.01, 0.015])
n_samples = 4
reached = {
    name: np.empty((2, n_samples, len(shares))) for name in ("threshold alone", "trained for it")
}
for seed in range(n_samples):
    for j, second in enumerate(shares):
        rng = np.random.default_rng(seed)
        models = fitted(rng, second)
        X_new, y_new = simulate(rng, 20_000, second)
        for name, model in models.items():
            flagged = model.predict(X_new)
            reached[name][:, seed, j] = precision(y_new, flagged), recall(y_new, flagged)

# %%
# On the left the curves of one sample, with 1% positives of the second kind, on new rows; dots are
# the chosen thresholds. On the right what training gains in precision, for other shares of the
# second kind: means of four samples, with bars of two standard errors.

rng = np.random.default_rng(0)
models = fitted(rng, 0.01)
X_new, y_new = simulate(rng, 20_000, 0.01)

figure, (curves, gains) = plt.subplots(1, 2, figsize=(9.6, 4.4), layout="constrained")
for (name, model), color, line in zip(models.items(), ("C0", "C1"), ("--", "-"), strict=True):
    found, share, _ = precision_recall_curve(y_new, model.decision_function(X_new))
    curves.plot(share[::10], found[::10], color + line, label=name)
    flagged = model.predict(X_new)
    curves.plot(recall(y_new, flagged), precision(y_new, flagged), color + "o", ms=8)
curves.axvline(0.8, color="black", lw=0.8, ls=":")
curves.set(xlabel="recall on new rows", ylabel="precision on new rows", ylim=(0, 1.02))
curves.legend(frameon=False, loc="lower left")
gain = reached["trained for it"][0] - reached["threshold alone"][0]
mean, error = gain.mean(axis=0), gain.std(axis=0, ddof=1) / np.sqrt(n_samples)
gains.errorbar(100 * shares, mean, 2 * error, fmt="C1o-", capsize=3)
gains.axhline(0, color="black", lw=0.8)
gains.set(xlabel="% positives of the second kind", ylabel="gain in precision on new rows")
plt.show()

# %%
for name, (found, share) in reached.items():
    shown = ", ".join(f"{value:.2f}" for value in found.mean(axis=0))
    print(f"{name}: precision {shown}; recall is at least 0.8 in {(share >= 0.8).mean():.0%}")

# %%
# With one kind of positives there is nothing to gain. Where a few of a second kind turn the
# logistic line and 80% can be found without them, training under the constraint lets them go and is
# the more precise. Neither way holds the constraint on new rows: a threshold that just meets it on
# some rows misses it on others about half of the time. Ask for more than 0.8 where 0.8 is needed.
