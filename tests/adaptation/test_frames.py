"""marda.adapt on DataFrames: as on files, with the caller's library, index and ids."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import marda
from marda import cli
from marda.adaptation import checking, frames
from marda.adaptation.frames import UnseenWarning
from marda.diagnostics import answer, diagnosis, verdict
from marda.io import InputError, dataframes, screening

pytestmark = pytest.mark.usefixtures("few_draws")

pytest.importorskip("pyarrow")  # polars and pandas exchange tables through it
pl = pytest.importorskip("polars")


def rows(n, seed, move=0.0):
    """A table as people have them: every kind of column, with gaps, an id and a constant."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    texts = np.array(["slow and broken again", "kind people, quick reply", "it is a thing"])
    frame = pd.DataFrame(
        {
            "customer": [f"c-{seed}-{k:04d}" for k in range(n)],
            "income": np.round(rng.normal(30 + 3 * y + move, 5, n), 2),
            "visits": rng.poisson(1 + 3 * y),
            "joined": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 40, n) + 30 * y, unit="D"),
            "member": rng.random(n) < 0.2 + 0.5 * y,
            "plan": rng.choice(["basic", "plus", "gold"], n),
            "note": np.where(rng.random(n) < 0.7, texts[y], texts[2]),
            "paid": [f"€ {k},50" for k in rng.integers(1, 90, n)],
            "country": "DE",
            "churn": np.array(["stay", "leave"])[y],
        }
    )
    frame.loc[rng.random(n) < 0.1, "income"] = np.nan
    frame.loc[rng.random(n) < 0.1, "plan"] = None
    return frame


SOURCE, TARGET = rows(120, 1), rows(80, 2, move=6)
TARGET.loc[5, "plan"] = "platinum"  # which no source row has
TRUTH = TARGET.pop("churn")
TARGET.index = pd.Index([f"r{k}" for k in range(80)], name="row")
HOW = {"label": "churn", "id": "customer", "text": "note", "missing": "impute", "method": "S1D"}


@pytest.fixture(scope="module")
def result():
    return marda.adapt(SOURCE, TARGET, **HOW, scale="standard")


def test_frames_give_what_files_give(result, tmp_path):
    SOURCE.to_csv(tmp_path / "s.csv", index=False)
    TARGET.to_csv(tmp_path / "t.csv", index=False)
    files = marda.adapt(tmp_path / "s.csv", str(tmp_path / "t.csv"), **HOW, scale="standard")
    polars = marda.adapt(
        pl.from_pandas(SOURCE), pl.from_pandas(TARGET), **HOW, scale="standard"
    )  # fmt: skip
    mine = result.predictions
    for other in (files.predictions, polars.predictions.to_pandas()):
        assert list(other.columns) == list(mine.columns)
        assert list(other["prediction"]) == list(mine["prediction"])
        np.testing.assert_allclose(other["probability"], mine["probability"], rtol=1e-9)
    assert files.notes == polars.notes == result.notes
    assert files.model.n_features_in_ == result.model.n_features_in_
    assert "'country', which is the same in all rows (keep=['country'])" in result.notes[0]


def test_predictions_keep_library_index_and_ids(result):
    found = result.predictions
    assert found.index.equals(TARGET.index)
    assert found["customer"].equals(TARGET["customer"])
    assert list(found.columns) == [
        "customer",
        "prediction",
        "probability",
        "probability_leave",
        "probability_stay",
    ]
    right = (found["prediction"].to_numpy() == TRUTH.to_numpy()).mean()
    assert right > 0.85
    pair = found[["probability_leave", "probability_stay"]].to_numpy()
    np.testing.assert_allclose(pair.sum(1), 1)
    np.testing.assert_array_equal(found["probability"], pair.max(1))
    assert found is result.predictions
    assert (
        "id"
        not in marda.adapt(
            SOURCE, TARGET, **{**HOW, "id": None, "drop": "customer", "method": "BL"}
        ).predictions
    )


def test_the_callers_frames_are_not_written_to():
    before = SOURCE.copy(), TARGET.copy()
    marda.adapt(SOURCE, TARGET, **HOW, na=("basic",)).to_label(3)
    pd.testing.assert_frame_equal(SOURCE, before[0])
    pd.testing.assert_frame_equal(TARGET, before[1])


def test_verdict_warnings_and_three_lines(result):
    lines = repr(result).split("\n")
    assert len(lines) == 3
    assert lines[0].startswith("marda.adapt (S1D): 120 source rows, 80 target rows; predicted")
    assert lines[1] == result.verdict
    assert isinstance(result.warnings, tuple)
    assert not [said for said in (*result.notes, *result.warnings, *lines) if "--" in said]


