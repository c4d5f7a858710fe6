"""Text and times are recognised alike in files and DataFrames, kept in models, and named."""

from __future__ import annotations

import numpy as np
import pytest

import marda
from marda import cli
from marda.adaptation.reading import ReadOptions, read_data
from marda.adaptation.stream import feature_columns
from marda.io import InputError
from marda.io.columns import Date, Number, Words

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

GOOD = ["friendly", "quick", "careful", "kind", "tidy", "gentle"]
BAD = ["rude", "late", "broken", "dirty", "noisy", "careless"]


def opinions(n, seed, labelled=True):
    """Three words that mostly fit the label, among others that do not matter."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    said = []
    for good in y:
        fits = rng.random(3) < 0.85
        words = [str(rng.choice(GOOD if good == fit else BAD)) for fit in fits]
        said.append(f"they were {words[0]} and {words[1]}, visit {rng.integers(999)}: {words[2]}")
    start = np.datetime64("2024-01-01T08:00:00", "s")
    frame = pd.DataFrame(
        {
            "visits": rng.poisson(3 + y),
            "said": said,
            "at": start + rng.permutation(n * 50)[:n] * np.timedelta64(61, "s"),
        }
    )
    return frame.assign(y=np.array(["no", "yes"])[y]) if labelled else frame


SOURCE, TARGET = opinions(120, 1), opinions(90, 2, labelled=False)
NOTES = [
    "read as text, word by word: 'said' (drop=['said'] leaves it out).",
    "read as dates, though nearly every row has its own: 'at' (drop=['at'] leaves it out).",
]


def kinds(preprocessing):
    return {step.columns[0]: type(step) for step in preprocessing.steps}


@pytest.fixture(scope="module")
def result():
    return marda.adapt(SOURCE, TARGET, label="y", method="S1")


def written(folder, ending):
    paths = []
    for name, frame in (("s", SOURCE), ("t", TARGET)):
        paths.append(folder / f"{name}.{ending}")
        if ending == "parquet":
            frame.to_parquet(paths[-1])
        elif ending == "jsonl":
            frame.to_json(paths[-1], orient="records", lines=True, date_format="iso")
        else:
            frame.to_csv(paths[-1], index=False)
    return paths


def test_data_frames(result):
    assert [note for note in result.notes if note in NOTES] == NOTES
    right = result.predictions["prediction"] == np.where(np.arange(90) % 2, "yes", "no")
    assert right.mean() > 0.85


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_files(result, tmp_path, ending):
    found = read_data(*written(tmp_path, ending), ReadOptions("y"))
    assert kinds(found.preprocessing) == {"visits": Number, "said": Words, "at": Date}
    assert [note for note in found.notes if note.startswith("read as")] == [
        note.replace("drop=['said']", "--drop 'said'").replace("drop=['at']", "--drop 'at'")
        for note in NOTES
    ]
    inner = result.model.preprocessing_
    assert found.preprocessing.to_json()["steps"][1] == inner["steps"][1]


def test_models_keep_it_and_meet_unseen_words(result, tmp_path, capsys):
    result.model.save(tmp_path / "m.marda")
    new = pd.concat([TARGET.head(3), TARGET.head(1).assign(said="zzz qqq")])
    new.to_csv(tmp_path / "n.csv", index=False)
    call = ["predict", "--model", "m.marda", "--input", "n.csv", "--out", "p.csv", "--quiet"]
    call[2], call[4], call[6] = (str(tmp_path / name) for name in (call[2], call[4], call[6]))
    assert cli.main(call) == 0
    served = pd.read_csv(tmp_path / "p.csv")
    before = result.predictions["probability_yes"].head(3)
    np.testing.assert_allclose(served["probability_yes"].head(3), before, atol=1e-9)
    assert np.isfinite(served["probability_yes"]).all()
    new.drop(columns="said").to_csv(tmp_path / "n.csv", index=False)
    assert cli.main([*call, "--force"]) == 2
    assert "has no column 'said', which the model needs" in capsys.readouterr().err


def test_options_decide(tmp_path):
    source, target = written(tmp_path, "csv")
    dropped = read_data(source, target, ReadOptions("y", drop=("said", "at")))
    assert kinds(dropped.preprocessing) == {"visits": Number}
    assert not [note for note in dropped.notes if note.startswith("read as")]
    asked = read_data(source, target, ReadOptions("y", text=("said",)))  # needs no note
    assert [note for note in asked.notes if "as text" in note] == []


def test_gaps_are_asked_about(tmp_path):
    source, target = written(tmp_path, "csv")
    TARGET.assign(said=TARGET["said"].where(np.arange(90) % 9 > 0)).to_csv(target, index=False)
    with pytest.raises(InputError, match=r"missing values in 'said' \(10 rows\).*--missing impute"):
        read_data(source, target, ReadOptions("y"))
    found = read_data(source, target, ReadOptions("y", missing="impute"))
    assert not found.Xt[:9:9, 1:-1].toarray().any()  # no text, no words


def test_words_that_give_the_label_away_are_left_out(tmp_path):
    told = SOURCE["said"] + SOURCE["y"].map({"no": " closed", "yes": " renewed"})
    found = marda.adapt(SOURCE.assign(said=told), TARGET, label="y", method="BL")
    (note,) = [note for note in found.notes if "left out" in note]
    assert note.startswith("left out: 'said', which has words that alone predict the label")
    kept = marda.adapt(SOURCE.assign(said=told), TARGET, label="y", method="BL", keep="said")
    assert NOTES[0] in kept.notes


def test_batches_say_what_they_cannot_do(tmp_path):
    source, target = written(tmp_path, "parquet")
    with pytest.raises(InputError, match=r"column 'said' holds .*string.*--drop 'said'.*--memory"):
        feature_columns([source], target, ReadOptions("y"))
