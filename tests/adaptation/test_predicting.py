"""`predict`: the labels of the model, whatever the batches and wherever the model was saved."""

from __future__ import annotations

import gzip
from datetime import date, timedelta

import numpy as np
import pytest

from adaptation.small import NAMES, XS, XT, YS, from_python, write
from marda import MDAClassifier, pack
from marda.adaptation import (
    ReadOptions,
    adapt,
    evaluate,
    label,
    load_model,
    predict,
    predicting,
)
from marda.io import InputError, read_table

pytestmark = pytest.mark.usefixtures("few_draws")


def test_batches_do_not_change_predictions(tmp_path, monkeypatch):
    source, target = write(tmp_path / "s.csv", XS, YS), write(tmp_path / "t.csv", XT)
    adapt(source, target, ReadOptions("y"), out=tmp_path / "a.csv", model=tmp_path / "m")
    monkeypatch.setattr(predicting, "MAX_BATCH_ROWS", 300)
    many = write(tmp_path / "many.csv", np.tile(XT, (20, 1)))
    done = predict(tmp_path / "m", many, tmp_path / "b.csv")
    assert done.n_rows == 900
    first = read_table(tmp_path / "a.csv")["prediction"].tolist()
    assert read_table(tmp_path / "b.csv")["prediction"].tolist() == first * 20
    assert sum(done.counts.values()) == 900


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_in_threads_come_in_order_and_say_what_is_wrong(tmp_path, monkeypatch, threads):
    model = from_python()
    model.save(tmp_path / "m")
    monkeypatch.setattr(predicting, "blas_threads", lambda: threads)
    monkeypatch.setattr(predicting, "MAX_BATCH_ROWS", 256)
    many = np.vstack([XT + 0.01 * k for k in range(40)])
    predict(tmp_path / "m", write(tmp_path / "many.npz", many), tmp_path / "p.csv")
    found = read_table(tmp_path / "p.csv")["prediction"].tolist()
    assert found == [str(value) for value in model.predict(many)]
    many[1000, 0] = np.nan
    with pytest.raises(InputError, match="missing values"):
        predict(tmp_path / "m", write(tmp_path / "odd.npz", many), tmp_path / "q.csv")
    assert not (tmp_path / "q.csv").exists()


@pytest.mark.parametrize("named", [True, False])
def test_models_saved_from_python_serve_too(tmp_path, named):
    pd = pytest.importorskip("pandas")
    X, y, domain = pack(XS, YS, XT)
    rows = pd.DataFrame(X, columns=NAMES) if named else X
    model = MDAClassifier().fit(rows, y, sample_domain=domain)
    model.save(tmp_path / "m")
    new = write(tmp_path / ("n.csv" if named else "n.npz"), XT)
    predict(tmp_path / "m", new, tmp_path / "p.csv")
    wanted = model.predict(rows[len(XS) :])
    assert read_table(tmp_path / "p.csv")["prediction"].tolist() == [str(v) for v in wanted]


def test_columns_of_a_file_that_lie_are_refused_before_names_are_made(tmp_path):
    model = from_python()
    step = {"kind": "matrix", "width": 10**15}
    model.preprocessing_ = {"version": 1, "label": "y", "id": None, "steps": [step]}
    model.save(tmp_path / "m")
    with pytest.raises(InputError, match="do not fit"):
        load_model(tmp_path / "m")


# Files written otherwise than those of adapt -----------------------------------------------------


