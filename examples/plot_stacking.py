"""
Stacking layers
===============

``n_layers`` stacks denoisers: each layer denoises the activated output (tanh) of the one before,
and the classifier acts on all of them together. It is the one part of marda that is not linear in
the features, and it still has a closed form per layer.

Does depth help? Try it, and look at the spread.
"""

import matplotlib.pyplot as plt
import numpy as np

from marda import MDAClassifier, pack
from marda.datasets import make_shift

LAYERS = (1, 2, 3, 4, 5)
NOISE = {0.3: ("#56B4E9", "v-"), 0.6: ("#0072B2", "o-"), 0.9: ("#D55E00", "D-")}
SEEDS = range(5)

found = {p: np.zeros((len(SEEDS), len(LAYERS))) for p in NOISE}
plain, best = [], []
for seed in SEEDS:
    data = make_shift("words", n_source=300, n_target=300, n_features=100, shift=0.8, seed=seed)
    source, target = data["source"], data["target"]
    X, y, sample_domain = pack(source.X, source.y, target.X)
    plain.append(
        MDAClassifier("BL").fit(X, y, sample_domain=sample_domain).score(target.X, target.y)
    )
    best.append(data.best_accuracy)
    for p in NOISE:
        for k, n_layers in enumerate(LAYERS):
            model = MDAClassifier("S1", noise=p, n_layers=n_layers, concatenate=True)
            model.fit(X, y, sample_domain=sample_domain)
            found[p][seed, k] = model.score(target.X, target.y)

# %%
# Means over five draws, with their standard errors. On this shift the level of noise matters more
# than depth: one layer with strong noise is as good as any stack. A second layer does harm,
# further ones make up for it, and the spread grows. Start with one layer.

fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
for p, (colour, line) in NOISE.items():
    error = found[p].std(0, ddof=1) / np.sqrt(len(SEEDS))
    ax.errorbar(
        LAYERS, found[p].mean(0), error, fmt=line, color=colour, capsize=3, label=f"noise {p}"
    )
ax.axhline(np.mean(plain), color="#888888", linestyle="--", label="no denoising (BL)")
ax.axhline(np.mean(best), color="k", linestyle=":", label="best possible")
ax.set_xticks(LAYERS)
ax.set(xlabel="layers", ylabel="accuracy on the target")
ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()
