"""
Text: from editorials to tweets
===============================

Newspaper opinion pieces with labels, tweets without: is a tweet positive or negative? The counts
of words are embedded in marda (no download).
"""

import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import balanced_accuracy_score

from marda import MDAClassifier, datasets, pack

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#888888"

data = datasets.load("sentiment-snippets")
task = datasets.make_task(data, "editorials", "tweets")  # tf-idf, rows of unit length

# %%
# The 2,000 most frequent words.

columns = np.argsort(-(task.X_source.getnnz(axis=0) + task.X_target.getnnz(axis=0)))[:2000]
words = np.array(data.feature_names)[columns]
Xs, ys = task.X_source[:, columns], task.y_source
Xt, yt = task.X_target[:, columns], task.y_test  # yt only judges
X, y, sample_domain = pack(Xs, ys, Xt)

models = {
    "BL: source only": MDAClassifier("BL", class_weight="balanced"),
    "MCF: noise, no map": MDAClassifier("MCF", noise=0.5, class_weight="balanced"),
    "S1: denoised": MDAClassifier("S1", noise=0.5, ridge_class=0.1, class_weight="balanced"),
    "S1D: like the target": MDAClassifier(
        "S1D", noise=0.9, ridge_class=0.1, class_weight="balanced"
    ),
}
scores = {}
for name, model in models.items():
    model.fit(X, y, sample_domain=sample_domain)
    scores[name] = balanced_accuracy_score(yt, model.predict(Xt))
    print(f"{name:22} {scores[name]:.1%}")

# %%
# Balanced accuracy on the tweets, with a 95 % interval (binomial, for so many rows).
# ``MDAClassifierCV`` chooses the noise and the rest by itself; it takes some ten seconds on
# these rows, and is left out here to be quick.

fig, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
values = np.array(list(scores.values()))
error = 1.96 * np.sqrt(values * (1 - values) / len(yt))
colours = [GREY, "#56B4E9", BLUE, "#009E73"]
for k, (value, e) in enumerate(zip(values, error, strict=True)):
    ax.errorbar(value, k, xerr=e, fmt="o", color=colours[k], capsize=3)
ax.set_yticks(range(len(models)), models)
ax.invert_yaxis()
ax.set(xlabel="balanced accuracy on tweets")
plt.show()

# %%
# Which words weigh differently after denoising? The weight of a word is its column in ``coef_``.
# Words that editorials never use have no weight in the source-only model; through words of both
# domains they get one. (Swear words, which lead the negative side, are not shown.)

shown = np.array([not re.search(" |f.ck|sh.t|b.tch|lmao|wtf", word) for word in words])
only_target = shown & (Xs.getnnz(axis=0) == 0) & (Xt.getnnz(axis=0) >= 15)
assert np.abs(models["BL: source only"].coef_[0, only_target]).max() < 1e-9
after = models["S1: denoised"].coef_[0]
order = np.flatnonzero(only_target)[np.argsort(after[only_target])]
chosen = np.r_[order[:8], order[-8:]]

fig, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
place = np.arange(len(chosen))
ax.barh(place, after[chosen], color=np.where(after[chosen] > 0, BLUE, ORANGE))
ax.set_yticks(place, words[chosen])
ax.axvline(0, color="k", linewidth=0.8)
ax.set(xlabel="weight (negative ← 0 → positive)", title="words that no editorial contains")
plt.show()