#: Words of the command line: options, but for the style of a page, and commands.
COMMANDS = "|".join(cli.COMMANDS)
OF_THE_COMMAND_LINE = re.compile(rf"(?<!var\()(?<!-)--[a-z]|marda (?:{COMMANDS})\b")


@pytest.fixture(scope="module")
def judged_result():
    """Twenty rows have labels, and judge; columns have wild scales."""
    given = TARGET.assign(churn=TRUTH.to_numpy(), income=TARGET["income"] * 1e6)
    given.loc[given.index[20:], "churn"] = None
    return marda.adapt(SOURCE.assign(income=SOURCE["income"] * 1e6), given, **HOW)


@pytest.mark.parametrize("which", ["result", "judged_result"])
def test_results_speak_the_words_of_python(which, request, tmp_path):
    found = request.getfixturevalue(which)
    page = found.report(tmp_path / "page.html").read_text(encoding="utf-8")
    page = re.sub("<style>.*?</style>|<script.*?</script>", "", page, flags=re.S)
    head = re.sub("<style>.*?</style>", "", found._repr_html_(), flags=re.S)
    reasons = " ".join(found.to_label(5)["reason"])
    said = [repr(found), found.verdict, *found.warnings, *found.notes, page, head, reasons]
    for text in said:
        assert not OF_THE_COMMAND_LINE.findall(text)


