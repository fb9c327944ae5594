"""
Exposure as an offset
=====================

Insurance policies are observed for anything from a few days to a year. What happens to the claim
probabilities if that is ignored?
"""

# %%
# Claims come at a yearly rate exp(eta) that depends on customer and car. A policy that is observed
# for the part t of a year has a claim with probability 1 - exp(-t exp(eta)), which is a cloglog
# model with the offset log t. New customers claim more often, but have been observed for a shorter
# time.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from imbfit import DownsampledGLMClassifier

rng = np.random.default_rng(0)
n_rows = 300_000
new_customer = rng.random(n_rows) < 0.3
exposure = np.where(new_customer, rng.uniform(0.02, 0.5, n_rows), rng.uniform(0.3, 1, n_rows))
policies = pd.DataFrame(
    {
        "new customer": new_customer.astype(float),
        "power of the car": rng.standard_normal(n_rows),
        "bonus": rng.uniform(0, 1, n_rows),
    }
)
coef = np.array([0.7, 0.3, -1.0])
eta = -4.2 + policies.to_numpy() @ coef
y = (rng.random(n_rows) < -np.expm1(-exposure * np.exp(eta))).astype(int)
print(f"{y.mean():.2%} of {n_rows:,} policies have a claim")

# %%
# All positives and a tenth of the negatives are fitted three times: with the exposure as offset, as
# a feature, and not at all. The column that `offset` names is no feature.

settings = {"link": "cloglog", "sampling_rate": 0.1, "random_state": 0}
as_offset = policies.assign(log_exposure=np.log(exposure))
as_feature = policies.assign(exposure=exposure)
models = {
    "offset": DownsampledGLMClassifier(**settings, offset="log_exposure").fit(as_offset, y),
    "feature": DownsampledGLMClassifier(**settings).fit(as_feature, y),
    "ignored": DownsampledGLMClassifier(**settings).fit(policies, y),
}

# %%
# Coefficients with intervals of 95%, and the true ones as black lines:

figure, ax = plt.subplots(figsize=(7.4, 3.8), layout="constrained")
for j, (name, glm) in enumerate(models.items()):
    low, high = glm.conf_int()[1:4].T
    centre = glm.coef_[0, :3]
    height = np.arange(3) + 0.22 * (j - 1)
    ax.errorbar(
        centre, height, xerr=(centre - low, high - centre), fmt="o^s"[j], capsize=3, label=name
    )
ax.vlines(coef, np.arange(3) - 0.35, np.arange(3) + 0.35, color="black", lw=1)
ax.axvline(0, color="black", lw=0.8, ls=":")
ax.set_yticks(range(3), policies.columns)
ax.invert_yaxis()
ax.set_xlabel("coefficient")
ax.legend(title="exposure as", frameon=False)
plt.show()

# %%
# What the insurer wants to know is the probability of a claim within a full year, whose offset is
# log 1 = 0:

year = as_offset.assign(log_exposure=0.0)
p = models["offset"].predict_proba(year)[:, 1]
ignored = models["ignored"].predict_proba(policies)[:, 1]
true = -np.expm1(-np.exp(eta))
for name, rows in {"new customers": new_customer, "others": ~new_customer}.items():
    print(
        f"{name}: {true[rows].mean():.2%} in a year, {p[rows].mean():.2%} with the offset, "
        f"{ignored[rows].mean():.2%} if exposure is ignored"
    )

# %%
# Ignored, exposure makes the new customers, who claim twice as often, look like the better ones. As
# a feature it leaves their coefficient biased, since its effect is not linear. As an offset it is
# right, and probabilities for any length of time come out of one model.
