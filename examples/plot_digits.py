"""
Images: digits that were blurred, dimmed, covered
=================================================

Clean digits have labels; the target is the same kind of image after something went wrong with the
camera. Eight times eight pixels are few, so that all of it takes seconds; for photographs, take
the features of any network and go on as here.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter, rotate
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marda import MDAClassifier, MDAClassifierCV, pack

digits = load_digits()
rng = np.random.default_rng(0)
order = rng.permutation(len(digits.target))
s, t = order[:500], order[500:1000]
images = digits.images


def covered(A):
    A = A.copy()
    A[:, :3] = 0
    return A


damage = {
    "noisy": lambda A: np.clip(A + rng.normal(0, 5, A.shape), 0, 16),
    "blurred": lambda A: gaussian_filter(A, sigma=(0, 1, 1)),
    "dimmed": lambda A: 0.3 * A,
    "turned by 20°": lambda A: rotate(A, 20, axes=(1, 2), reshape=False, order=1),
    "covered": covered,
}
targets = {name: change(images[t]) for name, change in damage.items()}

# %%
# Four digits, clean and damaged.

fig, axes = plt.subplots(4, 6, figsize=(8, 5.4), layout="constrained")
for column, (name, shown) in enumerate({"clean": images[t], **targets}.items()):
    for row in range(4):
        axes[row, column].imshow(shown[row], cmap="gray_r", vmin=0, vmax=16)
        axes[row, column].set_axis_off()
    axes[0, column].set_title(name)
plt.show()

# %%
# Three models for each: logistic regression on standardised pixels, a ridge on the pixels as they
# are, and ``MDAClassifierCV``, which sees the target's images but none of its labels. The diamond
# is the accuracy that it expects of itself.

Xs, ys, yt = images[s].reshape(len(s), -1), digits.target[s], digits.target[t]
logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(Xs, ys)
rows = []
for shown in targets.values():
    Xt = shown.reshape(len(t), -1)
    X, y, sample_domain = pack(Xs, ys, Xt)
    plain = MDAClassifier("BL").fit(X, y, sample_domain=sample_domain)
    adapted = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=sample_domain)
    rows.append(
        (
            logistic.score(Xt, yt),
            plain.score(Xt, yt),
            adapted.score(Xt, yt),
            adapted.calibration_["expected_accuracy"],
        )
    )
found = np.array(rows)

fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
place = np.arange(len(targets))
for k, (name, colour) in enumerate(
    {"logistic regression": "#888888", "BL: ridge": "#56B4E9", "MDAClassifierCV": "#D55E00"}.items()
):
    ax.bar(place + 0.27 * (k - 1), found[:, k], 0.25, color=colour, label=name)
    for x, value in zip(place + 0.27 * (k - 1), found[:, k], strict=True):
        ax.annotate(f"{100 * value:.0f}", (x, 0.02), ha="center", fontsize=9, color="white")
ax.plot(place + 0.27, found[:, 3], "D", color="k", markersize=5, label="its expectation")
ax.set_xticks(place, targets)
ax.set(ylabel="accuracy on the target", ylim=(0, 1))
ax.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.16), fontsize=9)
plt.show()
