"""
Constraints that can't be met
=============================

Find 60% of the fraud, flag at most 10 of 1000 cases, and let at least a quarter of what is flagged
in each segment be fraud. Why is that too much, and what would do?
"""

# %%
# The error names the constraints that conflict. Without any one of them the others can be met. For
# each of them it says what can be reached while the others hold.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from imbfit import InfeasibleConstraints, OTLPThresholdClassifier, search_thresholds
from imbfit.datasets import make_rare_events
from imbfit.metrics import capacity, each_segment, precision, recall

cards = make_rare_events(30_000, random_state=0, as_frame=True)
model = OTLPThresholdClassifier(
    LogisticRegression(),
    objective="f1",
    constraints=[recall >= 0.6, capacity(10, per=1000), each_segment(precision >= 0.25)],
    segments="segment",
    estimator_columns=cards.feature_names,
)
try:
    model.fit(cards.frame, cards.y)
except InfeasibleConstraints as error:
    print(error)

# %%
# The figure shows how far recall and precision go together: the best recall for each bound on
# precision, found on out-of-fold scores, without and with the capacity. What was asked for lies
# above both curves.

scores = cross_val_predict(LogisticRegression(), cards.X, cards.y, method="predict_proba")
bounds = np.linspace(0.1, 0.5, 41)
capacities = {"any number of cases": [], "at most 10 of 1000 cases": [capacity(10, per=1000)]}

figure, ax = plt.subplots(layout="constrained")
for label, limits in capacities.items():
    best = [
        search_thresholds(
            cards.y,
            scores[:, 1],
            objective="recall",
            constraints=[each_segment(precision >= bound), *limits],
            segments=cards.segment,
        ).objective_value
        for bound in bounds
    ]
    ax.plot(bounds, best, label=label)
ax.plot(0.25, 0.6, "kx", markersize=10, label="asked for")
ax.set(xlabel="lowest precision allowed in a segment", ylabel="highest recall", ylim=(0, 1))
ax.legend()
plt.show()

# %%
# Where the rules must be met as nearly as possible, `infeasible="least_violation"` returns the
# choice whose largest violation, relative to its bound, is smallest. It warns.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model.set_params(infeasible="least_violation").fit(cards.frame, cards.y)
print(caught[-1].message)
for line in model.constraint_report_:
    where = f" ({line['segment']})" if line["segment"] else ""
    print(f"{line['constraint']}{where}: {line['value']:.3f}")

# %%
# With a precision of 0.25 in each segment no more than 54% of the fraud can be found, whatever the
# capacity. The capacity would stop it at 43%. The error names one conflict that can't be reduced;
# once it is settled, the next one shows.