def test_every_sentence_has_words_of_python():
    """Options and commands in sentences of the layers below, each as it is said in Python."""
    for module in (answer, checking, diagnosis, verdict, screening):
        texts = [
            node.value
            for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        said = [text for text in texts if OF_THE_COMMAND_LINE.search(text)]
        left = [text for text in said if OF_THE_COMMAND_LINE.search(frames.as_keywords(text))]
        assert not left


def test_the_head_of_the_report_for_notebooks(result):
    html = result._repr_html_()
    assert "<script" not in html
    assert "http" not in html
    assert 'class="verdict' in html
    assert "120 labelled rows of the source" in html
    assert "id=" not in html  # a notebook shows many of them
    # What is said of the page's own style must not reach the notebook's.
    style = re.search("<style>(.*)</style>", html, re.S)[1]
    selectors = re.findall(r"([^{}]+)\{", style)
    assert selectors
    assert all(one.strip().startswith(".marda-head") for s in selectors for one in s.split(","))


def test_a_hostile_name_stays_text():
    bad = "<img src=x onerror=alert(1)>"
    found = marda.adapt(
        SOURCE.rename(columns={"income": bad}), TARGET.rename(columns={"income": bad}), **HOW
    )
    check = marda.check(
        SOURCE[["income"]].rename(columns={"income": bad}),
        TARGET[["income"]].rename(columns={"income": bad}) + 50,
    )
    assert "<img" not in found._repr_html_()
    html = check._repr_html_()
    assert "<img" not in html
    assert "&lt;img" in html


def test_report(result, tmp_path):
    path = result.report(tmp_path / "page.html")
    text = path.read_text(encoding="utf-8")
    assert "the source → the target" in text
    assert "Can I use these predictions?" in text
    with pytest.raises(IsADirectoryError):
        result.report(tmp_path)


def test_other_rows_of_the_target(result):
    again = result.predict(TARGET.iloc[::-1])
    pd.testing.assert_frame_equal(again, result.predictions.iloc[::-1])
    some = TARGET.head(2).drop(columns="customer")
    assert list(result.predict(some).index) == ["r0", "r1"]
    assert isinstance(result.predict(pl.from_pandas(TARGET)), pl.DataFrame)
    with pytest.raises(InputError, match="the table has no column 'visits', which the model needs"):
        result.predict(TARGET.drop(columns="visits"))


@pytest.mark.parametrize("n", [30, 80, 110])
def test_rows_of_a_file_keep_their_own_ids(result, tmp_path, n):
    """They had the ids and the index of the target, if these were as many or more."""
    new = rows(n, 3, move=6)
    wanted = result.predict(new)
    new.to_csv(tmp_path / "n.csv", index=False)
    found = result.predict(tmp_path / "n.csv")
    pd.testing.assert_frame_equal(found, wanted, rtol=1e-9)
    assert found["customer"].tolist() == new["customer"].tolist()
    assert found.index.tolist() == list(range(n))


def test_a_category_that_only_new_rows_have_is_warned_of(result):
    new = TARGET.assign(plan=["basic", *["trial"] * 79])
    told = "the table: column 'plan': 79 of 80 rows hold categories that adapt did not see"
    with pytest.warns(UnseenWarning, match=told) as caught:
        result.predict(new)
    assert [one.filename for one in caught] == [__file__]


def test_a_saved_model_reads_the_same_columns(result, tmp_path):
    result.model.save(tmp_path / "m.marda")
    TARGET.to_csv(tmp_path / "t.csv", index=False)
    assert cli.main(
        ["predict", "--model", str(tmp_path / "m.marda"), "--input", str(tmp_path / "t.csv"),
         "--out", str(tmp_path / "p.csv")]
    ) == 0  # fmt: skip
    served = pd.read_csv(tmp_path / "p.csv")
    assert list(served["prediction"]) == list(result.predictions["prediction"])


def test_rows_to_label(result):
    rows = result.to_label(7)
    assert len(rows) == 7
    assert set(rows.index) <= set(TARGET.index)
    assert list(rows.columns) == [*TARGET.columns, "prediction", "probability", "reason"]
    assert (rows["prediction"] == result.predictions["prediction"][rows.index]).all()
    assert rows["reason"].str.len().min() > 5
    with pytest.raises(ValueError, match="at least 1, got 0"):
        result.to_label(0)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_labels_that_the_target_has(library):
    """Some rows have labels: they are learnt from, not asked for again."""
    given = TARGET.assign(churn=TRUTH.to_numpy())
    given.loc[given.index[20:], "churn"] = None
    convert = pl.from_pandas if library == "polars" else pd.DataFrame
    found = marda.adapt(convert(SOURCE), convert(given), **HOW)
    assert found.model.setting_ == "SS"
    assert "labelled target rows, each predicted unseen" in repr(found)  # 20 of them judge
    asked = found.to_label(60)
    assert len(asked) == 60
    assert asked["churn"].is_null().all() if library == "polars" else asked["churn"].isna().all()
    with pytest.raises(InputError, match="every row of the target has a label"):
        marda.adapt(SOURCE, TARGET.assign(churn=TRUTH.to_numpy()), **HOW).to_label()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_true_and_false_stay_so(library):
    given = SOURCE.assign(churn=SOURCE["churn"] == "leave"), TARGET.assign(churn=None)
    given[1].loc["r0", "churn"] = bool(TRUTH[0] == "leave")
    convert = pl.from_pandas if library == "polars" else pd.DataFrame
    found = marda.adapt(*map(convert, given), **HOW)
    assert set(found.predictions["prediction"]) == {True, False}
    assert str(found.predictions["prediction"].dtype).lower().startswith("bool")
    assert found.model.classes_.tolist() == ["False", "True"]
    words = marda.adapt(SOURCE, TARGET.assign(churn=[TRUTH[0], *[None] * 79]), **HOW)
    assert list(found.predictions["prediction"]) == [
        word == "leave" for word in words.predictions["prediction"]
    ]


def test_numbers_as_labels_and_names():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)))
    frame[3] = np.arange(60) % 2
    frame[0] += 3 * frame[3]  # not so far that it looks like a leak
    found = marda.adapt(frame, frame[[0, 1, 2]] + 0.1, label=3, method="BL")
    assert found.predictions["prediction"].dtype.kind == "i"
    assert (found.predictions["prediction"] == frame[3]).mean() > 0.8


def test_several_sources_and_mixtures(tmp_path):
    TARGET.to_csv(tmp_path / "t.csv", index=False)
    SOURCE[60:].to_csv(tmp_path / "s.csv", index=False)
    parts = [SOURCE[:60], SOURCE[60:]]
    found = marda.adapt(parts, TARGET, **HOW)
    mixed = marda.adapt([parts[0], tmp_path / "s.csv"], tmp_path / "t.csv", **HOW)
    assert found.model.domains_.tolist() == [-3, 1, 2]
    assert list(mixed.predictions["prediction"]) == list(found.predictions["prediction"])
    how = {**HOW, "id": None, "drop": "customer", "method": "BL"}
    rows = marda.adapt(tmp_path / "s.csv", tmp_path / "t.csv", **how).to_label(2)
    assert list(rows.columns) == ["row", "prediction", "probability", "reason"]
    assert rows["row"].between(1, 80).all()


def test_without_pandas_and_polars_files_are_still_read(monkeypatch):
    def missing(name):
        raise ImportError(name)

    found = marda.adapt("sample:source", "sample:target", label="y", id="id", method="BL")
    monkeypatch.setattr(dataframes, "import_module", missing)
    assert "240 source rows" in repr(found)
    with pytest.raises(InputError, match="neither pandas nor polars is installed"):
        _ = found.predictions


