import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from marda.datasets import ChecksumError, load, make_task, sentiment_snippets
from marda.datasets.sentiment_snippets import count, tokens
from repository_scripts import script

SDIST = "vaderSentiment-3.3.2.tar.gz"


@pytest.fixture(scope="module")
def builder():
    return script("build_sentiment_snippets.py")


def corpus(seed):
    rng = np.random.default_rng(seed)
    words = ["good", "bad", "plot", "café", "don't", ":)", "screen", "&amp;", "http://url_removed"]
    lines = []
    for i in range(60):
        sentence = " ".join(rng.choice(words, size=rng.integers(1, 9)))
        lines.append(f"{i}_1\t{rng.uniform(-4, 4):.6f}\t{sentence}\r\n")
    return "".join(lines)


def test_tokens():
    assert tokens("Don’t  panic &amp; RUN :) @someone http://t.co/x") == [
        "don't", "panic", "run", ":)", "don't panic", "panic run", "run :)",
    ]  # fmt: skip
    assert tokens("Café 24/7 ''quoted''") == ["cafe", "quoted", "cafe quoted"]
    assert tokens("@anonymous http://url_removed") == []


def test_count():
    X = count(["good good plot", "", "unknown"], ["good", "good good", "plot"])
    np.testing.assert_array_equal(X.toarray(), [[2, 1, 1], [0, 0, 0], [0, 0, 0]])
    assert X.has_sorted_indices


def test_embedded_data():
    data = load("sentiment-snippets")
    data.verify()
    assert {name: len(domain) for name, domain in data.domains.items()} == {
        "products": 2985, "films": 10072, "editorials": 2970, "tweets": 3432,
    }  # fmt: skip
    vocabulary = data.feature_names
    assert list(vocabulary) == sorted(set(vocabulary))
    assert {"excellent", "waste of", ":)"} <= set(vocabulary)
    for domain in data.domains.values():
        assert domain.X.shape == (len(domain), len(vocabulary))
        assert domain.X.min() == 0
        assert np.abs(domain.rating).min() >= 0.5
        np.testing.assert_array_equal(domain.y, domain.rating > 0)
        assert 0.3 < domain.y.mean() < 0.7
    used = sum((domain.X > 0).sum(axis=0) for domain in data.domains.values())
    assert used.min() >= 5


def test_embedded_file_is_small_and_licensed():
    assert sentiment_snippets.FILE.stat().st_size < 1_500_000
    terms = sentiment_snippets.FILE.with_name("sentiment-snippets.LICENSE.txt").read_text()
    for part in ("MIT License", "C.J. Hutto", "ICWSM", "vaderSentiment 3.3.2"):
        assert part in terms


def test_embedded_data_make_a_task():
    task = make_task(load("sentiment-snippets"), "films", "tweets")
    assert task.X_source.shape[0] == 10072
    assert task.X_test.shape[0] == 3432


def test_damage_is_noticed(monkeypatch, tmp_path):
    damaged = tmp_path / sentiment_snippets.FILE.name
    damaged.write_bytes(sentiment_snippets.FILE.read_bytes()[:-1] + b"x")
    monkeypatch.setattr(sentiment_snippets, "FILE", damaged)
    with pytest.raises(ChecksumError):
        load("sentiment-snippets")


def test_building_twice_gives_the_same_bytes(builder, monkeypatch, tmp_path):
    corpora = {name: corpus(i) for i, name in enumerate(sentiment_snippets.DOMAINS)}
    content = builder.build(corpora, min_sentences=2)
    assert content == builder.build(dict(corpora), min_sentences=2)
    file = tmp_path / "built.npz"
    file.write_bytes(content)
    monkeypatch.setattr(sentiment_snippets, "FILE", file)
    monkeypatch.setattr(sentiment_snippets, "SHA256", hashlib.sha256(content).hexdigest())
    sentiment_snippets._width.cache_clear()
    try:
        data = load("sentiment-snippets")
        sentences, ratings = builder.parse(corpora["films"])
        expected = count(sentences, data.feature_names)
        assert abs(data["films"].X - expected).sum() == 0
        np.testing.assert_array_equal(data["films"].rating, np.array(ratings, np.float32))
        assert "amp" not in data.feature_names
    finally:
        sentiment_snippets._width.cache_clear()


def test_parse_leaves_neutral_sentences_out(builder):
    text = "1\t0.5\ta\r\n2\t0.49\tb\r\n3\t-0.5\tc\n\n4\t-0.1\td"
    assert builder.parse(text) == (["a", "c"], [0.5, -0.5])


def test_other_bytes_are_refused(builder, tmp_path):
    (tmp_path / SDIST).write_bytes(b"something else")
    with pytest.raises(SystemExit, match="expected 5d7c06e0"):
        builder.read_sdist(tmp_path / SDIST)


@pytest.mark.slow
def test_rebuild_from_the_source_distribution(builder):
    sdist = Path(os.environ.get("MARDA_VADER_SDIST", "")) / SDIST
    if not sdist.is_file():
        pytest.skip(f"MARDA_VADER_SDIST names no folder with {SDIST}")
    assert builder.build(builder.read_sdist(sdist)) == sentiment_snippets.FILE.read_bytes()
