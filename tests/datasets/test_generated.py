import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from marda.datasets import DataError, changed_digits, generated, make_case, make_task
from marda.datasets.generated import CASES, CHANGES, N_TEST, SEPARATION


def rows(name, seed=0):
    return make_task(make_case(name, seed), "source", "target")


@pytest.mark.parametrize("name", CASES)
def test_every_case_can_be_drawn_again(name):
    one, again, other = rows(name), rows(name), rows(name, 1)
    np.testing.assert_array_equal(one.X_target, again.X_target)
    assert one.checksum == again.checksum != other.checksum
    assert not np.array_equal(one.X_source, other.X_source)
    assert one.X_source.shape == (200, CASES[name].n_features + CASES[name].index)
    assert len(one.y_target) == CASES[name].n_target
    assert len(one.y_test) == N_TEST
    assert set(one.y_source) == {0, 1}
    data = pickle.loads(pickle.dumps(make_case(name)))
    np.testing.assert_array_equal(data["source"].X, one.X_source)


def test_cases_do_not_share_rows():
    assert not np.array_equal(rows("same d=10").X_source, rows("five rows").X_source)


def drawn(monkeypatch, name, n=40_000, **changes):
    """Many target rows of a case."""
    monkeypatch.setitem(CASES, name, replace(CASES[name], n_target=n, **changes))
    return make_case(name)["target"].part("train")


@pytest.mark.parametrize(
    "name", [n for n, c in CASES.items() if c.kind == "gaussian" and not c.outliers]
)
def test_best_accuracy_is_that_of_a_rule_that_knows_the_target(monkeypatch, name):
    X, y = drawn(monkeypatch, name)
    best = make_case(name).best_accuracy
    if CASES[name].shares[1] == 1:
        assert best == 1
        assert set(y) == {1}
        return
    assert y.mean() == pytest.approx(CASES[name].shares[1], abs=0.01)
    X = X[:, CASES[name].index :]
    assert LinearDiscriminantAnalysis().fit(X, y).score(X, y) == pytest.approx(best, abs=0.006)


def moments(X):
    return np.r_[X.mean(0), X.std(0)]


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.difference == "none"])
def test_nothing_differs_if_the_difference_is_none(monkeypatch, name):
    many = 40_000
    X, y = drawn(monkeypatch, name, many)
    source = make_case(name)["source"]
    for c in (0, 1):
        one, other = source.X[source.y == c], X[y == c]
        gap = np.abs(one.mean(0) - other.mean(0)) / (other.std(0) + 1e-9)
        assert gap.max() < 4.5 / np.sqrt(len(one))


def test_moved_and_stretched_columns_only_change_place_and_scale(monkeypatch):
    X, y = drawn(monkeypatch, "moved and stretched")
    source = make_case("moved and stretched")["source"]
    assert np.abs(X.mean(0) - source.X.mean(0)).max() > 1
    ratio = X.std(0) / source.X.std(0)
    assert ratio.max() > 1.5
    assert ratio.min() < 0.7
    # Undone by each domain's own mean and spread, the classes are where they were.
    placed, known = ((Z - Z.mean(0)) / Z.std(0) for Z in (X, source.X))
    gaps = [Z[c == 1].mean(0) - Z[c == 0].mean(0) for Z, c in ((placed, y), (known, source.y))]
    assert np.abs(gaps[0] - gaps[1]).max() < 0.45


def test_situations():
    outlying = rows("outliers")
    assert (np.abs(outlying.X_target).max(1) > 1e4).sum() == 4
    assert np.abs(outlying.X_test).max() < 10
    index = rows("index column")
    np.testing.assert_array_equal(index.X_source[:, 0], np.arange(200))
    np.testing.assert_array_equal(index.X_test[:, 0], 400 + np.arange(N_TEST))
    new = rows("new words")
    assert ((new.X_source.sum(0) == 0) & (new.X_test.sum(0) > 0)).any()
    old = rows("same words")
    assert not ((old.X_source.sum(0) == 0) & (old.X_test.sum(0) > 50)).any()


def test_turned_moons_are_moons(monkeypatch):
    X, y = drawn(monkeypatch, "rotated moons", 4000)
    angle = -CASES["rotated moons"].shift
    back = X @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    still, labels = drawn(monkeypatch, "same moons", 4000)
    for c in (0, 1):
        np.testing.assert_allclose(moments(back[y == c]), moments(still[labels == c]), atol=0.06)
    assert make_case("rotated moons").best_accuracy is None


def test_wrong_requests():
    with pytest.raises(DataError, match=r"no generated case 'x': choose from shares \.5>\.3"):
        make_case("x")
    with pytest.raises(DataError, match="seed=-1"):
        make_case("moved", -1)
    assert generated.SEPARATION == SEPARATION == 2.7


def test_halves_of_the_digits():
    task = make_task(changed_digits("dim"), "source", "target")
    assert task.X_source.shape == (900, 64)
    assert task.X_test is not None
    assert len(task.y_test) == 897
    assert task.X_target.max() == pytest.approx(0.3 * 16)
    same = make_task(changed_digits("same"), "source", "target")
    assert np.unique(same.X_target).tolist() == list(range(17))


def test_every_change_changes_the_images():
    for change in [*CHANGES][1:]:
        data = changed_digits(change)
        source, target = data["source"].X.mean(0), data["target"].X.mean(0)
        assert np.abs(source - target).max() > 1
    with pytest.raises(DataError, match="no change 'x' of digits"):
        changed_digits("x")
