"""The report of a model that chose its parameters by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from marda import MDAClassifierCV
from marda.adaptation import adapt
from marda.adaptation.data import read_data
from marda.diagnostics import gather
from report_pages import SAMPLE

pytest.importorskip("altair")


@pytest.mark.parametrize("candidates", ["auto", {"method": ["S1", "S1D"], "noise": [0.5, 0.9]}])
def test_candidates_are_listed_by_what_they_differ_in(candidates, tmp_path):
    from marda.report.adapted import _candidates, adapted_page

    files = "sample:source", "sample:target"
    data = read_data(*files, SAMPLE)
    X, y, domain, mark = data.packed()
    model = MDAClassifierCV(candidates, unlabeled=mark, random_state=0)
    model.fit(X, y, sample_domain=domain)
    predicted = model.predict(data.Xt)
    evidence = gather(
        data.Xs,
        data.Xt,
        model,
        names=data.preprocessing.features,
        labels=data.ys,
        predicted=predicted,
        probabilities=model.predict_proba(data.Xt),
    )
    done = adapt(*files, SAMPLE, report=(tmp_path / "r.html", adapted_page))
    page = adapted_page(replace(done, model=model, evidence=evidence))
    assert "Models that were weighed without a target label" in page
    listed = _candidates(model.candidates_)
    assert listed.count("<tr>") == 1 + len(model.candidates_)
    assert "fit_intercept" not in listed  # the same in all
