"""Misuse is refused with the line to write; what looks like it and is not goes on working."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from marda import DSCM, MDA, MDAClassifier, MDAClassifierCV, Moments, pack

pytestmark = pytest.mark.usefixtures("few_draws")

rng = np.random.default_rng(0)
YS, YT = np.arange(60) % 3, np.arange(45) % 3
XS = rng.normal(size=(60, 5)) + 2 * np.eye(5)[YS]
XT = rng.normal(size=(45, 5)) + 2 * np.eye(5)[YT] + 0.5
X, Y, DOMAIN = pack(XS, YS, XT)
NAMES = np.array(["ant", "bee", "cat"])

ALL = [MDA(), MDA("J12"), MDAClassifier(), MDAClassifierCV(), DSCM()]
CLASSIFIERS = [MDAClassifier(), MDAClassifierCV(), DSCM()]


def refused(call, *messages):
    with pytest.raises(ValueError) as caught:
        call()
    for message in messages:
        assert message in str(caught.value)


def is_right(model):
    """On the target, well above the third that chance gets."""
    assert model.score(XT, YT) > 0.7
    assert set(model.classes_.tolist()) == {0, 1, 2}


# Marks without domains ---------------------------------------------------------------------------


@pytest.mark.parametrize("model", ALL, ids=str)
def test_labels_of_pack_without_its_domains(model):
    refused(
        lambda: model.fit(X, Y), "-1, the mark", "sample_domain=sample_domain", "unlabeled=None"
    )
    missing = np.where(Y < 0, np.nan, Y)
    refused(lambda: model.fit(X, missing), "no label (NaN or None)", "sample_domain=sample_domain")
    text = np.where(Y < 0, None, NAMES[Y])
    refused(lambda: model.fit(X, text), "no label (NaN or None)", "sample_domain=sample_domain")
    refused(lambda: type(model)(unlabeled=2).fit(X, np.where(Y < 0, 2, Y % 2)), "holds 2, the mark")


def test_moments_and_batches_without_domains():
    refused(lambda: Moments.from_arrays(X, Y), "sample_domain=sample_domain")
    refused(lambda: MDAClassifier().partial_fit(X, Y), "sample_domain=sample_domain")
    refused(lambda: Moments.from_batches([(XS, YS), (X, Y)]), "sample_domain=sample_domain")


def test_a_batch_that_holds_the_mark_alone_is_refused_when_it_meets_the_others():
    """It may be all of class −1, until other classes than +1 come."""
    moments = Moments.from_arrays(XS, YS) + Moments.from_arrays(XT, np.full(45, -1))
    refused(lambda: MDAClassifier().fit_moments(moments), "is a class of these moments")
    stream = MDAClassifier().partial_fit(XS, YS).partial_fit(XT, np.full(45, -1))
    refused(lambda: stream.predict(XT), "is a class of these moments", "unlabeled=None")
    signs = MDAClassifier().partial_fit(XS[YS == 0], np.full(20, -1))
    signs.partial_fit(XS[YS == 1], np.full(20, 1))
    assert signs.classes_.tolist() == [-1, 1]


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_minus_one_and_plus_one_are_classes(model):
    signs = np.where(YS == 0, -1, 1)
    assert model.fit(XS, signs).classes_.tolist() == [-1, 1]
    three = YS - 1
    refused(lambda: model.fit(XS, three), "unlabeled=None")
    told = type(model)(unlabeled=None).fit(XS, three)
    assert told.classes_.tolist() == [-1, 0, 1]
    # pack marks with NaN then, and nothing has to be said
    X, y, domain = pack(XS, three, XT)
    assert model.fit(X, y, sample_domain=domain).classes_.tolist() == [-1, 0, 1]


def test_transformers_take_targets_of_regression():
    y = np.linspace(-1, 1, 60)
    make_pipeline(MDA("S1"), Ridge()).fit(XS, y)
    MDA("S1").fit(XS, np.column_stack([y, y]))


# Domains -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ALL, ids=str)
@pytest.mark.parametrize("mark", [-1, np.nan, None])
def test_domains_with_the_wrong_sign(model, mark):
    y = np.where(Y < 0, mark, Y) if mark is not None else np.where(Y < 0, None, NAMES[Y])
    refused(
        lambda: model.fit(X, y, sample_domain=-DOMAIN),
        "Sources are >= 0, targets < 0; did you swap the sign?",
        "sample_domain=-sample_domain",
    )
    some = y.copy()
    some[-5:] = YT[-5:] if mark is not None else NAMES[YT[-5:]]
    refused(lambda: model.fit(X, some, sample_domain=-DOMAIN), "did you swap the sign?")


def test_domains_with_the_wrong_sign_in_batches_and_moments():
    refused(lambda: Moments.from_arrays(X, Y, -DOMAIN), "did you swap the sign?")
    refused(
        lambda: MDAClassifier().partial_fit(X, Y, sample_domain=-DOMAIN), "did you swap the sign?"
    )
    parts = Moments.from_arrays(XS, YS, np.full(60, -1)) + Moments.from_arrays(
        XT, np.full(45, -1), np.full(45, 1)
    )
    refused(lambda: MDAClassifier().fit_moments(parts), "did you swap the sign")


@pytest.mark.parametrize("model", ALL, ids=str)
@pytest.mark.parametrize(
    ("domain", "message"),
    [
        (DOMAIN[:-1], "sample_domain has 104 values but X has 105 rows"),
        (DOMAIN + 0.5, "whole numbers"),
        (np.where(DOMAIN < 0, np.nan, 1.0), "whole numbers"),
        (np.where(DOMAIN < 0, -np.inf, 1.0), "whole numbers"),
        (np.where(DOMAIN < 0, -1e300, 1.0), "whole numbers"),
        (DOMAIN < 0, "np.where(is_target, -1, 1)"),
        (np.where(DOMAIN < 0, "target", "source"), "np.where(is_target, -1, 1)"),
        (np.where(DOMAIN < 0, None, 1), "whole numbers"),
        (1, "one number per row, got shape ()"),
        (np.stack([DOMAIN, DOMAIN], 1), "one number per row, got shape (105, 2)"),
    ],
)
def test_what_is_no_domain(model, domain, message):
    refused(lambda: model.fit(X, Y, sample_domain=domain), "sample_domain", message)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_domains_in_the_place_of_labels(model):
    refused(lambda: model.fit(X, DOMAIN), "look like the domains", "sample_domain is a keyword")
    refused(lambda: model.fit(X, DOMAIN, sample_domain=Y), "are y and sample_domain swapped?")
    with pytest.raises(TypeError):
        model.fit(X, Y, DOMAIN)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_labels_in_columns(model):
    refused(lambda: model.fit(X, np.eye(4)[Y], sample_domain=DOMAIN), "should be a 1d array")


# Strings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
@pytest.mark.parametrize(
    ("mark", "found"), [(-1, "'-1'"), (-1.0, "'-1.0'"), (np.nan, "'nan'"), (None, "'None'")]
)
def test_a_mark_that_became_a_string(model, mark, found):
    y = np.where(Y < 0, str(mark), NAMES[Y])
    for labels in (y, y.astype(object)):
        refused(
            lambda labels=labels: model.fit(X, labels, sample_domain=DOMAIN),
            f"the string {found}",
            "dtype=object",
        )
    assert np.array(["cat", -1]).tolist() == ["cat", "-1"]
    right = type(model)(unlabeled=str(mark)).fit(X, y, sample_domain=DOMAIN)
    assert right.classes_.tolist() == NAMES.tolist()


def test_strings_that_are_classes():
    y = np.where(YS == 0, "-1", "1")
    assert MDAClassifier().fit(XS, y).classes_.tolist() == ["-1", "1"]
    X, packed, domain = pack(XS, y, XT)
    assert MDAClassifier().fit(X, packed, sample_domain=domain).setting_ == "US"
    both = np.where(np.arange(105) % 2, "None", "some")
    assert MDAClassifier().fit(X, both, sample_domain=domain).setting_ == "SUP"
    refused(lambda: MDAClassifier().fit(XS, np.where(YS == 0, "-1", NAMES[YS])), "'-1'")
    lost = np.concatenate([y, np.full(45, "-1")])
    refused(lambda: MDAClassifier().fit(X, lost, sample_domain=domain), "'-1'")


# pack --------------------------------------------------------------------------------------------


def test_source_and_target_swapped_in_pack():
    refused(lambda: pack(XT, YS, XS), "source 0 has 45 rows but 60 labels", "pack(Xs, ys, Xt)")
    refused(lambda: pack(XS, XT, YS), "labels of shape (45, 5)", "pack(Xs, ys, Xt)")
    refused(lambda: pack(XT, np.full(45, -1), XS, YS), "did you swap source and target?")
    refused(lambda: pack(XT, np.full(45, np.nan), XS, YS), "did you swap source and target?")
    refused(lambda: pack([XS, XS], [YS, np.full(60, None)], XT), "source 1 has rows without")


# Meta-estimators ---------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [MDA(), MDA("J12"), MDAClassifier("S1")], ids=str)
def test_a_last_step_that_takes_the_mark_for_a_class(first):
    pipe = make_pipeline(first, LogisticRegression())
    # No domains reach the first step.
    refused(lambda: pipe.fit(X, Y), "enable_metadata_routing=True")
    instead = "MDAClassifier(classifier=LogisticRegression())"
    name = type(first).__name__.lower()
    refused(lambda: pipe.fit(X, Y, **{f"{name}__sample_domain": DOMAIN}), instead)
    with sklearn.config_context(enable_metadata_routing=True):
        refused(lambda: pipe.fit(X, Y), "enable_metadata_routing=True")
        refused(lambda: pipe.fit(X, Y, sample_domain=DOMAIN), instead)
        search = GridSearchCV(pipe, {"logisticregression__C": [1, 2]}, error_score="raise")
        refused(lambda: search.fit(X, Y, sample_domain=DOMAIN), instead)
    is_right(MDAClassifier(classifier=LogisticRegression()).fit(X, Y, sample_domain=DOMAIN))


def test_last_steps_that_know_domains_or_marks():
    with sklearn.config_context(enable_metadata_routing=True):
        for last in (DSCM(), MDAClassifier("BL")):
            is_right(make_pipeline(MDA("S1"), last).fit(X, Y, sample_domain=DOMAIN))
        taught = SelfTrainingClassifier(LogisticRegression())
        is_right(make_pipeline(MDA("S1"), taught).fit(X, Y, sample_domain=DOMAIN))
        scaled = make_pipeline(MDA("S1"), StandardScaler()).fit(X, Y, sample_domain=DOMAIN)
        assert scaled.transform(XT).shape == XT.shape
        labelled = make_pipeline(MDA("S1"), LogisticRegression())
        is_right(labelled.fit(XS, YS))
    features = MDA("S1").fit_transform(X, Y, sample_domain=DOMAIN)
    assert features.shape == X.shape


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_calibration_that_takes_the_mark_for_a_class(model):
    outer = CalibratedClassifierCV(model, cv=3)
    refused(lambda: outer.fit(X, Y), "enable_metadata_routing=True")
    with sklearn.config_context(enable_metadata_routing=True):
        refused(lambda: outer.fit(X, Y, sample_domain=DOMAIN), "MDAClassifierCV()")
    signs = np.where(YS == 0, -1, 1)
    assert outer.fit(XS, signs).classes_.tolist() == [-1, 1]
    inner = model.fit(X, Y, sample_domain=DOMAIN)
    is_right(CalibratedClassifierCV(FrozenEstimator(inner)).fit(XS, YS))


@pytest.mark.parametrize(
    "outer",
    [
        VotingClassifier([("a", MDAClassifier()), ("b", MDAClassifier("BL"))], voting="soft"),
        BaggingClassifier(MDAClassifier(), n_estimators=3, random_state=0),
        OneVsRestClassifier(MDAClassifier()),
    ],
    ids=lambda outer: type(outer).__name__,
)
def test_meta_estimators_that_recode_the_mark(outer):
    with sklearn.config_context(enable_metadata_routing=True):
        refused(
            lambda: outer.fit(X, Y, sample_domain=DOMAIN),
            "which no source row has",
            "put one into MDAClassifier(classifier=",
        )


def test_sparse_rows_are_refused_alike():
    refused(lambda: MDAClassifier().fit(sp.csr_array(X), Y), "sample_domain=sample_domain")


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_tables_that_name_the_same_rows_in_another_order(model):
    """Rows are matched by place: an index that says otherwise is not passed over."""
    names = [f"row {i}" for i in range(len(X))]
    table = pd.DataFrame(X, index=names)
    y, domain = pd.Series(Y, index=names), pd.Series(DOMAIN, index=names)
    plain = clone(model).fit(table, y, sample_domain=domain).predict(table)
    message = "same index in another order"
    refused(lambda: clone(model).fit(table, y[::-1], sample_domain=domain), "X and y", message)
    refused(lambda: clone(model).fit(table, y, sample_domain=domain[::-1]), message, "to_numpy()")
    refused(lambda: clone(model).fit(X, y, sample_domain=domain[::-1]), "y and sample_dom", message)
    # Numbers of rows that were never set, or are of other rows, say nothing.
    for index in (None, pd.Index(np.arange(len(X)) + 7)):
        again = clone(model).fit(table, pd.Series(Y, index=index), sample_domain=DOMAIN)
        np.testing.assert_array_equal(again.predict(table), plain)


def test_batches_and_scores_of_rows_in_another_order():
    names = [f"row {i}" for i in range(len(X))]
    table, y = pd.DataFrame(X, index=names), pd.Series(Y, index=names)
    message = "same index in another order"
    refused(
        lambda: MDAClassifier().partial_fit(table, y[::-1], sample_domain=DOMAIN),
        "X and y",
        message,
    )
    model = MDAClassifier().fit(table, y, sample_domain=DOMAIN)
    refused(lambda: model.score(table, y[::-1]), message)
    assert model.score(table, y) == model.score(X, Y)


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_a_fit_that_fails_leaves_no_mixture(model):
    """Of the new columns or classes, and the old model."""
    fitted = clone(model).fit(X, Y, sample_domain=DOMAIN)
    refused(lambda: fitted.fit(X[:, :2], np.zeros(len(X)), sample_domain=DOMAIN), "class")
    with pytest.raises(NotFittedError):
        fitted.predict(X[:, :2])
