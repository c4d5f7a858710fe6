"""`compare`: methods side by side, judged by labels that none of them saw."""

from __future__ import annotations

import numpy as np
import pytest

from adaptation.small import XS, XT, YS, YT, from_python, write
from marda import pack
from marda.adaptation import ReadOptions, compare
from marda.adaptation.comparing import METHODS
from marda.adaptation.lines import compared_lines
from marda.adaptation.methods import ALIGNED, Baseline, explained
from marda.io import InputError

pytestmark = pytest.mark.usefixtures("few_draws")


def test_compare_judges_with_labels_that_no_method_saw(tmp_path):
    source, target = write(tmp_path / "s.csv", XS, YS), write(tmp_path / "t.csv", XT, YT)
    done = compare(source, target, ReadOptions("y"), methods=["BL", "S1", "S1M"])
    assert [r.method for r in done.results] == ["BL", "S1", "S1M"]
    for result in done.results:
        model = from_python(result.method)
        assert result.accuracy.value == pytest.approx((model.predict(XT) == YT).mean())
        assert result.accuracy.low <= result.accuracy.value <= result.accuracy.high
    assert len(done.pairs) == 3
    assert done.results[0].agreement == 1
    unlabelled = compare(source, write(tmp_path / "u.csv", XT), ReadOptions("y"))
    assert unlabelled.pairs == ()
    assert "no labels" in unlabelled.verdict
    assert [r.method for r in unlabelled.results] == [*METHODS]


def test_well_known_methods_stand_beside_ours_and_see_no_target_label(tmp_path):
    source, target = write(tmp_path / "s.csv", XS, YS), write(tmp_path / "t.csv", XT, YT)
    wrong = write(tmp_path / "w.csv", XT, (YT + 1) % 3)
    names = ["BL", "logistic", "forest", "CORAL", "SA"]
    true, false = (compare(source, t, ReadOptions("y"), methods=names) for t in (target, wrong))
    X, y, domain = pack(XS, YS, XT)
    for name, result, other in zip(names[1:], true.results[1:], false.results[1:], strict=True):
        model = Baseline(name).fit(X, y, sample_domain=domain)
        assert result.accuracy.value == pytest.approx((model.predict(XT) == YT).mean())
        assert other.agreement == result.agreement
        assert other.mmd == result.mmd
    lines = compared_lines(true)
    for name in names:
        assert f"{name:8} {explained(name)}" in lines


def test_what_needs_two_rows_is_left_out_by_default_and_refused_by_name(tmp_path):
    source, target = write(tmp_path / "s.csv", XS, YS), write(tmp_path / "t.csv", XT[:1], YT[:1])
    done = compare(source, target, ReadOptions("y"))
    assert [r.method for r in done.results] == [m for m in METHODS if m not in ALIGNED]
    with pytest.raises(InputError, match="SA needs 2 rows"):
        compare(source, target, ReadOptions("y"), methods=["BL", "SA"])


def test_lines_name_pairs_of_the_best_and_count_the_others(tmp_path):
    far = XT + 5.0  # an offset that only some methods undo
    source = write(tmp_path / "s.csv", XS, YS)
    target = write(tmp_path / "t.csv", np.vstack([far, far + 0.1, far - 0.1]), np.tile(YT, 3))
    done = compare(source, target, ReadOptions("y"), methods=["BL", "S1", "CORAL", "SA"])
    apart = [p for p in done.pairs if p.significant]
    best = done.results[done.best].method
    lines = compared_lines(done)
    told = [line for line in lines if line.startswith(f"{best} and ")]
    assert len(told) == sum(best in (p.a, p.b) for p in apart) > 0
    assert all(": +" in line for line in told)  # the best comes first
    more = len(apart) - len(told)
    assert any(line.startswith(f"{more} more pair") for line in lines) == (more > 0)


def test_copies_of_labelled_rows_do_not_judge(tmp_path):
    source, same = (write(tmp_path / name, XS, YS) for name in ("s.csv", "t.csv"))
    with pytest.raises(InputError, match="60 of 60 labelled target rows are copies"):
        compare(source, same, ReadOptions("y"), methods=["BL", "forest"])
    both = write(tmp_path / "b.csv", np.r_[XS, XT], [*YS, *YT])
    done = compare(source, both, ReadOptions("y"), methods=["BL", "forest"])
    assert done.n_labelled_target == len(XT)
    assert done.results[1].accuracy.value < 1
    assert any("60 of 105 labelled target rows are copies" in note for note in done.notes)
