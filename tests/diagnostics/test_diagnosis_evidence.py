"""What a report shows of rows and predictions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from marda import MDAClassifier, pack
from marda.diagnostics.diagnosis import GAPS, POINTS, denoise, gather

RNG = np.random.default_rng(3)
YS, YT = np.arange(80) % 3, np.arange(60) % 3
CENTRES = RNG.normal(0, 2, (3, 5))
XS = CENTRES[YS] + RNG.normal(0, 1, (80, 5))
XT = CENTRES[YT] + RNG.normal(0, 1, (60, 5)) + np.array([3.0, 0, 0, 0, 0])
NAMES = [f"f{k}" for k in range(5)]


class Identity:
    """A classifier that changes nothing."""

    classes_ = np.array(["a", "b", "c"])

    def transform(self, X):
        return X


def look(Xs=XS, Xt=XT, estimator=None, names=NAMES, **options):
    estimator = estimator or Identity()
    P = np.full((Xt.shape[0], 3), 0.1)
    predicted = np.arange(Xt.shape[0]) % 3
    P[np.arange(len(predicted)), predicted] = 0.8
    classes = estimator.classes_
    labels = classes[np.arange(Xs.shape[0]) % 3]
    return gather(
        Xs,
        Xt,
        estimator,
        names=names,
        labels=labels,
        predicted=classes[predicted],
        probabilities=P,
        **options,
    )


def test_pictures_are_principal_components():
    from sklearn.decomposition import PCA

    seen = look()
    X = np.vstack([XS, XT])
    X = X / X.std(axis=0)  # columns of any unit count alike
    pca = PCA(2).fit(X)
    np.testing.assert_allclose(seen.before.places, pca.transform(X), atol=1e-9)
    np.testing.assert_allclose(seen.before.share, pca.explained_variance_ratio_, rtol=1e-9)
    np.testing.assert_array_equal(seen.target, np.repeat([False, True], [80, 60]))


def test_the_unit_of_a_column_changes_no_picture():
    unit = np.r_[1e6, np.ones(XS.shape[1] - 1)]
    seen, other = look(), look(XS * unit, XT * unit)
    np.testing.assert_allclose(np.abs(other.before.places), np.abs(seen.before.places), atol=1e-8)


def test_words_keep_their_weight():
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(0)
    X = np.where(rng.random((140, 6)) < 0.2, rng.random((140, 6)) * np.arange(1, 7), 0)
    seen = look(X[:80], X[80:], names=[f"w{k}" for k in range(6)])
    np.testing.assert_allclose(seen.before.places, PCA(2).fit_transform(X), atol=1e-9)


def test_where_nothing_moved_the_largest_gaps_are_told():
    seen = look()  # the identity
    assert not seen.moved
    gaps = [abs(g.before) for g in seen.gaps]
    assert gaps == sorted(gaps, reverse=True)


def test_sparse_rows_give_the_same_picture():
    dense, sparse = look(), look(sp.csr_array(XS), sp.csr_array(XT))
    np.testing.assert_allclose(np.abs(sparse.before.places), np.abs(dense.before.places), atol=1e-8)
    np.testing.assert_allclose(sparse.before.share, dense.before.share, rtol=1e-8)
    assert [g.feature for g in sparse.gaps] == [g.feature for g in dense.gaps]


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("d", [1, 2])
def test_few_columns(make, d):
    seen = look(make(XS[:, :d]), make(XT[:, :d]), names=NAMES[:d])
    assert seen.before.places.shape == (140, 2)
    assert sum(seen.before.share) == pytest.approx(1)


def test_rows_without_variation():
    seen = look(np.ones((30, 3)), np.ones((30, 3)), names=NAMES[:3])
    assert not seen.before.places.any()
    assert all(gap.before == gap.after == 0 for gap in seen.gaps)


def test_a_known_shift_is_the_gap():
    seen = look()
    gap = next(g for g in seen.gaps if g.feature == "f0")
    spread = np.sqrt((XS[:, 0].var() + XT[:, 0].var()) / 2)
    assert gap.before == pytest.approx((XT[:, 0].mean() - XS[:, 0].mean()) / spread)
    assert gap.after == gap.before
    X, y, domain = pack(XS, YS, XT)
    model = MDAClassifier("S1M", domain_loss_weight=100).fit(X, y, sample_domain=domain)
    gap = next(g for g in look(estimator=model).gaps if g.feature == "f0")
    assert abs(gap.after) < abs(gap.before)


def test_gaps_are_those_that_changed_most_and_few():
    rng = np.random.default_rng(0)
    Xs, Xt = rng.normal(size=(50, 40)), rng.normal(size=(50, 40))

    class Mover(Identity):
        def transform(self, X):
            moved = X.copy()
            moved[:, 7] += 5 * (X is not None) * (X[:, :1].ravel() > 0)
            return moved

    gaps = look(Xs, Xt, Mover(), [f"f{k}" for k in range(40)]).gaps
    assert len(gaps) == GAPS
    changes = [abs(abs(g.before) - abs(g.after)) for g in gaps]
    assert changes == sorted(changes, reverse=True)
    assert gaps[0].feature == "f7"


def test_denoised_columns_that_are_no_features_have_no_gaps():
    class Wide(Identity):
        def transform(self, X):
            return np.hstack([X, X])

    assert look(estimator=Wide()).gaps == ()


def test_many_rows_are_sampled_with_their_own_labels():
    rng = np.random.default_rng(1)
    X = np.arange(3000.0)[:, None] % 3 + rng.normal(0, 1e-3, (3000, 1))
    seen = look(X, X[:900], names=["code"])
    assert len(seen.target) == 2 * POINTS
    again = look(X, X[:900], names=["code"])
    np.testing.assert_array_equal(seen.before.places, again.before.places)
    # The row's class is its value: places of one class lie together.
    for k in range(3):
        assert np.ptp(seen.before.places[seen.codes == k, 0]) < 0.1


def test_confidence_counts_every_target_row_once():
    seen = look()
    assert seen.confidence.sum() == 60
    assert seen.confidence.shape == (3, len(seen.edges) - 1)
    (bins,) = np.nonzero(seen.confidence.sum(0))
    assert seen.edges[bins[0]] <= 0.8 <= seen.edges[bins[-1] + 1]


def test_shares_and_losses():
    X, y, domain = pack(XS, YS, XT)
    model = MDAClassifier("J12D").fit(X, y, sample_domain=domain)
    seen = look(estimator=model)
    np.testing.assert_allclose(seen.shares.sum(1), 1)
    assert len(seen.losses) > 1
    assert look().losses == ()


def test_a_model_that_centres_is_told_which_rows_are_the_sources():
    X, y, domain = pack(XS, YS, XT)
    model = MDAClassifier("S1", center=True).fit(X, y, sample_domain=domain)
    hs, ht = denoise(model, XS, XT)
    H = model.transform(X, sample_domain=domain)
    np.testing.assert_allclose(np.vstack([hs, ht]), H)
    assert np.abs(hs.mean(0) - ht.mean(0)).max() < 1e-9
    assert not np.allclose(hs, model.transform(XS))


def test_pivots_keep_their_names():
    X, y, domain = pack(XS, YS, XT)
    model = MDAClassifier("S1", n_pivots=2).fit(X, y, sample_domain=domain)
    gaps = look(estimator=model).gaps
    outputs = model.get_feature_names_out(NAMES).tolist()
    assert sorted(g.feature for g in gaps) == sorted(outputs)
    before = {g.feature: g.before for g in look().gaps}
    assert all(gap.before == pytest.approx(before[gap.feature]) for gap in gaps)
