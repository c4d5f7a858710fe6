"""
Moments from three hospitals
============================

Three hospitals may not share rows. Each writes the sums that the models need, its *moments*, to a
file; whoever has the files adds them and fits. The model is that of all rows in one place, to
rounding.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from marda import MDAClassifier, Moments

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#888888"
D = 30
rng = np.random.default_rng(0)
direction = rng.normal(size=D) / np.sqrt(D)


def hospital(n, offset):
    """Patients of one hospital: its instruments have an offset, its patients the same illness."""
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, D)) + 3.0 * np.outer(y - 0.5, direction) + offset * rng.normal(size=D)
    return X, y


rows = {"A": hospital(400, 0.0), "B": hospital(250, 0.3), "C (target)": hospital(300, 0.6)}
domains = {"A": 0, "B": 1, "C (target)": -1}

# %%
# Every hospital writes its file. The third has no diagnoses: −1 marks them. ``min_group`` refuses
# files in which a group is so small that its sum would tell of single patients.

folder = Path(tempfile.mkdtemp())
sizes = {}
for name, (X, y) in rows.items():
    labels = y if domains[name] >= 0 else np.full(len(y), -1)
    domain = np.full(len(y), domains[name])
    path = folder / f"{name[0]}.moments"
    Moments.from_arrays(X, labels, domain).save(path, min_group=20)
    sizes[name] = (X.nbytes, path.stat().st_size)

# %%
# Elsewhere: load, add, fit.

a, b, c = (Moments.load(folder / f"{name}.moments") for name in "ABC")
total = a + b + c
from_sums = MDAClassifier("S1M", noise=0.3).fit_moments(total)

everything = np.vstack([X for X, _ in rows.values()])
labels = np.concatenate(
    [y if domains[n] >= 0 else np.full(len(y), -1) for n, (_, y) in rows.items()]
)
domain = np.concatenate([np.full(len(y), domains[n]) for n, (_, y) in rows.items()])
from_rows = MDAClassifier("S1M", noise=0.3).fit(everything, labels, sample_domain=domain)

difference = np.abs(from_sums.coef_ - from_rows.coef_).max() / np.abs(from_rows.coef_).max()
Xt, yt = rows["C (target)"]
print(f"largest relative difference of coefficients: {difference:.1e}")
for name, model in (("sums", from_sums), ("rows", from_rows)):
    print(f"accuracy in hospital C, from {name}: {model.score(Xt, yt):.3f}")

# %%
# The coefficients lie on the diagonal. A file's size depends on the number of columns, not of
# patients.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot([-0.5, 0.5], [-0.5, 0.5], color=GREY, linewidth=1)
left.plot(from_rows.coef_.ravel(), from_sums.coef_.ravel(), "o", color=BLUE, markersize=5)
limit = 1.1 * np.abs(from_rows.coef_).max()
left.set(
    xlabel="coefficient, from all rows",
    ylabel="coefficient, from three files",
    title=f"difference {difference:.0e}",
)
left.set(xlim=(-limit, limit), ylim=(-limit, limit))
patients = np.logspace(2, 6, 20)
right.loglog(patients, 8 * D * patients / 1e3, "--", color=ORANGE, label="rows")
right.axhline(sizes["A"][1] / 1e3, color=BLUE, label="moments file")
for (name, (of_rows, of_file)), marker in zip(sizes.items(), "os^", strict=True):
    n = len(rows[name][1])
    right.plot(
        [n, n], [of_rows / 1e3, of_file / 1e3], marker, color=GREEN, label=f"hospital {name}"
    )
right.set(xlabel="patients", ylabel="size (kB)")
right.legend(frameon=False, fontsize=9)
plt.show()
