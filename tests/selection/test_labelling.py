"""Which target rows to label next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from marda import MDAClassifier, MDAClassifierCV, load, pack
from marda.datasets import named_task
from marda.selection.ensemble import Ensemble, Member
from marda.selection.inputs import Inputs
from marda.selection.labelling import _spread, choose_rows

pytestmark = pytest.mark.usefixtures("few_draws")


def three_classes(rng, n, shift=0.0):
    y = np.arange(n) % 3
    return rng.normal(shift, 1, (n, 6)) + 2 * np.eye(3, 6)[y], y


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    Xs, ys = three_classes(rng, 90)
    Xt, yt = three_classes(rng, 60, 0.7)
    return *pack(Xs, ys, Xt), Xt, yt


@pytest.fixture(scope="module", params=["S1D", "kernel", "auto"])
def fitted(problem, request):
    X, y, domain, _, _ = problem
    makes = {
        "S1D": lambda: MDAClassifier("S1D"),
        "kernel": lambda: MDAClassifier("S1", classifier="kernel", normalize=True),
        "auto": MDAClassifierCV,
    }
    return makes[request.param]().fit(X, y, sample_domain=domain)


@dataclass
class Told:
    """A classifier whose probabilities are columns of its rows, the features the others."""

    n_classes: int = 2
    normalize: bool = False

    @property
    def classes_(self):
        return np.array(["no", "yes", "maybe"])[: self.n_classes]

    def predict_proba(self, X: Any) -> Any:
        return (X.toarray() if sp.issparse(X) else X)[:, : self.n_classes]

    def transform(self, X: Any) -> Any:
        return X[:, self.n_classes :]


def test_rows_do_not_depend_on_their_order_or_form(fitted, problem):
    Xt = problem[3]
    found = choose_rows(fitted, Xt, 10)
    assert len(set(found.rows.tolist())) == len(found.reasons) == 10
    place = np.random.default_rng(1).permutation(len(Xt))
    again = choose_rows(fitted, Xt[place], 10)
    np.testing.assert_array_equal(place[again.rows], found.rows)
    assert again.reasons == found.reasons
    np.testing.assert_array_equal(choose_rows(fitted, sp.csr_array(Xt), 10).rows, found.rows)


def test_every_predicted_class_has_a_row(fitted, problem):
    Xt = problem[3]
    found = choose_rows(fitted, Xt, 3)
    assert sorted(fitted.predict(Xt[found.rows])) == [0, 1, 2]


def test_a_saved_model_chooses_the_same_rows(fitted, problem, tmp_path):
    fitted.save(tmp_path / "m.marda")
    found, again = (choose_rows(m, problem[3], 8) for m in (fitted, load(tmp_path / "m.marda")))
    np.testing.assert_array_equal(found.rows, again.rows)
    assert found.reasons == again.reasons


def test_a_table_with_names(problem):
    pandas = pytest.importorskip("pandas")
    X, y, domain, Xt, _ = problem
    names = list("abcdef")
    model = MDAClassifier("S1").fit(pandas.DataFrame(X, columns=names), y, sample_domain=domain)
    named = choose_rows(model, pandas.DataFrame(Xt, columns=names, index=np.arange(60) + 5), 4)
    plain = choose_rows(MDAClassifier("S1").fit(X, y, sample_domain=domain), Xt, 4)
    np.testing.assert_array_equal(named.rows, plain.rows)


def test_copies_of_a_row_are_labelled_once(fitted, problem):
    Xt = problem[3]
    found = choose_rows(fitted, np.vstack([Xt[:4]] * 3), 10)
    assert sorted(found.rows % 4) == [0, 1, 2, 3]
    assert len(choose_rows(fitted, Xt[:1], 10).rows) == 1


def test_clusters_of_the_target_have_one_row_each():
    rng = np.random.default_rng(0)
    cluster = np.arange(100) % 5
    X = np.hstack([np.tile([0.4, 0.6], (100, 1)), 20 * np.eye(5)[cluster] + rng.random((100, 5))])
    for rows in (X, sp.csr_array(X)):
        found = choose_rows(Told(), rows, 5)
        assert sorted(cluster[found.rows]) == [0, 1, 2, 3, 4]
        assert set(found.reasons) == {"uncertain: yes or no"}


@pytest.mark.parametrize("digits", [1, 9])  # with one digit, many rows are worth the same
def test_the_rows_of_a_search_through_all_gains(digits):
    rng = np.random.default_rng(digits)
    F, weight = rng.random((150, 2)).round(digits), rng.integers(1, 3, 150).astype(float)
    D = ((F[:, None] - F) ** 2).sum(2)
    K = np.exp(-2 * D / np.median(D))
    near, wanted = np.zeros(150), []
    for _ in range(20):
        gain = weight @ np.maximum(K - near[:, None], 0)
        gain[wanted] = -1
        wanted.append(gain.argmax())
        near = np.maximum(near, K[wanted[-1]])
    assert _spread(F, weight, 20).tolist() == wanted


def test_uncertain_rows_have_more_labels_and_come_first():
    rng = np.random.default_rng(0)
    X = np.hstack([np.tile([0.99, 0.01], (200, 1)), rng.random((200, 3))])
    unsure = X[:, 2] > 0.5
    X[unsure, :2] = [0.49, 0.51]
    found = choose_rows(Told(), X, 12)
    n = int(unsure[found.rows].sum())
    assert 7 <= n < 12
    assert unsure[found.rows[:n]].all()
    assert found.reasons[0] == "uncertain: yes or no"
    assert found.reasons[-1] == "typical of its predicted class"


def test_rows_between_explanations_come_first():
    task = named_task("generated", "shares .5>.1", 0)
    X, y, domain = pack(task.X_source, task.y_source, task.X_target)
    model = MDAClassifierCV().fit(X, y, sample_domain=domain)
    assert model.shift_.fitting == ("class shares",)
    reasons = choose_rows(model, task.X_target, 10).reasons
    told = "explanations of the shift disagree: 0 by 'class shares', 1 by 'moved columns'"
    n = reasons.count(told)
    assert n > 5
    assert reasons[:5] == (told,) * 5


def test_rows_about_which_models_disagree(problem):
    X, y, domain, Xt, _ = problem
    fitted = [MDAClassifier(m).fit(X, y, sample_domain=domain) for m in ("BL", "S1")]
    turned = MDAClassifier("BL").fit(X, np.where(y < 0, y, (y + 1) % 3), sample_domain=domain)
    model = MDAClassifierCV().fit(X, y, sample_domain=domain)
    model.shift_ = None
    members = [Member(f"model {k}", Inputs("raw"), m, 0.5, 1.0)
               for k, m in enumerate((fitted[0], turned))]  # fmt: skip
    model.ensemble_ = Ensemble(tuple(members), 5.0)
    found = choose_rows(model, Xt, 5)
    assert all(reason.startswith("models disagree: ") for reason in found.reasons)
    model.ensemble_ = replace(model.ensemble_, members=(members[0], members[0]))
    assert not any("disagree" in reason for reason in choose_rows(model, Xt, 5).reasons)


@pytest.mark.parametrize("budget", [0, -1, 2.5, True, "20"])
def test_a_budget_is_a_whole_number(fitted, problem, budget):
    with pytest.raises(ValueError, match="budget must be a whole number of at least 1"):
        choose_rows(fitted, problem[3], budget)
