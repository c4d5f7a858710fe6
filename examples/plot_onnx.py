"""
Deployment with ONNX
====================

A fitted model becomes one ONNX graph that runs where Python does not. The graph computes in
double precision, and its scores are those of marda.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime

import marda
from marda import MDAClassifier, pack
from marda.datasets import make_shift

BLUE, ORANGE = "#0072B2", "#D55E00"

data = make_shift("rotation", n_classes=3, shift=0.6, seed=0)
source, target = data["source"], data["target"]
X, y, sample_domain = pack(source.X, source.y, target.X)
clf = MDAClassifier("S1D", noise=0.4).fit(X, y, sample_domain=sample_domain)

# %%
# Two files: marda's own, without pickle, and the graph.

folder = Path(tempfile.mkdtemp())
clf.save(folder / "model.marda")
clf.to_onnx(folder / "model.onnx")
again = marda.load(folder / "model.marda")
assert np.array_equal(again.predict(target.X), clf.predict(target.X))
for path in sorted(folder.iterdir()):
    print(f"{path.name:12} {path.stat().st_size / 1e3:6.1f} kB")

# %%
# The graph gives labels, scores and probabilities.

session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
label, scores, probabilities = session.run(
    ["label", "scores", "probabilities"], {"X": np.asarray(target.X, dtype=np.float64)}
)
print("same labels:", np.array_equal(label, clf.predict(target.X)))
print(f"accuracy on the target: {np.mean(label == target.y):.3f}")

# %%
# Scores of the two agree to rounding.

ours = clf.decision_function(target.X)
gap = np.abs(scores - ours)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for c, (colour, marker) in enumerate((("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"))):
    left.plot(
        ours[:, c], scores[:, c], marker, color=colour, markersize=3, alpha=0.6, label=f"class {c}"
    )
left.set(xlabel="score by marda", ylabel="score by onnxruntime")
left.legend(frameon=False)
right.hist(np.log10(np.maximum(gap.ravel(), 1e-18)), bins=30, color=BLUE)
right.axvline(np.log10(np.finfo(np.float64).eps), color=ORANGE, linestyle="--")
right.annotate("double precision", (0.73, 0.92), xycoords="axes fraction", color=ORANGE, fontsize=9)
right.annotate("equal", (-17.8, 0.92), xycoords=("data", "axes fraction"), fontsize=9)
right.set(xlabel="log₁₀ of the difference", ylabel="number of scores")
plt.show()
