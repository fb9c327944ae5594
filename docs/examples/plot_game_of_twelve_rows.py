"""
The game for twelve rows
========================

A predictor plays for F1 against an adversary that labels twelve scored rows, four of them positive.
What do the two play?
"""

# %%
# The predictor flags rows, and may mix several such sets. The adversary may mix labels with four
# positives each, and is paid the scores of the rows that it labels positive. Only its probability
# `q` for each row counts, and how many of the highest scores the predictor takes.

import matplotlib.pyplot as plt
import numpy as np

from imbfit.adversarial.observed import observed_game, solve_observed
from imbfit.adversarial.payoff import payoff_of
from imbfit.metrics import f1

psi = np.array([0.60, 0.54, 0.38, 0.34, 0.28, 0.20, 0.16, 0.10, 0.06, 0.04, 0.02, 0.00])
positives = 4
game = observed_game(payoff_of(f1, greater_is_better=True), len(psi), positives)
solved = solve_observed(psi, game)
v = solved.value + psi @ solved.q  # the predictor's F1
print(f"F1 that the predictor gets: {v:.3f}, half of it {v / 2:.3f}")

# %%
# With `k` rows flagged, F1 is 2 tp / (k + 4), and the predictor expects as many true positives as
# the `k` largest probabilities sum to. So it gets no more than `v` if they sum to no more than ``v
# (k + 4) / 2``, the line in the second panel. No sum exceeds `k` or 4 either. The adversary puts as
# much on the top rows as these three bounds allow.

rows = np.arange(1, len(psi) + 1)
sizes = np.linspace(0, len(psi), 200)
sums = np.concatenate([[0.0], np.cumsum(solved.q)])

figure, axes = plt.subplots(2, 2, figsize=(9, 6), sharex=True, layout="constrained")
(scores, bounds), (probabilities, mix) = axes
scores.bar(rows, psi, color="0.6")
scores.set(ylabel="score", title="Scores")
bounds.plot(sizes, np.minimum(sizes, positives), color="0.6", ls="--", label="k, and 4 at most")
bounds.plot(sizes, v * (sizes + positives) / 2, color="C1", label="v (k + 4) / 2")
bounds.plot(np.arange(len(sums)), sums, "ko", ms=4, label="the adversary's sums")
bounds.set(ylim=(0, 5.2), ylabel="sum of the k largest", title="Bounds on the adversary")
bounds.legend(frameon=False, loc="lower right")
probabilities.bar(rows, solved.q)
probabilities.axhline(v / 2, color="C1", lw=1, label="v / 2")
probabilities.set(xlabel="row", ylabel="probability of a positive", title="The adversary: q")
probabilities.legend(frameon=False)
mix.bar(solved.sizes, solved.mix, color="C2")
mix.set(xlabel="rows flagged, k", ylabel="probability", title="The predictor: its mix")
mix.set_xticks(rows)
plt.show()

# %%
# Every size that the predictor plays is worth the same to it, and no other is worth more:

for k in rows:
    played = solved.mix[solved.sizes == k].sum()
    print(f"{k:2d} rows, played with {played:.3f}: F1 {2 * sums[k] / (k + positives):.3f}")

# %%
# The adversary is sure of the top rows, gives `v / 2` to each row that could go either way, and
# nothing to the rest. Where the bounds meet within a row, that row gets what is left. In training
# the score of a row is pushed by its label less `q`: a positive at the top and a negative at the
# bottom change nothing, and all that is learnt comes from the plateau and from rows on the wrong
# side.
