"""
Capacity per region
===================

Each region has its own reviewers, for 10 of 1000 cases. What would be gained if they shared the
work?
"""

# %%
# The regions are the segments of the simulated data: S1 is the largest one and has the lowest
# share of fraud, S4 is the smallest and has the highest. A missed fraud costs its amount, a review
# of an honest case costs 5.

import matplotlib.pyplot as plt
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from imbfit import OTLPThresholdClassifier, ThresholdDisplay
from imbfit.datasets import make_rare_events
from imbfit.metrics import capacity, each_segment, fn, fp

cards = make_rare_events(30_000, random_state=0, as_frame=True)
model = OTLPThresholdClassifier(
    LogisticRegression(),
    objective=(5 * fp + fn["amount"]).named("money lost", greater_is_better=False),
    constraints=each_segment(capacity(10, per=1000)),
    segments="segment",
    amounts={"amount": "amount"},
    estimator_columns=cards.feature_names,
).fit(cards.frame, cards.y)

# %%
# Each panel shows the money lost by the whole as one region flags more cases while the others keep
# their thresholds. The region's capacity bounds the shaded part. In the small regions the loss
# still falls steeply where the capacity ends.

ThresholdDisplay.from_search(model.search_, x="flagged")
plt.show()

# %%
# The same number of reviewers, free to work for any region:

shared = clone(model).set_params(constraints=capacity(10, per=1000))
shared.fit(cards.frame, cards.y)
for name, chosen in {"own reviewers": model, "shared reviewers": shared}.items():
    flagged = {region: int(c.pp) for region, c in chosen.search_.segment_counts.items()}
    print(f"{name}: flagged {flagged}, money lost {chosen.objective_value_:.0f}")

# %%
# Shared reviewers lose 14% less money: work moves from S1, where fraud is rare, to the others.