def _local(path, ids, *, sep=";", decimal=",", dates="%d.%m.%Y", truth=("ja", "nein"), label=None):
    """Rows as an office writes them; the same rows for the same ids."""
    names = ["Lange", "Preis", "Tag", "Frisch"]
    lines = [sep.join([*names, *(["kind"] if label else [])])]
    for k in ids:
        rng = np.random.default_rng(k)
        y = k % 2
        day = date(2024, 1, 1) + timedelta(days=int(rng.integers(300)) + 40 * y)
        cells = [f"{rng.normal(3 * y, 1):.3f}", f"{1500 + 150 * y + rng.normal(0, 90):.2f}"]
        cells = [cell.replace(".", decimal) for cell in cells]
        cells += [f"{day:{dates}}", truth[rng.random() < 0.5]]
        lines.append(sep.join([*cells, *(["ab"[y]] if label else [])]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def local_model(tmp_path):
    """A model of files with decimal points and ISO dates."""
    plain = {"sep": ",", "decimal": ".", "dates": "%Y-%m-%d", "truth": ("1", "0")}
    source = _local(tmp_path / "s.csv", range(60), label=True, **plain)
    target = _local(tmp_path / "t.csv", range(100, 150), **plain)
    adapt(source, target, ReadOptions("kind"), model=tmp_path / "m", method="BL")
    new = _local(tmp_path / "new.csv", range(200, 260), **plain)
    predict(tmp_path / "m", new, tmp_path / "wanted.csv")
    return tmp_path, (tmp_path / "wanted.csv").read_text()


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"decimal": ".", "dates": "%m/%d/%Y", "truth": ("TRUE", "FALSE"), "sep": "\t"},
        {"dates": "%d %B %Y", "truth": ("yes", "no"), "sep": "|"},
    ],
)
def test_other_conventions_give_the_same_answers(local_model, how, monkeypatch):
    folder, wanted = local_model
    new = _local(folder / "local.csv", range(200, 260), **how)
    predict(folder / "m", new, folder / "p.csv")
    assert (folder / "p.csv").read_text() == wanted
    new.write_text(new.read_text().replace("Lange", " LANGE "))
    predict(folder / "m", new, folder / "p.csv")
    assert (folder / "p.csv").read_text() == wanted
    monkeypatch.setattr(predicting, "MAX_BATCH_ROWS", 256)
    many = new.read_text().splitlines()
    new.write_text("\n".join([many[0], *many[1:] * 10]) + "\n")
    predict(folder / "m", new, folder / "p.csv")
    rows = (folder / "p.csv").read_text().splitlines()[1:]
    assert [row.split(",", 1)[1] for row in rows] == [
        row.split(",", 1)[1] for row in wanted.splitlines()[1:]
    ] * 10


def test_what_a_new_file_leaves_open_is_asked_for_at_once(local_model):
    folder, _ = local_model
    new = folder / "one.csv"
    new.write_text("Lange;Preis;Tag;Frisch\n1,234;1,500;3/4/2024;ja\n")
    with pytest.raises(InputError, match=r"3 things to settle.*--decimal.*--dates") as caught:
        predict(folder / "m", new, folder / "p.csv")
    wanted = ("--decimal", "point|comma", "--dates", "day-first|month-first")  # not to be pasted
    assert caught.value.options == wanted
    options = ReadOptions("", decimal=("comma",), dates=("month-first",))
    predict(folder / "m", new, folder / "p.csv", options=options)
    same = folder / "same.csv"
    same.write_text("Lange,Preis,Tag,Frisch\n1.234,1.500,2024-03-04,1\n")
    predict(folder / "m", same, folder / "q.csv")
    assert (folder / "p.csv").read_text() == (folder / "q.csv").read_text()


def test_a_later_batch_may_not_change_its_mind(local_model, monkeypatch):
    folder, _ = local_model
    monkeypatch.setattr(predicting, "MAX_BATCH_ROWS", 256)
    new = folder / "turns.csv"
    rows = ["1.5;2;2024-01-01;1"] * 300 + ["1,5;2;2024-01-01;1"]
    new.write_text("\n".join(["Lange;Preis;Tag;Frisch", *rows]) + "\n")
    with pytest.raises(InputError, match="column 'Lange' must hold numbers, got '1,5'"):
        predict(folder / "m", new, folder / "p.csv")
    rows[-1] = "1.5;2;soon;1"
    new.write_text("\n".join(["Lange;Preis;Tag;Frisch", *rows]) + "\n")
    with pytest.raises(InputError, match="column 'Tag' must hold dates, got"):
        predict(folder / "m", new, folder / "p.csv")
    new.write_text("\n".join(["Lange;Pries;Tag;Frisch", *rows[:1]]) + "\n")
    with pytest.raises(InputError, match=r"no column 'Preis', .*\(did you mean 'Pries'\?\)"):
        predict(folder / "m", new, folder / "p.csv")


