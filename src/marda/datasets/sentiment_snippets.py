"""The embedded data: human-rated sentences of four domains, as counts of words and bigrams."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import sparse

from marda.datasets.base import Dataset, Domain, LazyDomains, Rows
from marda.datasets.storage import Layout, Location, array_of, open_npz

NAME = "sentiment-snippets"
FILE = Path(__file__).parent / "data" / "sentiment-snippets.npz"
SHA256 = "37a05c6da0e116aa6503556c0426ac219da05b6beb123827f2e5701a39b6decd"
KNOWN = {FILE.name: SHA256}
DOMAINS = ("products", "films", "editorials", "tweets")
NEUTRAL = 0.5  # sentences rated closer to 0 than this are left out

# The corpora write "@anonymous" and "http://url_removed" for what they removed. These would
# mark the domain rather than the opinion, so they are no words.
_REMOVED = re.compile(r"@\w+|https?://\S*|\burl_removed\b")
_TOKEN = re.compile(r"(?<!\w)(?:[:;=][-o']?[()dp/|\[\]3]|<3)(?!\w)|[a-z]+(?:'[a-z]+)*")


def tokens(text: str) -> list[str]:
    """Split a sentence into words and emoticons, then its bigrams.

    Parameters
    ----------
    text : str
        Any sentence; HTML entities are resolved, accents and case are dropped.

    Returns
    -------
    list of str
        Words in order, followed by pairs of neighbours joined by a blank.
    """
    text = unicodedata.normalize("NFKD", html.unescape(text).lower()).replace("’", "'")
    text = "".join(char for char in text if not unicodedata.combining(char))
    words = _TOKEN.findall(_REMOVED.sub(" ", text))
    return words + [f"{a} {b}" for a, b in pairwise(words)]


def count(texts: Iterable[str], vocabulary: Sequence[str]) -> Rows:
    """Count the words and bigrams of a vocabulary.

    Parameters
    ----------
    texts : iterable of str
        One sentence per row.
    vocabulary : sequence of str
        The columns, as in `Dataset.feature_names`.

    Returns
    -------
    csr_matrix of shape (n_texts, n_features)
        Counts, columns sorted within a row.
    """
    column = {word: j for j, word in enumerate(vocabulary)}
    data: list[int] = []
    indices: list[int] = []
    indptr = [0]
    for text in texts:
        counts = Counter(column[token] for token in tokens(text) if token in column)
        indices += sorted(counts)
        data += [counts[j] for j in sorted(counts)]
        indptr.append(len(indices))
    arrays = (np.array(data, float), np.array(indices, np.int32), np.array(indptr, np.int32))
    return sparse.csr_matrix(arrays, shape=(len(indptr) - 1, len(column)))


def locate(path: object = None) -> Location:
    """Where the package has it; a folder of the user is not looked into."""
    layout = Layout("embedded", {"all": (FILE.name,)})
    return Location(NAME, (FILE.parent,), layout, {"all": FILE}, (layout,))


def load(path: object = None) -> Dataset:
    """Load the embedded data set."""
    dataset = Dataset(
        name=NAME,
        domains=LazyDomains({name: partial(_domain, name) for name in DOMAINS}),
        names=("negative", "positive"),
        licence=f"MIT, © 2016 C.J. Hutto; full text in data/{NAME}.LICENSE.txt of this package.",
        citation=(
            "Hutto, Gilbert: VADER: a parsimonious rule-based model for sentiment analysis of "
            "social media text, ICWSM 2014."
        ),
        notes=(
            "Words and bigrams of at least five sentences; positive means a mean rating above 0; "
            "sentences rated within ±0.5 are left out. Holds no sentences."
        ),
        kind="text",
        files=(FILE,),
        known={FILE.name: SHA256},
        read_feature_names=_vocabulary,
    )
    dataset.verify()  # part of the package: a difference can only be damage
    return dataset


def _vocabulary() -> tuple[str, ...]:
    """Return the words and bigrams in column order."""
    with open_npz(FILE) as archive:
        return tuple(array_of(archive, "vocabulary", FILE).tobytes().decode().split("\n"))


@lru_cache(maxsize=1)
def _width() -> int:
    """Return the number of columns."""
    return len(_vocabulary())


def _domain(name: str) -> Domain:
    """Read the counts and ratings of one domain."""
    with open_npz(FILE) as archive:
        counts, indices, lengths, rating = (
            array_of(archive, f"{name}_{piece}", FILE)
            for piece in ("counts", "indices", "lengths", "rating")
        )
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int32)]).astype(np.int32)
    X = sparse.csr_matrix(
        (counts.astype(np.float64), indices.astype(np.int32), indptr),
        shape=(len(lengths), _width()),
    )
    return Domain(X, (rating > 0).astype(np.int64), rating=rating)
