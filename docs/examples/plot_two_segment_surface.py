"""
Two segments, one surface
=========================

F1 is not a sum over segments: the best threshold of one depends on the other. Where does the best
pair lie, and which pairs meet the constraints?
"""

# %%
# Two segments share a capacity of 8 cases in 1000, and each must have a precision of at least 0.4.

import matplotlib.pyplot as plt
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from imbfit import OTLPThresholdClassifier, ThresholdDisplay
from imbfit.datasets import make_rare_events
from imbfit.metrics import capacity, each_segment, precision

cards = make_rare_events(30_000, n_segments=2, random_state=0, as_frame=True)
model = OTLPThresholdClassifier(
    LogisticRegression(),
    objective="f1",
    constraints=[capacity(8, per=1000), each_segment(precision >= 0.4)],
    segments="segment",
    estimator_columns=cards.feature_names,
).fit(cards.frame, cards.y)

# %%
# The colours are F1 of the whole for each pair of thresholds. Grey pairs miss a constraint. The
# star is the pair that was chosen.

figure, ax = plt.subplots(figsize=(7.2, 5.6), layout="constrained")
search = model.search_
ThresholdDisplay(
    tables=search.tables,
    thresholds=search.thresholds,
    objective=search.objective,
    greater_is_better=search.greater_is_better,
    constraints=search.rules,
).plot_surface(ax)
plt.show()

# %%
# The same without the bound on precision:

loose = clone(model).set_params(constraints=capacity(8, per=1000)).fit(cards.frame, cards.y)
for name, chosen in {"capacity and precision": model, "capacity alone": loose}.items():
    cuts = {segment: round(cut, 3) for segment, cut in chosen.thresholds_.items()}
    print(f"{name}: thresholds {cuts}, F1 {chosen.objective_value_:.3f}, gap {chosen.gap_}")

# %%
# The bound on precision moves the threshold of S1 up. That frees capacity, which goes to S2: its
# threshold falls, though its own precision was never in question.
