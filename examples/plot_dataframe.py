"""
A messy DataFrame: from two exports to a decision
=================================================

Last year's customers, of whom we know who left, and this year's, of whom we do not. The tables are
as exports are: amounts with a currency, dates, words, gaps, a customer number, a column that never
changes. Since last year prices rose, and a new meter counts usage otherwise.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import marda

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#888888"


def export(n, seed, *, this_year):
    """A table of customers, and who left."""
    rng = np.random.default_rng(seed)
    left = rng.random(n) < 0.4
    fee = rng.normal(30 + 12 * left, 6) + 14 * this_year
    usage = rng.gamma(4, 3, n) * np.where(left, 0.6, 1.2) * (1.8 if this_year else 1)
    broken = rng.random(n) < 0.25 + 0.3 * left
    table = pd.DataFrame(
        {
            "customer": [f"{'B' if this_year else 'A'}-{k:05d}" for k in rng.permutation(n)],
            "fee": [f"€ {amount:.2f}".replace(".", ",") for amount in fee],
            "usage": usage.round(1),
            "since": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 90, n), "W"),
            "plan": rng.choice(["basic", "family", "business"], n, p=[0.5, 0.3, 0.2]),
            "paperless": rng.random(n) < 0.5,
            "last_call": np.where(broken, "line broke down", "question about a bill"),
            "country": "DE",
        }
    )
    table.loc[rng.random(n) < 0.08, "usage"] = np.nan
    table.loc[rng.random(n) < 0.05, "plan"] = None
    return table.set_index("customer"), np.where(left, "left", "stayed")


old, known = export(400, 0, this_year=False)
new, hidden = export(300, 1, this_year=True)
old["churn"] = known
old.head()

# %%
# First, without adapting anything: how far apart are the two, in which columns, and does it matter?

found = marda.check(old, new, label="churn")
found

# %%
# It does. ``marda.adapt`` reads the same columns, asks what differs and acts on it. What becomes of
# missing values has to be said. The result shows the head of its report:

result = marda.adapt(old, new, label="churn", missing="impute")
result

# %%
# Predictions are a table with the index of ``new``.

result.predictions.head()

# %%
# Which labels would tell most? Fill them in as ``new["churn"]``, and adapt again.

result.to_label(5)[["fee", "usage", "prediction", "reason"]]

# %%
# Here the truth is known, and can be compared with what was expected without it.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
columns = found.columns.iloc[::-1]
left.barh(
    columns["column"],
    columns["distance"],
    color=[ORANGE if differs else GREY for differs in columns["differs"]],
)
left.set(xlabel="difference of the columns (0: alike, 1: entirely other)", xlim=(0, 1))
left.set_title("orange: more than chance")

sure = result.predictions["probability"].to_numpy()
correct = result.predictions["prediction"].to_numpy() == hidden
edges = np.linspace(0.5, 1, 11)
counts = [sure[correct], sure[~correct]]
right.hist(counts, edges, stacked=True, color=[BLUE, ORANGE], label=["right", "wrong"])
expected = result.model.calibration_["expected_accuracy"]
right.set(xlabel="probability of the predicted class", ylabel="customers")
right.set_title(f"expected right: {expected:.0%}, in truth: {correct.mean():.0%}")
right.legend(loc="upper left")
plt.show()
