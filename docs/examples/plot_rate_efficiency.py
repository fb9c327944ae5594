"""
How many negatives are enough?
==============================

One positive in 500 rows. How many of the negatives can be left out, and what does that cost in
precision?
"""

# %%
# A pilot of a few thousand rows tells how precise each coefficient would be at each sampling rate,
# before anything is fitted. Relative efficiency is the variance of the fit on all rows divided by
# that of the fit on the sample: at 0.9 the sample is worth as much as 90% of the rows.

import matplotlib.pyplot as plt

from imbfit import DownsampledGLMClassifier, SamplingRateDisplay, sampling_rate_curve
from imbfit.datasets import make_rare_events

cards = make_rare_events(200_000, prevalence=0.002, n_features=4, random_state=0, as_frame=True)
curve = sampling_rate_curve(cards.X, cards.y, efficiency=0.9, random_state=0)

# %%
# Left: the efficiency asked for is the dashed line, and the dot is the smallest rate at which every
# coefficient reaches it. Right: what is saved. Reading a row is taken to cost a tenth of fitting
# one. The square is the rate at which a given precision would cost least if there were rows without
# end; with the rows that are there, it throws away more than half of the precision.

SamplingRateDisplay(curve=curve).plot(show=("efficiency", "cost"))
plt.show()

# %%
# The same in negatives per positive:

odds = (1 - curve.prevalence) / curve.prevalence
for negatives in (1, 10, 100):
    kept = curve.worst_at(negatives / odds)
    print(f"{negatives:3} negatives per positive keep {kept:.0%} of the precision")
print(f"90% need {curve.rate * odds:.0f} of {odds:.0f}, a rate of {curve.rate:.2f}")

# %%
# Negatives that look like positives carry most of the information. Kept by chances that a pilot
# says are best, few of them do for 95%:

glm = DownsampledGLMClassifier(sampling="a_optimal", efficiency=0.95, random_state=0)
glm.fit(cards.X, cards.y)
positives = int(cards.y.sum())
print(
    f"chosen by their information, {(glm.n_kept_ - positives) / positives:.1f} negatives per "
    f"positive keep {glm.relative_efficiency_.min():.0%}"
)

# %%
# Where the features tell much, a uniform sample must keep many negatives: one per positive, the
# usual choice, wastes most of the data. Either give up little and keep much, or let unequal chances
# choose which negatives to keep.