@pytest.mark.parametrize(
    ("then", "now"), [("{:.0f}%", "{:.0f}"), ("{:.0f}", "{:.0f}%"), ("0:{:02.0f}", "{:.0f}")]
)
def test_numbers_that_mean_another_thing_than_at_adapt_are_refused(tmp_path, then, now):
    def rows(name, form, n, label=False):
        lines = ["a,b" + ",y" * label]
        for k in range(n):
            size = 20 + 3 * (k % 2) + k % 11
            lines.append(f"{form.format(size)},{k % 5}" + (",no" if k % 2 else ",yes") * label)
        (tmp_path / name).write_text("\n".join(lines))
        return tmp_path / name

    source, target = rows("s.csv", then, 60, label=True), rows("t.csv", then, 40)
    adapt(source, target, ReadOptions("y"), model=tmp_path / "m", method="BL")
    predict(tmp_path / "m", target, tmp_path / "p.csv")
    other = rows("n.csv", now, 40, label=True)
    for read in (
        lambda: predict(tmp_path / "m", other, tmp_path / "q.csv"),
        lambda: evaluate(tmp_path / "m", other),
        lambda: label(tmp_path / "m", other),
    ):
        with pytest.raises(InputError, match=r"column 'a' holds .* where the model was made"):
            read()
    assert not (tmp_path / "q.csv").exists()


