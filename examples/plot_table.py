"""
A table: another laboratory, other units
========================================

Measurements of tumours, as a pandas table. One laboratory has diagnoses; the other has not, and
its instruments differ: each column has a gain and an offset of its own.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marda import MDAClassifierCV, pack

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#888888"

table = load_breast_cancer(as_frame=True)
frame, diagnosis = table.data, table.target.map({0: "malignant", 1: "benign"})
order = np.random.default_rng(0).permutation(len(frame))
source, other = frame.iloc[order[:280]], frame.iloc[order[280:]]
ys, yt = diagnosis.iloc[order[:280]].to_numpy(), diagnosis.iloc[order[280:]].to_numpy()


def other_laboratory(rows, strength, seed):
    """Every column with a gain and an offset of its own."""
    rng = np.random.default_rng(seed)
    gain = np.exp(rng.normal(0, 0.5 * strength, rows.shape[1]))
    offset = rng.normal(0, strength, rows.shape[1]) * rows.std().to_numpy()
    return rows * gain + offset


# %%
# Labels may be words, and unlabelled rows are marked by themselves: ``pack`` takes care of it.

strengths, draws = np.array([0.0, 0.5, 1.0, 2.0, 3.0]), 3
plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(source.to_numpy(), ys)
found = np.zeros((draws, len(strengths), 3))
for seed, k in np.ndindex(draws, len(strengths)):
    target = other_laboratory(other, strengths[k], seed)
    X, y, sample_domain = pack(source.to_numpy(), ys, target.to_numpy())
    model = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=sample_domain)
    found[seed, k] = (
        plain.score(target.to_numpy(), yt),
        model.score(target.to_numpy(), yt),
        model.calibration_["expected_accuracy"],
    )

# %%
# Left: accuracy as the instruments differ more, as a mean over three sets of instruments, and
# what the model expected of itself. Right: two of the columns, for the strongest change.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
mean = found.mean(0)
left.plot(strengths, mean[:, 0], "o--", color=GREY, label="logistic regression, source only")
left.plot(strengths, mean[:, 1], "D-", color=ORANGE, label="MDAClassifierCV")
left.plot(strengths, mean[:, 2], ":", color="k", label="its expectation")
left.axhline((yt == "benign").mean(), color=GREY, linewidth=0.8)
left.annotate("naming the commonest class", (0.02, (yt == "benign").mean() + 0.01), fontsize=9)
left.set(xlabel="difference of the instruments", ylabel="accuracy on the target", ylim=(0.3, 1.02))
left.legend(frameon=False, loc="lower left")
a, b = "mean texture", "mean smoothness"
for rows, labels, face in ((source, ys, False), (target, yt, True)):
    for label, colour, marker in (("benign", BLUE, "o"), ("malignant", ORANGE, "^")):
        mine = rows[labels == label]
        look = {"color": colour} if face else {"facecolors": "none", "edgecolors": colour}
        right.scatter(
            mine[a],
            mine[b],
            s=16,
            marker=marker,
            linewidths=0.8,
            alpha=0.8,
            **look,
            label=f"{'target' if face else 'source'}, {label}",
        )
right.set(xlabel=a, ylabel=b)
right.legend(frameon=False, fontsize=8)
plt.show()
