"""
How far apart the domains are, before and after
===============================================

Two measures that need no label. The **A-distance** asks how well a classifier can tell which
domain a row comes from: 0 is not at all, 2 is always. The **MMD** compares the two clouds of rows
with a Gaussian kernel.

Closer domains are evidence that adaptation helps, not proof: features that forget everything are
close, too. So accuracy is shown beside them.
"""

import matplotlib.pyplot as plt
import numpy as np

from marda import MDAClassifier, pack
from marda.datasets import make_shift
from marda.diagnostics import a_distance, domain_accuracy, mmd

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#888888"

data = make_shift("words", n_source=400, n_target=400, shift=0.6, seed=1)
source, target = data["source"], data["target"]
X, y, sample_domain = pack(source.X, source.y, target.X)

# %%
# S1 denoises only. S1M also brings the means of the domains together, the more the larger its
# weight γ (``domain_loss_weight``).

settings = {"the rows as they are": None, "S1": dict(method="S1")}
for weight in (1, 10, 100):
    settings[f"S1M, γ = {weight}"] = dict(method="S1M", domain_loss_weight=weight)

names, distances, discrepancies, accuracies, maps = list(settings), [], [], [], []
for arguments in settings.values():
    if arguments is None:
        Hs, Ht = source.X.toarray(), target.X.toarray()
        model = MDAClassifier("BL").fit(X, y, sample_domain=sample_domain)
    else:
        model = MDAClassifier(noise=0.7, **arguments).fit(X, y, sample_domain=sample_domain)
        Hs, Ht = model.transform(source.X), model.transform(target.X)
    maps.append((Hs, Ht))
    distances.append(a_distance(domain_accuracy(Hs, Ht)))
    discrepancies.append(mmd(Hs, Ht))
    accuracies.append(model.score(target.X, target.y))

# %%
# Points are estimates, lines their 95 % bootstrap intervals.
#
# S1 gains ten points of accuracy while the MMD grows. S1M with a large weight makes the domains
# indistinguishable for a linear classifier, and gains nothing more. Distances warn, and labels
# decide.

fig, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True, layout="constrained")
places = np.arange(len(names))
for ax, values in zip(axes, (distances, discrepancies), strict=False):
    for k, v in enumerate(values):
        ax.plot([v.low, v.high], [k, k], color=GREY if k == 0 else BLUE, linewidth=2)
        ax.plot(v.value, k, "o", color=GREY if k == 0 else BLUE)
axes[2].scatter(accuracies, places, color=[GREY, *[ORANGE] * (len(names) - 1)], zorder=3)
axes[2].axvline(data.best_accuracy, color="k", linestyle=":")
axes[2].annotate(
    "best possible", (data.best_accuracy, 0.1), (-4, 0), textcoords="offset points", ha="right"
)
axes[0].set(yticks=places, yticklabels=names, xlabel="A-distance (0 to 2)", xlim=(-0.05, 2.05))
axes[1].set(xlabel="MMD", xlim=(0, None))
axes[2].set(xlabel="accuracy on the target")
axes[0].invert_yaxis()
plt.show()

# %%
# The rows themselves, along the two directions that vary most.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for ax, k in zip(axes, (0, len(names) - 1), strict=True):
    Hs, Ht = maps[k]
    both = np.vstack([Hs, Ht])
    _, _, V = np.linalg.svd(both - both.mean(0), full_matrices=False)
    for H, colour, marker, label in ((Hs, BLUE, "o", "source"), (Ht, ORANGE, "x", "target")):
        P = (H - both.mean(0)) @ V[:2].T
        face = {"facecolors": "none", "edgecolors": colour} if marker == "o" else {"color": colour}
        ax.scatter(*P.T, s=14, marker=marker, linewidths=0.9, label=label, **face)
    ax.set(title=names[k], xlabel="first direction", ylabel="second direction")
axes[0].legend()
plt.show()
