"""
The bias of each method
=======================

All methods get samples drawn at the same rates. From which rate on are their coefficients right?
"""

# %%
# A probit model with three uniform features, where 1% of the rows are positive, is simulated ten
# times. Each method is fitted to samples at rates from half the prevalence to 1.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ndtr

from imbfit import DownsampledGLMClassifier, SamplingWarning

warnings.simplefilter("ignore", SamplingWarning)  # the pseudo-likelihood warns of its bias

coef = np.array([1.0, -1.0, 0.5])
rates = np.array([0.005, 0.01, 0.03, 0.1, 0.3, 1.0])
methods = {
    "cmle": "conditional likelihood",
    "iw": "inverse weights",
    "pseudo_mle": "pseudo-likelihood",
    "naive": "sample taken for the population",
}
length = {method: np.empty((10, len(rates))) for method in methods}
for seed in range(10):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (50_000, 3))
    y = (rng.random(len(X)) < ndtr(-2.77 + X @ coef)).astype(int)
    for j, rate in enumerate(rates):
        for method in methods:
            glm = DownsampledGLMClassifier(
                "probit", method=method, sampling_rate=rate, random_state=seed
            ).fit(X, y)
            length[method][seed, j] = glm.coef_[0] @ coef / (coef @ coef)

# %%
# The points are means of the length of the coefficients along the true ones, so 1 is right. The
# bars are two standard errors of the means. The dotted line is the prevalence.

figure, ax = plt.subplots(figsize=(7.6, 4.6), layout="constrained")
for (method, label), style in zip(methods.items(), ("o-", "s-", "v-", "^-"), strict=True):
    error = 2 * length[method].std(axis=0, ddof=1) / np.sqrt(len(length[method]))
    ax.errorbar(rates, length[method].mean(axis=0), error, fmt=style, capsize=3, label=label)
ax.axhline(1, color="black", lw=0.8, zorder=0)
ax.axvline(0.01, color="black", lw=0.8, ls=":")
ax.set(xscale="log", ylim=(0, 1.6), xlabel="sampling rate")
ax.set_ylabel("fitted coefficients / true coefficients")
ax.legend(frameon=False, loc="lower right")
plt.show()

# %%
for method, label in methods.items():
    shown = ", ".join(
        f"{mean:.2f} at {rate:g}"
        for mean, rate in zip(length[method].mean(axis=0), rates, strict=True)
    )
    print(f"{label}: {shown}")

# %%
# The conditional likelihood and inverse weights are right at every rate, and the former is the more
# precise. The pseudo-likelihood shrinks the coefficients wherever the rate is not far above the
# prevalence; more rows of the same kind would not help it. To take the sample for the population
# inflates them. With the logit link, and no other, that harms the intercept alone.