def test_words_that_mean_no_value_are_remembered(tmp_path):
    source = write(tmp_path / "s.csv", XS, YS)
    target = write(tmp_path / "t.csv", XT)
    first = f"{XT[0, 0]}"
    target.write_text(target.read_text().replace(first, "broken", 1))
    options = ReadOptions("y", na=("broken",), missing="impute")
    done = adapt(source, target, options, model=tmp_path / "m", out=tmp_path / "a.csv", method="BL")
    assert done.preprocessing.na == ("broken",)
    predict(tmp_path / "m", target, tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


@pytest.mark.parametrize("rows", [300, 45, 40])
def test_sums_in_the_last_row_are_no_row(tmp_path, monkeypatch, rows):
    source, target = write(tmp_path / "s.csv", XS, YS), write(tmp_path / "t.csv", XT)
    adapt(source, target, ReadOptions("y"), out=tmp_path / "a.csv", model=tmp_path / "m")
    new = write(tmp_path / "new.csv", np.vstack([XT, XT.sum(0)]))
    monkeypatch.setattr(predicting, "MAX_BATCH_ROWS", rows)
    done = predict(tmp_path / "m", new, tmp_path / "b.csv")
    assert done.n_rows == len(XT)
    assert done.notes == (f"{new}: the last row holds the sums of the others and is left out.",)
    told = [read_table(tmp_path / name)["prediction"].tolist() for name in ("a.csv", "b.csv")]
    assert told[0] == told[1]
    other = write(tmp_path / "other.csv", np.vstack([XT, 1.1 * XT.sum(0)]))
    assert predict(tmp_path / "m", other, tmp_path / "c.csv").n_rows == len(XT) + 1


def test_packed_rows_are_counted_unpacked(tmp_path):
    """The time left is told by rows."""
    plain = write(tmp_path / "t.csv", XT)
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    source = write(tmp_path / "s.csv", XS, YS)
    adapt(source, plain, ReadOptions("y"), method="BL", model=tmp_path / "m")
    told = []
    for path in (plain, packed):
        told.append([])
        predict(tmp_path / "m", path, tmp_path / "p.csv", progress=lambda *x: told[-1].append(x))
    assert told[0] == told[1] != []


# What new rows hold that adapt did not see -------------------------------------------------------


def _shop(path, n, colours, *, seed, label=False, size="1.5", text="a red box", header=True):
    """Rows of colours and sizes; every tenth size is missing."""
    lines = [f"colour,size,words,weight{',kind' if label else ''}"] if header else []
    rng = np.random.default_rng(seed)
    for k in range(n):
        y = int(rng.random() < 0.5)
        cells = [colours[k % len(colours)], "" if k % 10 == 0 else size, text]
        cells += [f"{rng.normal(3 * y, 1):.3f}", *(["ab"[y]] if label else [])]
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def shop(tmp_path):
    source = _shop(tmp_path / "s.csv", 80, ["red", "blue"], seed=0, label=True)
    source.write_text(source.read_text().replace("1.5", "2", 20).replace("a red", "one blue", 30))
    target = _shop(tmp_path / "t.csv", 60, ["red", "green"], seed=1, size="2.5")
    how = ReadOptions("kind", missing="impute", text=("words",), keep=("words",))
    adapt(source, target, how, model=tmp_path / "m", method="BL")
    return tmp_path


@pytest.mark.parametrize("rows", [50_000, 256])
def test_unseen_categories_and_lost_values_are_told(shop, monkeypatch, rows):
    monkeypatch.setattr(predicting, "MAX_BATCH_ROWS", rows)
    monkeypatch.setattr(predicting, "BATCH_BYTES", 1)
    same = _shop(shop / "same.csv", 600, ["green", "red", "blue"], seed=2)
    quiet = predict(shop / "m", same, shop / "p.csv")
    assert quiet.to_json()["notes"] == []
    assert quiet.to_json()["unseen"] == {}
    new = _shop(shop / "new.csv", 600, ["red", "mauve", "teal"], seed=2, text="zwei kisten")
    done = predict(shop / "m", new, shop / "p.csv")
    assert done.to_json()["unseen"] == {"colour": 400, "words": 600}
    assert done.notes == (
        "column 'colour': 400 of 600 rows hold categories that adapt did not see ('mauve', "
        "'teal'), which count for nothing.",
        "column 'words': 600 of 600 rows hold no word that adapt saw.",
    )
    lost = _shop(shop / "lost.csv", 600, ["red"], seed=2, size="")
    assert predict(shop / "m", lost, shop / "p.csv").notes == (
        "column 'size': 600 of 600 rows have no value (10% at adapt); the mean or commonest value "
        "of adapt stands for them.",
    )
    few = _shop(shop / "few.csv", 3, ["red"], seed=2, size="")
    assert predict(shop / "m", few, shop / "p.csv").notes == ()  # by chance


def test_label_and_evaluate_tell_of_unseen_categories_too(shop):
    new = _shop(shop / "new.csv", 40, ["red", "mauve"], seed=3, label=True)
    told = "column 'colour': 20 of 40 rows hold categories that adapt did not see ('mauve')"
    assert evaluate(shop / "m", new).notes[0].startswith(told)
    bare = _shop(shop / "bare.csv", 40, ["red", "mauve"], seed=3)
    assert label(shop / "m", bare).notes[0].startswith(told)


def test_predict_tells_how_it_read_the_file(shop, monkeypatch):
    """Rows are numbered as they are scored, so that what is left out must be told."""
    monkeypatch.setattr(predicting, "MAX_BATCH_ROWS", 256)
    first = _shop(shop / "a.csv", 300, ["red"], seed=4).read_text()
    again = _shop(shop / "b.csv", 212, ["red"], seed=4).read_text()
    raw = f"Stöcke\n\n{first},,,\n{again}\n(512 rows affected)\n"
    new = shop / "new.csv"
    new.write_bytes(raw.encode("cp1252"))
    done = predict(shop / "m", new, shop / "p.csv")
    assert done.n_rows == 512
    assert done.notes == (
        f"{new} is not UTF-8 and is read as Windows-1252: --encoding names another.",
        f"{new}: 2 lines above the header left out.",
        f"{new}: rows without any value are left out, and not counted.",
        f"{new}: lines that repeat the header are left out, and not counted.",
        f"{new}: what stands below the last row ('(512 rows affected)') left out.",
    )
    assert read_table(new).notes == done.notes  # as adapt, label and evaluate tell it


def test_rows_that_are_all_of_one_class_are_told(tmp_path):
    from_python().save(tmp_path / "m")
    far = XT + 100 * np.ptp(XT)
    for k, (rows, told) in enumerate([(XT, False), (far, True), (far[:5], False)]):
        new = write(tmp_path / f"{k}.npz", rows)
        found = predict(tmp_path / "m", new, tmp_path / f"{k}.csv")
        assert told == any(f"all {len(rows)} rows are predicted as" in n for n in found.notes)
