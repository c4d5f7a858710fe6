"""What commands and pages claim, from the files to the words."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from marda import MDAClassifier, cli, pack
from marda.adaptation import ReadOptions, adapt, compare
from marda.diagnostics.diagnosis import diagnose

pytestmark = pytest.mark.usefixtures("few_draws")

NAMES = [f"f{k}" for k in range(4)]
CLASSES = np.array(["cat", "dog", "emu"])


def words_of(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


class Fake:
    """A classifier that moves the target, known by its number of rows, as it is told to."""

    classes_ = np.array([0, 1])

    def __init__(self, move, expected=None):
        self.move = move
        self.calibration_ = {}
        if expected is not None:
            self.calibration_ = {"sharpness": 1.0, "expected_accuracy": expected}

    def transform(self, X):
        return self.move(X) if X.shape[0] == 280 else X


def verdict_of(model, shift):
    rng = np.random.default_rng(0)
    Xs, Xt = rng.normal(size=(300, 4)), rng.normal(shift, 1, (280, 4))
    labels, predicted = np.arange(300) % 2, np.arange(280) % 2
    return diagnose(Xs, Xt, model, names=NAMES, labels=labels, predicted=predicted)


def test_a_distance_that_grew_is_not_called_closer():
    found = verdict_of(Fake(lambda X: 4 * (X - 0.5)), 0.5)
    assert found.mmd_after.low > found.mmd_before.high  # MMD grew
    assert found.a_distance_after.high < found.a_distance_before.low  # the other measure fell
    assert "closer" not in found.verdict
    assert "the distance rose" in found.verdict


def test_chance_level_is_no_evidence():
    found = verdict_of(Fake(lambda X: X - 1, expected=0.52), 1.0)
    assert "brought the domains closer" in found.verdict  # so they are
    assert "evidence that it helps, not proof" not in found.verdict
    assert "Not clearly better than guessing: about 52%" in found.verdict
    better = verdict_of(Fake(lambda X: X - 1, expected=0.9), 1.0)
    assert "evidence that it helps, not proof" in better.verdict


@pytest.mark.parametrize("method", ["auto", "S1M"])
def test_checks_that_are_off_are_not_called_made(method, tmp_path):
    from marda.report.adapted import adapted_page

    page = tmp_path / "r.html"
    options = ReadOptions("y", id="id")
    adapt("sample:source", "sample:target", options, method=method, report=(page, adapted_page))
    (text,) = re.findall(r"Checked: [^<]*", page.read_text(encoding="utf-8"))
    made, _, left = text.partition("Not checked: ")
    assert ("scales of features" in made) == (method == "S1M")
    assert ("scales of features" in left) == (method == "auto")


def test_compare_knows_that_auto_is_calibrated(tmp_path):
    from marda.report.compared import compared_page

    page = tmp_path / "r.html"
    files, options = ("sample:source", "sample:labelled"), ReadOptions("y", id="id")
    done = compare(*files, options, methods=("BL", "auto"), report=(page, compared_page))
    assert done.results[done.best].method == "auto"
    text = words_of(page.read_text(encoding="utf-8"))
    assert "not calibrated" not in text
    assert "calibrated on left-out source rows" in text


@pytest.mark.parametrize("shift", [0.5, 6.0])
def test_a_fully_labelled_target_is_not_told_to_be_labelled(shift, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    for name, by in (("s.npz", 0), ("t.npz", shift)):
        np.savez(name, X=rng.normal(y[:, None] + by, 1, (60, 4)), y=y)
    call = ["adapt", "--source", "s.npz", "--target", "t.npz", "--label", "y", "--method", "BL"]
    assert cli.main(call) == 0
    out = capsys.readouterr().out
    assert "SUP" in out
    assert "label some" not in out
    assert "ll 60 target rows have labels: run marda compare" in out


def test_the_terminal_says_what_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    call = ["adapt", "--source", "sample:source", "--target", "sample:labelled", "--label", "y"]
    assert cli.main([*call, "--id", "id", "--method", "S1M", "--report", "r.html"]) == 0
    word, _, text = capsys.readouterr().out.splitlines()[0].partition(". ")
    page = words_of((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert word in ("Adaptation helps", "Adaptation hurts", "No clear difference")
    assert f"{word} {text}" in page


def write_csv(path, X, y=None):
    columns = [*NAMES[: X.shape[1]], *([] if y is None else ["y"])]
    rows = [[*map(repr, x), *([] if y is None else [str(y[k])])] for k, x in enumerate(X.tolist())]
    path.write_text("\n".join(",".join(row) for row in [columns, *rows]) + "\n")


QUANTITIES = {
    "diabetes": lambda: load_diabetes().target.astype(int),
    "rounded": lambda: np.random.default_rng(0).normal(0, 150, 1000).round().astype(int),
}


@pytest.mark.parametrize("command", ["adapt", "compare"])
@pytest.mark.parametrize("name", QUANTITIES)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_quantity_is_refused(command, name, kind, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y = QUANTITIES[name]()
    X = np.random.default_rng(1).normal(size=(len(y), 4))
    call = [command, "--source", f"s.{kind}", "--target", f"t.{kind}", "--label", "y"]
    if kind == "csv":
        write_csv(tmp_path / "s.csv", X, y)
        write_csv(tmp_path / "t.csv", X[:50])
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        columns = {n: X[:, k] for k, n in enumerate(NAMES)}
        pq.write_table(pa.table({**columns, "y": y}), "s.parquet")
        pq.write_table(pa.table(columns).slice(0, 50), "t.parquet")
        if command == "adapt":
            call += ["--memory", "1kB", "--method", "S1D"]
    refused(call, "as a quantity does (a regression)")


def test_statistics_of_a_quantity_are_refused(tmp_path, monkeypatch, capsys):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    y = QUANTITIES["diabetes"]()
    pq.write_table(pa.table({"f0": np.arange(len(y)) % 7.0, "y": y}), "s.parquet")
    pq.write_table(pa.table({"f0": np.arange(50) % 5.0}), "t.parquet")
    build = ["moments", "build", "s.parquet", "--domain", "s", "--label", "y", "-o", "s.moments"]
    assert cli.main(build) == 0
    build = [
        "moments",
        "build",
        "t.parquet",
        "--domain",
        "t",
        "--role",
        "target",
        "-o",
        "t.moments",
    ]
    assert cli.main(build) == 0
    assert cli.main(["adapt", "--moments", "s.moments", "t.moments"]) == 2
    assert "as a quantity does (a regression)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "y",
    [
        np.repeat(np.arange(40), 5),  # many classes, none of them rare
        np.r_[np.zeros(150, int), np.arange(1, 19)],  # rare classes, but few
        np.array([f"name {k}" for k in range(100)] * 2),  # words are classes
        np.r_[np.repeat(np.arange(30), 50), np.arange(100, 125)],  # a long tail
    ],
    ids=["faces", "few", "words", "tail"],
)
def test_classes_are_no_quantity(y, tmp_path):
    from marda.io import read_labels, read_table

    write_csv(tmp_path / "s.csv", np.ones((len(y), 2)), y)
    write_csv(tmp_path / "t.csv", np.ones((5, 2)))
    ys, _ = read_labels(read_table(tmp_path / "s.csv"), read_table(tmp_path / "t.csv"), "y")
    assert len(set(ys.tolist())) == len(set(y.tolist()))


@pytest.fixture
def three(tmp_path, monkeypatch):
    """Two sources and a target, as arrays, and as CSV and Parquet files in this folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    arrays = {}
    for name, n, shift in (("a", 90, 0.0), ("b", 60, 1.0), ("t", 75, 2.0)):
        y = np.arange(n) % 3
        X = rng.normal(shift, 0.7, (n, 4))
        X[:, :3] += 2 * np.eye(3)[y]
        arrays[name] = X, CLASSES[y]
        write_csv(tmp_path / f"{name}.csv", X, None if name == "t" else CLASSES[y])
    write_csv(tmp_path / "tl.csv", *arrays["t"])
    return arrays


