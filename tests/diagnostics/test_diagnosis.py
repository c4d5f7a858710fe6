"""Distances that are known, warnings that must come and those that must not."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from marda import MDAClassifier, MDAClassifierCV, pack
from marda.diagnostics.diagnosis import (
    a_distance,
    data_findings,
    diagnose,
    domain_accuracy,
    mmd,
    prediction_findings,
)

pytestmark = pytest.mark.usefixtures("few_draws")


def rows(n=150, shift=0.0, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 1, (n, d))


def codes(findings):
    return {f.code for f in findings}


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
def test_distances_grow_with_the_shift(wrap):
    near, middle, far = (
        [f(wrap(rows()), wrap(rows(140, s, seed=1))) for f in (domain_accuracy, mmd)]
        for s in (0.0, 0.5, 5.0)
    )
    assert near[0].low <= 0.5 <= near[0].high + 0.05
    assert near[0].high < middle[0].value < far[0].value
    assert a_distance(far[0]).value == pytest.approx(2, abs=0.05)
    assert a_distance(near[0]).value < 0.3
    assert near[1].value < middle[1].low < middle[1].high < far[1].low


def test_mmd_is_unbiased_and_its_interval_covers():
    # Equal domains: the estimate of MMD² is about 0, and the interval says so.
    values = [mmd(rows(80, seed=k), rows(80, seed=1000 + k), seed=k) for k in range(20)]
    assert sum(v.low == 0 for v in values) >= 18
    truth = mmd(rows(1000, 0.6, seed=1), rows(1000, 0.0, seed=2), max_rows=1000).value
    drawn = [mmd(rows(100, 0.6, seed=3 + k), rows(100, seed=500 + k)) for k in range(20)]
    assert sum(v.low <= truth <= v.high for v in drawn) >= 16


def test_no_findings_on_good_data():
    assert data_findings(rows(), rows(shift=0.3, seed=1), list("abcd")) == []
    y = np.arange(100) % 2
    assert prediction_findings(np.array([0, 1]), y, y) == []


def test_few_rows():
    found = data_findings(rows(19), rows(), list("abcd"))
    assert codes(found) == {"few-rows"}
    assert "source has 19 rows" in found[0].text


def test_scales_name_the_option():
    scale = np.array([1, 1, 1e-2, 1e4])
    found = data_findings(rows() * scale, rows(seed=1) * scale, list("abcd"))
    assert codes(found) == {"scales"}
    assert "--scale standard" in found[0].text
    assert "'d'" in found[0].text
    assert "'c'" in found[0].text


@pytest.mark.parametrize(
    ("model", "warned"),
    [(MDAClassifier("BL"), True), (MDAClassifierCV(random_state=0), False)],
    ids=["named", "auto"],
)
def test_a_model_that_compares_scales_is_not_told_to(model, warned):
    scale = np.array([1, 1, 1e-2, 1e4])
    Xs, Xt, ys = rows() * scale, rows(seed=1) * scale, np.arange(150) % 2
    X, y, domain = pack(Xs, ys, Xt)
    model.fit(X, y, sample_domain=domain)
    predicted = model.predict(Xt)
    found = diagnose(Xs, Xt, model, names=list("abcd"), labels=ys, predicted=predicted)
    assert ("scales" in codes(found.findings)) == warned


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
def test_leakage_names_the_feature(wrap):
    a, b = rows(), rows(seed=1)
    a[:, 2], b[:, 2] = np.arange(150), np.arange(150) + 150
    found = data_findings(wrap(a / 100), wrap(b / 100), list("abcd"))
    assert "leakage" in codes(found)
    text = next(f.text for f in found if f.code == "leakage")
    assert "'c'" in text
    assert "--drop" in text
    b[0, 2] = 5  # one row that overlaps: no longer perfect
    assert "leakage" not in codes(data_findings(wrap(a), wrap(b), list("abcd")))


def test_single_class_and_proportions():
    classes = np.array(["p", "q"], dtype=object)
    source = np.array(["p", "q"] * 50, dtype=object)
    one = np.array(["q"] * 100, dtype=object)
    assert codes(prediction_findings(classes, source, one)) == {"single-class"}
    assert codes(prediction_findings(classes, one, one)) == set()  # the source was single too
    assert codes(prediction_findings(classes, source, one[:3])) == set()  # three may well be alike
    skewed = np.array(["q"] * 90 + ["p"] * 10, dtype=object)
    found = prediction_findings(classes, source, skewed)
    assert codes(found) == {"proportions"}
    assert "'q' is 50% of the source and 90%" in found[0].text


def diagnosis(shift, method="S1M", seed=0, **parameters):
    rng = np.random.default_rng(seed)
    ys, yt = np.arange(150) % 2, np.arange(140) % 2
    # Classes differ in the first three features, domains in the others.
    Xs, Xt = (rng.normal(0, 0.7, (len(y), 5)) for y in (ys, yt))
    Xs[:, :3] += ys[:, None]
    Xt[:, :3] += yt[:, None]
    Xt[:, 3:] += shift
    X, y, domain = pack(Xs, ys, Xt)
    model = MDAClassifier(method, **parameters).fit(X, y, sample_domain=domain)
    return diagnose(
        Xs, Xt, model, names=[f"x{k}" for k in range(5)], labels=ys, predicted=model.predict(Xt)
    )


def test_alike_domains_need_no_adaptation():
    found = diagnosis(0.0)
    assert "alike" in codes(found.findings)
    assert found.verdict.startswith("No adaptation is needed")


def test_same_means_but_another_spread_are_not_alike():
    rng = np.random.default_rng(0)
    ys = np.arange(300) % 2
    Xs, Xt = rng.normal(ys[:, None] - 0.5, 1, (300, 10)), rng.normal(0, 1, (300, 10))
    X, y, domain = pack(Xs, ys, Xt)
    model = MDAClassifier("S1").fit(X, y, sample_domain=domain)
    names = [f"x{k}" for k in range(10)]
    found = diagnose(Xs, Xt, model, names=names, labels=ys, predicted=model.predict(Xt))
    assert found.a_distance_before.value < 0.3
    assert "alike" not in codes(found.findings)


def test_a_shift_that_adaptation_removes():
    found = diagnosis(1.0, center=True)
    assert "alike" not in codes(found.findings)
    assert found.mmd_after.value < found.mmd_before.value
    assert "brought the domains closer" in found.verdict
    assert "not proof" in found.verdict
    assert found.to_json()["mmd_before"]["low"] <= found.mmd_before.value


def test_a_shift_that_one_measure_still_sees_is_not_called_closer():
    found = diagnosis(1.0)
    assert found.mmd_after.high < found.mmd_before.low
    assert found.outcome == "mixed"
    assert "the distance fell" in found.verdict
    assert "told apart did not clearly change" in found.verdict


def test_no_adaptation_is_not_called_help():
    told = diagnosis(1.0, "BL").verdict
    assert told.startswith("BL learns from labelled rows as they are, and adapts nothing. Label ")


def test_too_few_rows_to_tell():
    X, y, domain = pack(rows(8), np.arange(8) % 2, rows(3, seed=1))
    model = MDAClassifier("S1").fit(X, y, sample_domain=domain)
    found = diagnose(
        X[:8], X[8:], model, names=list("abcd"), labels=y[:8], predicted=model.predict(X[8:])
    )
    assert found.mmd_before is None
    assert "Too few rows" in found.verdict


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 4), (3, 2)])
def test_mmd_of_very_few_rows_is_a_number(n, m):
    rng = np.random.default_rng(0)
    value = mmd(rng.normal(size=(n, 2)), rng.normal(size=(m, 2)))
    assert 0 <= value.low <= value.value <= value.high < 2
