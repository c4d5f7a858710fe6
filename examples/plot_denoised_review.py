"""
What denoising does to one review
=================================

marda learns a map W that gives back words which were dropped at random. A word that is missing
but usually stands next to those that are there gets a value above zero. So a sentence of one
domain comes to share words with sentences of another: that is how labels travel.

The data are the embedded counts of words in film reviews and tweets.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import vstack

from marda import MDA, datasets
from marda.datasets import sentiment_snippets

BLUE, ORANGE = "#0072B2", "#D55E00"

data = datasets.load("sentiment-snippets")
films, tweets = data["films"], data["tweets"]

# %%
# The 2,000 words that most sentences of both domains use. S1 needs no label, so the two are
# simply stacked.

counts = vstack([films.X, tweets.X]).astype(float).tocsc()
single = np.array([" " not in word for word in data.feature_names])
columns = np.argsort(-counts.getnnz(axis=0) * single)[:2000]
words, counts = np.array(data.feature_names)[columns], counts[:, columns].tocsr()

mda = MDA("S1", noise=0.8).fit(counts)
typical = mda.transform(counts[::10]).mean(axis=0)  # what any sentence gets


def denoised(text):
    """Counts of a text, and its denoised values above those of a typical sentence."""
    x = sentiment_snippets.count([text], data.feature_names)[:, columns].toarray()[0]
    return x, mda.transform(x[None].astype(float))[0] - typical


# %%
# One sentence, before and after. Words that it does not contain appear: those that stand in
# similar sentences.

sentence = "a sad and boring film"
x, value = denoised(sentence)
written = np.flatnonzero(x)
written = written[np.argsort(-value[written])]
added = np.argsort(np.where(x > 0, np.inf, -value))[:12]

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.9), layout="constrained")
for ax, chosen, colour, title in (
    (left, written, BLUE, "words of the sentence"),
    (right, added, ORANGE, "words that it does not contain"),
):
    ax.barh(range(len(chosen)), value[chosen], color=colour)
    ax.set_yticks(range(len(chosen)), words[chosen])
    ax.invert_yaxis()
    ax.axvline(0, color="k", linewidth=0.8)
    ax.set(title=title, xlabel="denoised count, above a typical sentence")
fig.suptitle(f"“{sentence}”")
plt.show()

# %%
# What single words bring with them. Emoticons are a language of tweets, and film reviews have
# none: through words that both use, a label of a review reaches them.

fig, axes = plt.subplots(1, 4, figsize=(10, 3.2), layout="constrained")
for ax, word in zip(axes, ("sad", "boring", "funny", "love"), strict=True):
    x, value = denoised(word)
    near = np.argsort(np.where(x > 0, np.inf, -value))[:8]
    ax.barh(range(len(near)), value[near], color=ORANGE)
    ax.set_yticks(range(len(near)), words[near])
    ax.invert_yaxis()
    ax.set(title=f"“{word}” brings", xlabel="denoised count")
plt.show()