BOTH = ["--source", "a.csv", "--source", "b.csv", "--label", "y"]


@pytest.mark.parametrize("method", ["S1D", "S1M", "J12D"])
def test_every_source_is_learned_from(three, method, capsys):
    assert cli.main(["adapt", *BOTH, "--target", "t.csv", "--method", method, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"]["source"] == 150
    done = adapt(["a.csv", "b.csv"], "t.csv", ReadOptions("y"), method=method)
    (Xa, ya), (Xb, yb), (Xt, _) = three["a"], three["b"], three["t"]
    X, y, domain = pack([Xa, Xb], [ya.astype(object), yb.astype(object)], Xt)
    wanted = MDAClassifier(method, unlabeled=None).fit(X, y, sample_domain=domain)
    np.testing.assert_array_equal(done.model.domains_, [-3, 1, 2])
    np.testing.assert_allclose(done.model.coef_, wanted.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(done.predictions, wanted.predict(Xt))


@pytest.mark.parametrize("method", ["S1D", "auto"])
def test_both_sources_are_on_the_page(three, method, tmp_path, capsys):
    call = ["adapt", *BOTH, "--target", "t.csv", "--method", method, "--report", "r.html"]
    assert cli.main(call) == 0
    assert "rows       150 source, 75 target" in capsys.readouterr().out
    assert "a.csv, b.csv" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_compare_takes_every_source(three, capsys):
    methods = ["--methods", "BL", "--methods", "S1M"]  # more of them, not others
    assert cli.main(["compare", *BOTH, "--target", "tl.csv", *methods, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == {"source": 150, "target": 75, "labelled_target": 75}
    assert [r["method"] for r in told["results"]] == ["BL", "S1M"]


@pytest.mark.parametrize("method", ["S1D", "S1M"])
def test_batches_take_every_source(three, method, capsys):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    import marda

    for name, (X, y) in three.items():
        columns = {n: X[:, k] for k, n in enumerate(NAMES)}
        labels = {} if name == "t" else {"y": y}
        pq.write_table(pa.table({**columns, **labels}), f"{name}.parquet", row_group_size=40)
    files = ["--source", "a.parquet", "--source", "b.parquet", "--target", "t.parquet"]
    call = ["adapt", *files, "--label", "y", "--method", method]
    assert cli.main([*call, "--model", "held"]) == 0
    capsys.readouterr()
    assert cli.main([*call, "--model", "m", "--memory", "1kB"]) == 0
    out = capsys.readouterr().out
    assert "source     a.parquet: 90 rows" in out
    assert "source     b.parquet: 60 rows" in out
    ours, theirs = marda.load("m"), marda.load("held")
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-10)


def test_columns_of_sources_go_by_name(three, tmp_path, capsys):
    lines = [line.split(",") for line in (tmp_path / "b.csv").read_text().splitlines()]
    turned = [",".join([*line[::-1], str(k)]) for k, line in enumerate(lines)]
    turned[0] = ",".join([*lines[0][::-1], "more"])
    (tmp_path / "b2.csv").write_text("\n".join(turned) + "\n")
    one = adapt(["a.csv", "b.csv"], "t.csv", ReadOptions("y"), method="S1D")
    two = adapt(["a.csv", "b2.csv"], "t.csv", ReadOptions("y"), method="S1D")
    np.testing.assert_allclose(two.model.coef_, one.model.coef_, rtol=1e-12)
    assert any("b2.csv that a.csv has not are ignored: 'more'" in note for note in two.notes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.replace("f2", "g2"), "b.csv has no column 'f2', which a.csv has"),
        (lambda t: t.replace(",y", ",z"), "b.csv has no column 'y'"),
        (lambda t: t.replace(",dog\n", ",\n", 1), "b.csv: 1 source row has no label in column 'y'"),
        (lambda t: "", "b.csv is empty"),
    ],
)
def test_what_is_wrong_with_a_second_source_is_told(three, change, words, refused, tmp_path):
    text = (tmp_path / "b.csv").read_text()
    (tmp_path / "b.csv").write_text(change(text))
    refused(["adapt", *BOTH, "--target", "t.csv"], words)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["adapt", *BOTH, "--target", "t.csv", "--target", "tl.csv"], "--target takes one file"),
        (["compare", *BOTH, "--target", "t.csv", "--target", "tl.csv"], "--target takes one file"),
        (["adapt", *BOTH, "--source", "a.csv", "--target", "t.csv"], "a.csv is named twice"),
        (["adapt", *BOTH, "--target", "t.csv", "--out", "b.csv"], "would replace an input file"),
        (["predict", "--model", "m", "--input", "a", "--input", "b", "--out", "p.csv"], "one file"),
    ],
)
def test_no_file_is_dropped(three, call, words, refused):
    refused(call, words)
