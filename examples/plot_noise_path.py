"""
The noise path
==============

How much noise? :func:`marda.noise_path` gives the denoising map for every level from one
eigendecomposition, so that one can look at all of them for the price of a few fits.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeClassifier

from marda import MDA, noise_path
from marda.datasets import make_shift

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#888888"

data = make_shift("words", n_source=400, n_target=400, n_features=200, shift=0.8, seed=3)
Xs, ys = data["source"].X.toarray(), data["source"].y
Xt, yt = data["target"].X.toarray(), data["target"].y
both = np.vstack([Xs, Xt])

# %%
# All levels at once.

levels = np.linspace(0.02, 0.98, 25)
start = time.perf_counter()
path = noise_path(both, levels, ridge=1e-3)
rows = [(path[k].apply(Xs), path[k].apply(Xt)) for k in range(len(levels))]
seconds = time.perf_counter() - start

start = time.perf_counter()
for p in levels[::8]:
    MDA("S1", noise=p).fit(both)
each = (time.perf_counter() - start) / len(levels[::8])
print(
    f"{len(levels)} levels: {seconds:.2f} s, with all rows mapped; one separate fit: {each:.2f} s"
)

# %%
# What the level does. The more noise, the fewer directions are left, and the more each word
# borrows from those around it. Here accuracy grows with it, and passes what is possible without
# the words that only the target uses: their meaning came through words of both.

accuracy, variation = [], []
for Hs, Ht in rows:
    model = RidgeClassifier(alpha=1e-3 * np.square(Hs - Hs.mean(0)).sum()).fit(Hs, ys)
    accuracy.append(model.score(Ht, yt))
    values = np.linalg.svd(np.vstack([Hs, Ht]) - np.vstack([Hs, Ht]).mean(0), compute_uv=False) ** 2
    variation.append(values.sum() ** 2 / (values**2).sum())

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(levels, accuracy, "o-", color=ORANGE, markersize=4, label="ridge on denoised rows")
plain = RidgeClassifier(alpha=1e-3 * np.square(Xs - Xs.mean(0)).sum()).fit(Xs, ys).score(Xt, yt)
left.axhline(plain, color=GREY, linestyle="--", label="ridge on the rows as they are")
left.axhline(data.best_accuracy, color=GREEN, linestyle=":", label="best possible")
left.axhline(
    data.shared_accuracy, color=BLUE, linestyle="-.", label="best without the target's own words"
)
left.set(xlabel="noise (probability to drop a word)", ylabel="accuracy on the target")
left.legend(frameon=False, fontsize=8.5)
right.plot(levels, variation, "o-", color=BLUE, markersize=4)
right.set(
    xlabel="noise (probability to drop a word)",
    ylabel="directions that carry the variance",
    yscale="log",
)
plt.show()
