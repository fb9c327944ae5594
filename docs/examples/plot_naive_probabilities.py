"""
Can the probabilities of a balanced sample be corrected?
========================================================

A probit model is fitted to all positives and as many negatives, as if they were the population. Is
there a way back to the probabilities of the population?
"""

# %%
# Of the simulated rows 1% are positive. Two in a hundred come from a new device, where the risk is
# higher. The true probabilities are known, so that predictions can be compared with them.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ndtr

from imbfit import DownsampledGLMClassifier, prior_correction

rng = np.random.default_rng(0)
n_rows = 500_000
new_device = rng.random(n_rows) < 0.02
X = np.column_stack([new_device, rng.standard_normal(n_rows)])
truth = ndtr(-3 + X @ [1.8, 0.7])
y = (rng.random(n_rows) < truth).astype(int)

# %%
# `method="naive"` does what is often done. Its probabilities are mapped back by the sampling rate,
# or by isotonic regression, which finds the monotone map that fits best. The default method, the
# conditional likelihood, knows the rate while it fits, and there is nothing to map.

settings = {"link": "probit", "sampling_rate": "balanced", "random_state": 0}
models = {
    "mapped by the rate": DownsampledGLMClassifier(**settings, method="naive"),
    "mapped by isotonic regression": DownsampledGLMClassifier(
        **settings, method="naive", naive_correction="isotonic"
    ),
    "conditional likelihood": DownsampledGLMClassifier(**settings),
}
predictions = {name: glm.fit(X, y).predict_proba(X)[:, 1] for name, glm in models.items()}
rate = models["mapped by the rate"].sampling_rate_
in_sample = prior_correction(predictions["mapped by the rate"], rate, inverse=True)
predictions = {"as the sample says": in_sample} | predictions

# %%
# Reliability curves: rows are cut into twelve groups by their predicted probability, and each point
# shows the mean prediction of a group and its mean true probability. Points on the line are right.

figure, axes = plt.subplots(1, 2, figsize=(9.4, 4.8), layout="constrained")
panels = {
    "all rows": (np.ones(n_rows, dtype=bool), 2e-5),
    "rows of a new device": (new_device, 2e-3),
}
for ax, (title, (rows, lowest)) in zip(axes, panels.items(), strict=True):
    for (name, p), style in zip(predictions.items(), ("s-", "^-", "v-", "o-"), strict=True):
        groups = np.array_split(np.flatnonzero(rows)[np.argsort(p[rows])], 12)
        predicted = [p[group].mean() for group in groups]
        ax.plot(predicted, [truth[group].mean() for group in groups], style, ms=4.5, label=name)
    ax.axline((0.01, 0.01), (0.1, 0.1), color="black", lw=0.8, zorder=0)
    ax.set(xscale="log", yscale="log", xlim=(lowest, 1.1), ylim=(lowest, 1.1), title=title)
    ax.set(xlabel="predicted probability", ylabel="true probability")
axes[0].legend(frameon=False, fontsize=9)
plt.show()

# %%
# Mean predictions relative to the truth, and the coefficient of the new device over that of the
# other feature:

for name, p in predictions.items():
    means = p.mean() / truth.mean(), p[new_device].mean() / truth[new_device].mean()
    print(f"{name}: mean prediction {means[0]:.2f} times the truth, new device {means[1]:.2f}")
for name, glm in models.items():
    print(f"{name}: ratio of the coefficients {np.divide(*glm.coef_[0]):.2f}, true {1.8 / 0.7:.2f}")

# %%
# Mapped by the rate, the mean of all rows is a quarter too high. Isotonic regression repairs most
# of that, but among the rows of a new device small probabilities stay too small and large ones too
# large. The naive fit inflates its two coefficients by unequal factors, so that rows come in the
# wrong order, and no monotone map of the predictions mends that (Lemma 1 of :cite:`chen2025`). The
# conditional likelihood needs no map. With the logit link, and only there, the naive fit errs in
# the intercept alone, and mapping by the rate is exact.
