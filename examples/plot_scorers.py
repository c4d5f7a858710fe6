"""
Label-free scorers against the truth
====================================

There are no target labels to tune on, so models are compared by evidence that needs none. marda
has eight such scorers. How well does each order a set of candidates? Here the target's labels are
known, and each scorer is set against the true accuracy.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr

from marda import MDAClassifier, pack
from marda.datasets import make_shift
from marda.selection import CRITERIA, get_criterion

data = make_shift("words", n_source=250, n_target=250, n_features=60, shift=0.7, seed=2)
source, target = data["source"], data["target"]
X, y, sample_domain = pack(source.X.toarray(), source.y, target.X.toarray())

# %%
# Twenty-four candidates: three methods, four levels of noise, two ridges of the class predictor.

candidates = [
    MDAClassifier(method, noise=noise, ridge_class=ridge)
    for method in ("S1", "S1M", "S1D")
    for noise in (0.1, 0.4, 0.7, 0.9)
    for ridge in (1.0, 30.0)
]
truth = []
scores = {name: [] for name in CRITERIA}
for model in candidates:
    model.fit(X, y, sample_domain=sample_domain)
    truth.append(model.score(target.X.toarray(), target.y))
    for name in CRITERIA:
        scores[name].append(get_criterion(name)(model, X, y, sample_domain=sample_domain))

# %%
# Each point is a candidate; ρ is the rank correlation with the truth. Orange: the candidate that
# the scorer would choose. Colours and shapes tell the methods apart.
#
# On one data set a scorer may be right by luck, and none is right always: entropy likes whatever
# is sure of itself, the A-distance likes features that forget. Two scorers that fail for
# different reasons are better than one.

looks = {"S1": ("#0072B2", "o"), "S1M": ("#009E73", "s"), "S1D": ("#CC79A7", "^")}
fig, axes = plt.subplots(2, 4, figsize=(10, 5.4), sharey=True, layout="constrained")
truth = np.array(truth)
for ax, (name, values) in zip(axes.flat, scores.items(), strict=True):
    values = np.array(values)
    for method, (colour, marker) in looks.items():
        mine = np.array([model.method == method for model in candidates])
        ax.scatter(
            values[mine], truth[mine], s=22, color=colour, marker=marker, label=method, alpha=0.8
        )
    chosen = values.argmax()
    ax.scatter(
        values[chosen], truth[chosen], s=130, facecolors="none", edgecolors="#D55E00", linewidths=2
    )
    ax.set_title(f"{name}\nρ = {spearmanr(values, truth).statistic:+.2f}", fontsize=10)
    ax.set_xlabel("score (higher is better)", fontsize=9)
    ax.tick_params(labelsize=8)
    ax.locator_params(axis="x", nbins=4)
for ax in axes[:, 0]:
    ax.set_ylabel("true accuracy")
axes[0, 0].legend(frameon=False, fontsize=8)
plt.show()
