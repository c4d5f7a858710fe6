"""`adapt`: the same labels as from Python, whatever the format; in memory or in batches."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from adaptation.small import XS, XT, YS, YT, D, from_python, write
from marda.adaptation import ReadOptions, adapt, adapting, load_model, predict
from marda.io import InputError, read_table

pytestmark = pytest.mark.usefixtures("few_draws")


@pytest.mark.parametrize("kind", ["csv", "parquet", "svm", "npz", "mat"])
def test_every_format_gives_the_labels_of_python(kind, tmp_path):
    if kind == "svm":
        source = write(tmp_path / "s.svm", XS, YS + 1)  # 0 in the target means no label
        target = write(tmp_path / "t.svm", XT, np.zeros(len(XT)))
        label, shift = "label", 1
    else:
        source, target = write(tmp_path / f"s.{kind}", XS, YS), write(tmp_path / f"t.{kind}", XT)
        label, shift = "y", 0
    model, out = tmp_path / "m.marda", tmp_path / "p.csv"
    done = adapt(source, target, ReadOptions(label), model=model, out=out, method="S1D")
    wanted = from_python()
    assert done.model.setting_ == "US"
    np.testing.assert_array_equal(done.predictions, wanted.predict(XT) + shift)
    np.testing.assert_allclose(done.probabilities, wanted.predict_proba(XT), atol=1e-9)
    assert predict(model, target, tmp_path / "p2.csv").n_rows == len(XT)
    assert out.read_text() == (tmp_path / "p2.csv").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        [source.name, target.name, "m.marda", "p.csv", "p2.csv"]
    )


def test_some_target_labels_select_ss_by_themselves(tmp_path):
    yt = [int(c) if k < 9 else None for k, c in enumerate(YT)]
    source, target = write(tmp_path / "s.csv", XS, YS), write(tmp_path / "t.csv", XT, yt)
    done = adapt(source, target, ReadOptions("y"), method="S1C")
    assert (done.model.setting_, done.n_labelled_target) == ("SS", 9)
    marked = np.where(np.arange(len(YT)) < 9, YT, -1)
    np.testing.assert_array_equal(done.predictions, from_python("S1C", marked).predict(XT))
    assert any("nothing was written" in note for note in done.notes)


def test_labels_minus_one_and_text_labels(tmp_path):
    for values in (np.array([-1, 1, 2]), np.array(["p", "q", "ü"])):
        yt = [values[c] if k < 9 else None for k, c in enumerate(YT)]
        source, target = (
            write(tmp_path / "s.csv", XS, values[YS]),
            write(tmp_path / "t.csv", XT, yt),
        )
        done = adapt(source, target, ReadOptions("y"), model=tmp_path / "m", method="S1D")
        assert done.model.setting_ == "SS"
        assert done.model.classes_.tolist() == values.tolist()
        assert load_model(tmp_path / "m")[0].classes_.tolist() == values.tolist()


@pytest.mark.parametrize("out", ["p.csv", "p.tsv", "p.parquet"])
def test_ids_are_carried_through(tmp_path, out):
    if out.endswith("parquet"):
        pytest.importorskip("pyarrow")
    ids = [f"row {k}" for k in range(60)]
    source = write(tmp_path / "s.csv", XS, YS, ids)
    target = write(tmp_path / "t.csv", XT, None, ids[:45])
    options = ReadOptions("y", id="id")
    adapt(source, target, options, out=tmp_path / out, model=tmp_path / "m", method="S1D")
    table = read_table(tmp_path / out)
    assert table["id"].tolist() == ids[:45]
    assert table.names[:3] == ["id", "prediction", "probability"]
    assert table.names[3:] == ["probability_0", "probability_1", "probability_2"]
    # A file without the id is scored too, by row number.
    predict(tmp_path / "m", write(tmp_path / "n.csv", XT), tmp_path / "n_out.csv")
    assert read_table(tmp_path / "n_out.csv")["row"].tolist()[:2] == ["1", "2"]
    with pytest.raises(InputError, match="no column 'key'"):
        predict(tmp_path / "m", tmp_path / "n.csv", tmp_path / "x.csv", id="key")
    assert not (tmp_path / "x.csv").exists()


def test_text_and_categories_end_to_end(tmp_path):
    rng = np.random.default_rng(0)
    words = {0: ["good", "fine"], 1: ["bad", "poor"]}

    def lines(n, extra):
        for k in range(n):
            text = " ".join([*rng.choice(words[k % 2], 2), *rng.choice(extra, 2)])
            yield [text, ["red", "blue"][k % 2 if extra[0] == "book" else 0], k % 2]

    for name, extra in (("s", ["book", "page"]), ("t", ["film", "scene"])):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["text", "colour", "y"], *lines(60, extra)])
    options = ReadOptions("y", text=("text",), drop=("colour",))
    done = adapt(tmp_path / "s.csv", tmp_path / "t.csv", options, model=tmp_path / "m")
    assert done.model.setting_ == "SUP"
    assert (done.predictions == np.arange(60) % 2).mean() == 1
    predict(tmp_path / "m", tmp_path / "t.csv", tmp_path / "p.csv")
    assert read_table(tmp_path / "p.csv")["prediction"].tolist() == ["0", "1"] * 30


def test_nothing_is_written_if_the_model_cannot_be(tmp_path, monkeypatch):
    def full(model, path):
        raise OSError("no space left")

    monkeypatch.setattr(adapting, "save", full)
    source, target = write(tmp_path / "s.csv", XS, YS), write(tmp_path / "t.csv", XT)
    files = {"out": tmp_path / "p.csv", "report": (tmp_path / "r.html", lambda result: "page")}
    with pytest.raises(OSError, match="no space"):
        adapt(source, target, ReadOptions("y"), model=tmp_path / "m", method="S1D", **files)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.csv", "t.csv"]


def test_a_report_sees_the_result_and_nothing_is_written_if_it_fails(tmp_path):
    source, target = write(tmp_path / "s.csv", XS, YS), write(tmp_path / "t.csv", XT)
    page, out = tmp_path / "r.html", tmp_path / "p.csv"
    with pytest.raises(ZeroDivisionError):
        adapt(
            source,
            target,
            ReadOptions("y"),
            out=out,
            report=(page, lambda result: 1 / 0),
            method="S1D",
        )
    assert not page.exists()
    assert not out.exists()
    done = adapt(source, target, ReadOptions("y"), report=(page, lambda r: r.diagnosis.verdict))
    assert page.read_text() == done.diagnosis.verdict
    assert done.evidence.target.sum() == len(XT)
    assert done.judgement is None
    assert [step for step, _ in done.times][:2] == ["reading", "adapting"]


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    from marda.io import PredictionWriter

    leave = PredictionWriter.__exit__

    def no_space():
        raise OSError(28, "No space left on device")

    def full(self, *error):  # the disk is full when the last rows are written, as files are closed
        self._stack.callback(no_space)
        leave(self, *error)

    monkeypatch.setattr(PredictionWriter, "__exit__", full)
    source, target = write(tmp_path / "s.csv", XS, YS), write(tmp_path / "t.csv", XT)
    with pytest.raises(OSError, match="No space left"):
        adapt(source, target, ReadOptions("y"), out=tmp_path / name, method="S1D")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.csv", "t.csv"]


def test_whole_number_ids_with_gaps_stay_whole_numbers(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    from marda.io import PredictionWriter

    P = np.full((2, 2), 0.5)
    with PredictionWriter(tmp_path / "p.parquet", np.array([0, 1]), "id") as writer:
        writer.write(np.array([1, 2**53 + 1]), np.array([0, 1]), P)
        writer.write(np.array([3.0, np.nan]), np.array([0, 1]), P)
    assert pq.read_table(tmp_path / "p.parquet")["id"].to_pylist() == [1, 2**53 + 1, 3, None]


def test_extreme_numbers_are_refused_or_scaled(tmp_path):
    source = write(tmp_path / "s.csv", XS * 1e140, YS)
    target = write(tmp_path / "t.csv", XT * 1e140)
    with pytest.raises(InputError, match=r"'f\d' holds numbers as large as \de\+14\d.*--scale"):
        adapt(source, target, ReadOptions("y"))
    done = adapt(source, target, ReadOptions("y", scale="standard"), method="S1D")
    same = adapt(
        write(tmp_path / "a.csv", XS, YS),
        write(tmp_path / "b.csv", XT),
        ReadOptions("y", scale="standard"),
        method="S1D",
    )
    np.testing.assert_array_equal(done.predictions, same.predictions)


def test_progress_is_told(tmp_path):
    source, target = write(tmp_path / "s.csv", XS, YS), write(tmp_path / "t.csv", XT)
    seen = []
    adapt(source, target, ReadOptions("y"), progress=lambda done, what: seen.append((done, what)))
    shares = [round(done, 9) for done, _ in seen]
    assert shares == sorted(shares)
    assert seen[0] == (0.0, "reading")
    assert seen[-1] == (1.0, "done")
    adapt(source, target, ReadOptions("y"), model=tmp_path / "m", method="S1D")
    seen.clear()
    arguments = (tmp_path / "m", target, tmp_path / "p.csv")
    predict(*arguments, progress=lambda done, what: seen.append((done, what)))
    assert seen[-1][1] == "45 rows"
    assert 0.9 < seen[-1][0] <= 1
    seen.clear()
    many = write(tmp_path / "many.csv", np.tile(XT, (6, 1)) + np.arange(270)[:, None] / 1e3)
    arguments = (tmp_path / "m", many, tmp_path / "q.csv")
    predict(*arguments, explain=1, progress=lambda done, what: seen.append((done, what)))
    assert [what for _, what in seen] == ["100 rows", "200 rows", "270 rows"]


def test_a_cut_alternation_is_a_note(tmp_path):
    source, target = write(tmp_path / "s.csv", XS, YS), write(tmp_path / "t.csv", XT)
    done = adapt(source, target, ReadOptions("y"), method="J12D", max_iter=1, tol=0.0)
    assert any("max_iter=1" in note for note in done.notes)


def test_labelled_target_rows_judge_without_having_been_seen(tmp_path, monkeypatch):
    source = write(tmp_path / "s.csv", XS, YS)
    target = write(tmp_path / "t.csv", XT, list(YT))
    page = tmp_path / "r.html"
    options = {"report": (page, lambda r: ""), "method": "S1D"}
    judged = adapt(source, target, ReadOptions("y"), **options).judgement
    assert judged.n_rows == len(XT)
    assert judged.adapted.value == judged.confusion.trace() / len(XT)
    assert judged.gain.value == pytest.approx(judged.adapted.value - judged.plain.value)
    # Where a fit is expensive, a fifth of the labels judges alone.
    monkeypatch.setattr("marda.adaptation.adapting.EXPENSIVE_FIT", 0)
    few = adapt(source, target, ReadOptions("y"), report=options["report"]).judgement
    assert few.n_rows == len(XT) // 5
    monkeypatch.undo()
    # Labels without meaning: a model that had seen them would be right above chance.
    noise = np.random.default_rng(0).permutation(np.repeat(YT, 8))
    rows = np.random.default_rng(1).normal(size=(len(noise), D))
    target = write(tmp_path / "u.csv", rows, list(noise))
    judged = adapt(
        source, target, ReadOptions("y"), report=(page, lambda r: ""), classifier="nn", method="BL"
    ).judgement
    assert abs(judged.adapted.value - 1 / 3) < 0.1


def test_copies_of_labelled_rows_do_not_judge(tmp_path):
    """A classifier that knows them by heart would be right in all of them."""
    page, options = tmp_path / "r.html", ReadOptions("y")
    source = write(tmp_path / "s.csv", XS, YS)
    both = write(tmp_path / "b.csv", np.r_[XS, XT], [*YS, *YT])
    same, some = (
        adapt(source, target, options, report=(page, lambda r: ""), method="BL", classifier="nn")
        for target in (write(tmp_path / "t.csv", XS, YS), both)
    )
    assert same.judgement is None
    assert any("60 of 60 labelled target rows are copies" in note for note in same.notes)
    assert some.judgement.n_rows == len(XT)
    assert any("60 of 105 labelled target rows are copies" in note for note in some.notes)
    # Tables of few values have copies by nature, some of several classes.
    X = np.arange(60)[:, None] % 4 * np.ones(D)
    source, target = write(tmp_path / "u.csv", X, YS), write(tmp_path / "v.csv", X, YS[::-1])
    natural = adapt(source, target, options, report=(page, lambda r: ""), method="BL")
    assert natural.judgement.n_rows == 60
