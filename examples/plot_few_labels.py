"""
A few labels of the target
==========================

What are a few labelled target rows per class worth, next to a whole labelled source? Labelled and
unlabelled target rows go into the same :func:`marda.pack`: rows without a label carry the mark
−1. The setting (unsupervised, semi-supervised) follows from it.

Digits with 8 × 8 pixels: upright ones are the source, ones turned by 30° the target.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import rotate
from sklearn.datasets import load_digits

from marda import MDAClassifier, MDAClassifierCV, pack
from marda.datasets import draw_per_class

COUNTS = (0, 1, 2, 3, 5, 10)
SEEDS = range(3)

digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.target))
s, t, test = order[:400], order[400:700], order[700:]
upright, labels = digits.data, digits.target
turned = rotate(digits.images, 30, axes=(1, 2), reshape=False, order=1).reshape(len(labels), -1)

# %%
# Four models: the framework's ridge on denoised rows (S1), the same with the class means of
# source and target brought together (S1C), the default, and a kernel classifier on target labels
# alone.

shared = dict(noise=0.3, scaling="relative", ridge_class=0.1)
models = {
    "target labels alone": (
        "#888888",
        "o--",
        MDAClassifier("BL", classifier="kernel", ridge_class=0.1),
    ),
    "S1": ("#56B4E9", "v-", MDAClassifier("S1", **shared)),
    "S1C: class means together": ("#0072B2", "s-", MDAClassifier("S1C", **shared)),
    "MDAClassifierCV": ("#D55E00", "D-", MDAClassifierCV(random_state=0)),
}
found = {name: np.full((len(SEEDS), len(COUNTS)), np.nan) for name in models}
for seed in SEEDS:
    for k, count in enumerate(COUNTS):
        yt = np.full(len(t), -1)
        chosen = draw_per_class(labels[t], count, seed) if count else np.array([], dtype=int)
        yt[chosen] = labels[t][chosen]
        X, y, sample_domain = pack(upright[s], labels[s], turned[t], yt)
        for name, (_, _, model) in models.items():
            if name == "target labels alone" and count:
                model.fit(turned[t][chosen], yt[chosen])
            elif name == "target labels alone" or ("S1C" in name and not count):
                continue  # these need a target label
            else:
                model.fit(X, y, sample_domain=sample_domain)
            found[name][seed, k] = model.score(turned[test], labels[test])

# %%
# Accuracy on target rows that no model has seen; means and ranges of three draws of the labelled
# rows.
#
# For ``MDAClassifierCV`` one label per class is worth more than twenty points here. The source
# helps most while labels are fewest; from three per class on, a kernel classifier on those alone
# is nearly as good. The class term C lifts S1 by up to twelve points. Where labels of the target
# can be had, they decide more than any choice of model.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, (colour, line, _) in models.items():
    values, known = found[name], ~np.isnan(found[name][0])
    x = np.arange(len(COUNTS))[known]
    ax.plot(x, values[:, known].mean(0), line, color=colour, label=name)
    ax.fill_between(x, values[:, known].min(0), values[:, known].max(0), color=colour, alpha=0.12)
ax.set_xticks(range(len(COUNTS)), COUNTS)
ax.set(xlabel="labelled target rows per class", ylabel="accuracy on new target rows")
ax.legend(frameon=False, loc="lower right")
plt.show()