REFUSED = {
    "label missing": (lambda: marda.adapt(SOURCE, TARGET, label="chrun"),
                      r"the source has no column 'chrun' \(did you mean 'churn'\?\)"),
    "label None": (lambda: marda.adapt(SOURCE, TARGET, label=None), "label=None: name the column"),
    "swapped": (lambda: marda.adapt(TARGET, SOURCE, label="churn"),
                "are source and target swapped"),
    "no frame": (lambda: marda.adapt(SOURCE.to_numpy(), TARGET, label="churn"),
                 "the source is of type numpy.ndarray"),
    "no rows": (lambda: marda.adapt(SOURCE, TARGET.head(0), label="churn"),
                "the target has no rows"),
    "no source": (lambda: marda.adapt([], TARGET, label="churn"), "source is an empty list"),
    "twice": (lambda: marda.adapt([SOURCE, SOURCE], TARGET, label="churn"), "is there twice"),
    "a column twice, in the source": (
        lambda: marda.adapt(pd.concat([SOURCE, SOURCE[["visits"]]], axis=1), TARGET, **HOW),
        r"the source: column 'visits' is there twice: leave it out with drop=\['visits'\]"),
    "objects in the source": (
        lambda: marda.adapt(SOURCE.assign(visits=[[1]] * 120), TARGET, **HOW),
        "the source: column 'visits' holds lists or objects"),
    "second": (lambda: marda.adapt([SOURCE, 3], TARGET, label="churn"), "source 2 is of type int"),
    "regression": (lambda: marda.adapt(SOURCE.assign(churn=SOURCE["income"].fillna(1)), TARGET,
                                       label="churn"), "holds fractions such as"),
    "amounts": (lambda: marda.adapt(SOURCE.assign(churn=np.arange(120)), TARGET, label="churn"),
                "as a quantity does"),
    "gaps in labels": (lambda: marda.adapt(SOURCE.assign(churn=[None, *["x", "y"] * 59, "x"]),
                                           TARGET, label="churn"),
                       "1 source row has no label in column 'churn'"),
    "one class": (lambda: marda.adapt(SOURCE.assign(churn="x"), TARGET, label="churn"),
                  "one class only"),
    "gaps": (lambda: marda.adapt(SOURCE, TARGET, label="churn", drop=["note", "customer"]),
             "'income'.* adapt with missing='impute'.*In one go: missing='impute'"),
    "column of the source only": (
        lambda: marda.adapt(SOURCE, TARGET.drop(columns="visits"), label="churn"),
        r"the target has no column 'visits', which the source has: add it, or leave it out with "
        r"drop=\['visits'\]"),
    "labels": (lambda: marda.adapt(SOURCE, TARGET, label=SOURCE["churn"]),
               "label is the name of a column, and a Series was given"),
    "list of labels": (lambda: marda.adapt(SOURCE, TARGET, label=["churn"]), "a list was given"),
    "index": (lambda: marda.adapt(SOURCE, TARGET, label="churn", id="row"),
              "id='row' is the index of the target"),
    "label in the index": (lambda: marda.adapt(SOURCE.set_index("churn"), TARGET, label="churn"),
                           "label='churn' is the index of the source: make it a column"),
    "id": (lambda: marda.adapt(SOURCE, TARGET, label="churn", id="costumer"),
           r"no column 'costumer' \(did you mean 'customer'\?\)"),
    "missing": (lambda: marda.adapt(SOURCE, TARGET, label="churn", missing="fill"),
                "missing='fill': choose from 'error', 'impute'"),
    "names": (lambda: marda.adapt(SOURCE, TARGET, label="churn", drop=3),
              "drop=3: give a name, or a list"),
    "method": (lambda: marda.adapt(SOURCE, TARGET, **{**HOW, "method": "S9"}), "method must be"),
    "noise and auto": (lambda: marda.adapt(SOURCE, TARGET, **{**HOW, "method": "auto"}, noise=0.5),
                       "method='auto' chooses noise by itself: leave noise out"),
    "an address": (lambda: marda.adapt("https://example.org/a.csv", TARGET, label="churn"),
                   "is an address, and marda reads files only"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_sentences_in_the_words_of_python(name):
    call, words = REFUSED[name]
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "--" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_unknown_keywords_and_files():
    with pytest.raises(TypeError, match=r"unexpected keyword 'nose' \(did you mean 'noise'\?\)"):
        marda.adapt(SOURCE, TARGET, label="churn", nose=0.5)
    with pytest.raises(TypeError, match="unexpected keyword 'unlabeled'"):
        marda.adapt(SOURCE, TARGET, label="churn", unlabeled=0)
    with pytest.raises(FileNotFoundError, match=r"no-such\.csv"):
        marda.adapt("no-such.csv", TARGET, label="churn")


def test_files_beyond_memory_are_sent_to_the_command_line(monkeypatch, tmp_path):
    SOURCE.to_csv(tmp_path / "s.csv", index=False)
    monkeypatch.setattr(frames, "memory_budget", lambda _: 100)
    with pytest.raises(InputError, match="run marda adapt at the command line"):
        marda.adapt(tmp_path / "s.csv", TARGET, **HOW)


# marda.check --------------------------------------------------------------------------------------


def test_check_of_frames():
    found = marda.check(SOURCE, TARGET.drop(columns="paid"), text="note")
    assert found.matters is None
    assert "name their column with label." in found.verdict
    assert found.only_source == ("paid", "churn")
    assert found.only_target == ()
    assert found.columns["column"][0] == "income"
    assert list(found.columns["differs"]) == sorted(found.columns["differs"], reverse=True)
    assert repr(found).startswith(found.verdict)
    assert "--" not in repr(found)
    assert found.to_json()["command"] == "check"
    html = found._repr_html_()
    assert "<script" not in html
    assert "income" in html
    assert isinstance(marda.check(*map(pl.from_pandas, (SOURCE, TARGET))).columns, pl.DataFrame)


def test_check_refuses_as_adapt_does():
    with pytest.raises(InputError, match=r"did you mean 'churn'"):
        marda.check(SOURCE, TARGET, label="chrun")
    with pytest.raises(InputError, match="have no column in common beside the label"):
        marda.check(SOURCE[["visits", "churn"]], TARGET[["income"]], label="churn")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_last_row_of_sums_has_no_prediction(library):
    rng = np.random.default_rng(0)
    source, target = (
        pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "c": np.arange(n) % 7})
        for n in (60, 40)
    )
    labels = np.array(["p", "q"])[(source["a"] > 0).astype(int)]
    whole = pd.concat([target, target.sum().to_frame().T], ignore_index=True)
    whole.insert(0, "key", [f"r{k}" for k in range(41)])
    source.insert(0, "key", [f"s{k}" for k in range(60)])
    given = [source.assign(y=labels), whole]
    if library == "polars":
        given = [pl.from_pandas(frame) for frame in given]
    else:
        given[1] = whole.set_index(whole["key"].rename("at"))
    found = marda.adapt(*given, label="y", id="key", method="BL")
    assert len(found.predictions) == len(found.predict(whole)) - 1 == 40
    assert list(found.predictions["key"]) == [f"r{k}" for k in range(40)]
    assert any("holds the sums of the others" in note for note in found.notes)
    assert len(found.to_label(3)) == 3
    checked = marda.check(*given, label="y", drop="key")
    assert any("holds the sums of the others" in note for note in checked.notes)


