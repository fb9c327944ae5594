"""
Money lost against reviews
==========================

Each missed fraud costs its amount, each review of an honest case costs 5, and a team reviews at
most 15 cases a day. Should cases be ranked by the probability of fraud, or by probability times
amount?
"""

# %%
# Both rankings use the same model; `response_method` says what the score is. A callable gets the
# fitted model and all columns, so the amount need not be a feature.

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression

from imbfit import OTLPThresholdClassifier
from imbfit.datasets import make_rare_events
from imbfit.metrics import capacity, fn, fp

cards = make_rare_events(30_000, random_state=0, as_frame=True)
loss = (5 * fp + fn["amount"]).named("loss", greater_is_better=False)
rankings = {
    "probability": "predict_proba",
    "probability times amount": lambda model, X: model.predict_proba(X)[:, 1] * X["amount"],
}
models = {
    name: OTLPThresholdClassifier(
        LogisticRegression(),
        objective=loss,
        constraints=capacity(15, per="date"),
        amounts={"amount": "amount"},
        estimator_columns=cards.feature_names,
        response_method=response,
    ).fit(cards.frame, cards.y)
    for name, response in rankings.items()
}

# %%
# The sensitivity table has the loss at each threshold. The dots are the chosen thresholds, the
# best ones with which no day has more than 15 reviews.

figure, ax = plt.subplots(layout="constrained")
for name, model in models.items():
    table = model.threshold_table_
    reviews = table["tp"] + table["fp"]
    shown = reviews <= 1500
    (line,) = ax.plot(reviews[shown], table["loss"][shown], label=f"ranked by {name}")
    counts = model.search_.counts
    ax.plot(counts.pp, model.objective_value_, "o", color=line.get_color())
ax.set(xlabel="reviews in 30 days", ylabel="money lost", ylim=(0, None))
ax.legend()
plt.show()

# %%
for name, model in models.items():
    print(f"{name}: {model.search_.counts.pp:.0f} reviews, {model.objective_value_:.0f} lost")

# %%
# Ranked by probability times amount, fewer reviews lose less money.