def test_columns_that_became_silent_are_named_and_not_used(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    rows = pd.DataFrame(
        rng.normal(size=(300, 4)) + 1.5 * y[:, None], columns=["age", "bmi", "dose", "pressure"]
    )
    rows["y"] = np.where(y, "ill", "well")
    target = rows[200:].drop(columns="y").assign(dose=0.0)
    result = marda.adapt(rows[:200], target, label="y")
    assert [note for note in result.notes if note.endswith("hardly any source row has: dose.")]
    assert "Not used, since it has one value in the target: dose." in repr(result)
    result.model.save(tmp_path / "m.marda")
    assert marda.load(tmp_path / "m.marda").silent_columns_ == [2]


def test_numbers_that_mean_no_value():
    some = np.arange(len(TARGET)) % 5 > 0
    gone = TARGET.assign(visits=TARGET["visits"].where(some, -999))
    lost = TARGET.assign(visits=TARGET["visits"].where(some))
    found, same = (
        marda.adapt(SOURCE, target, **HOW, na=na) for target, na in ((gone, -999), (lost, ()))
    )
    assert found.predictions.equals(same.predictions)


def test_an_index_that_holds_more_than_names_is_told():
    levels = marda.adapt(SOURCE.set_index(["visits", "plan"]), TARGET, **HOW)
    (note,) = [note for note in levels.notes if "index" in note]
    assert note.startswith("the index of the source ('visits', 'plan') is not read: .reset")
    assert not [n for n in marda.adapt(SOURCE, TARGET, **HOW).notes if "index" in n]
