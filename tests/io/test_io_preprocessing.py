"""Columns become features, the same at adapt and at predict, and survive JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

from marda.io import InputError, Preprocessing, Table, fit_preprocessing, read_labels
from marda.io.columns import Category, Number, Words
from marda.io.preprocessing import Unseen


def table(path="t.csv", **columns):
    arrays = {
        k: np.array(v, dtype=object if any(isinstance(x, str) for x in v) else float)
        for k, v in columns.items()
    }
    return Table(path, len(next(iter(arrays.values()))), arrays)


SOURCE = table("s.csv", y=["p", "q", "p"], a=[1, 2, 3], c=["u", "v", "u"], t=["x y", "y", "z z"])
TARGET = table("t.csv", a=[4, 5, 6], c=["w", "u", "u"], t=["y", "new word", "x"], extra=[1, 2, 3])


def again(chosen):
    return Preprocessing.from_json(json.loads(json.dumps(chosen.to_json())))


def test_numbers_categories_and_text():
    chosen = again(fit_preprocessing(SOURCE, TARGET, label="y", text=["t"]))
    assert chosen.features[:4] == ["a", "c=u", "c=v", "c=w"]
    assert "t:word" in chosen.features
    X = chosen.transform(SOURCE)
    assert sp.issparse(X)
    assert X.shape == (3, len(chosen.features))
    np.testing.assert_array_equal(X.toarray()[:, :4], [[1, 1, 0, 0], [2, 0, 1, 0], [3, 1, 0, 0]])
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [*SOURCE["t"], *TARGET["t"]]
    np.testing.assert_allclose(
        X.toarray()[:, 4:], TfidfVectorizer().fit(texts).transform(SOURCE["t"]).toarray()
    )


def test_order_of_columns_is_free_and_new_categories_are_zeros():
    chosen = fit_preprocessing(SOURCE, TARGET, label="y", drop=["t"])
    turned = table(c=["u", "never"], a=[1, 2])
    np.testing.assert_array_equal(chosen.transform(turned), [[1, 1, 0, 0], [2, 0, 0, 0]])


def test_a_lost_column_is_one_sentence():
    chosen = fit_preprocessing(SOURCE, TARGET, label="y", drop=["t"])
    with pytest.raises(InputError, match=r"^new has no columns 'a', 'c', which the model needs\.$"):
        chosen.transform(table("new", b=[1]))
    with pytest.raises(InputError, match=r"t\.csv has no column 'a', which s\.csv has.*--drop 'a'"):
        fit_preprocessing(SOURCE, table(c=["u"], t=["z"]), label="y")
    with pytest.raises(InputError, match="no column 'nothing'"):
        fit_preprocessing(SOURCE, TARGET, label="y", drop=["nothing"])


@pytest.mark.parametrize("missing", ["error", "impute"])
def test_missing_values(missing):
    source = table("s.csv", y=[0, 1, 0], a=[1.0, np.nan, 3.0], c=["u", None, "u"])
    target = table("t.csv", a=[5.0, 5.0], c=["v", "u"])
    chosen = again(fit_preprocessing(source, target, label="y", missing=missing))
    if missing == "impute":
        np.testing.assert_array_equal(chosen.transform(source)[1], [3.5, 1, 0])
        return
    with pytest.raises(InputError, match=r"missing values in 'a' \(1 row\), 'c' \(1 row\): fill"):
        chosen.transform(source)


def test_missing_words_count_in_numbers_only():
    source = Table("s", 3, {"a": np.array(["1", "NA", "3"], dtype=object)})
    target = Table("t", 2, {"a": np.array(["1", "2"], dtype=object)})
    chosen = fit_preprocessing(source, target, label="y", missing="impute")
    assert chosen.features == ["a"]
    words = Table("s", 3, {"a": np.array(["x", "NA", "y"], dtype=object)})
    assert fit_preprocessing(words, target, label="y").features[2:] == ["a=NA", "a=x", "a=y"]


def test_standard_scale_is_of_both_domains():
    chosen = again(fit_preprocessing(SOURCE, TARGET, label="y", drop=["t", "c"], scale="standard"))
    X = np.vstack([chosen.transform(SOURCE), chosen.transform(TARGET)])
    np.testing.assert_allclose([X.mean(), X.std()], [0, 1], atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("scale", ["none", "standard"])
def test_matrices(sparse, scale):
    rng = np.random.default_rng(0)
    blocks = rng.normal(3, [1, 10, 100], (20, 3)), rng.normal(3, [1, 10, 100], (10, 3))
    wrap = sp.csr_array if sparse else np.array
    source, target = (Table("m", len(b), {"y": np.zeros(len(b))}, wrap(b)) for b in blocks)
    chosen = again(fit_preprocessing(source, target, label="y", scale=scale))
    parts = [chosen.transform(t) for t in (source, target)]
    X = np.vstack([p.toarray() if sparse else p for p in parts])
    if scale == "none":
        np.testing.assert_array_equal(X, np.vstack(blocks))
    elif sparse:
        np.testing.assert_allclose((X**2).mean(0), 1)
    else:
        np.testing.assert_allclose([X.mean(0), X.std(0)], [[0] * 3, [1] * 3], atol=1e-12)
    assert chosen.features == ["x0", "x1", "x2"]


def test_sparse_files_of_different_width():
    source = Table("s", 2, {"label": np.array([0.0, 1])}, sp.csr_array(np.eye(2)))
    target = Table("t", 2, {"label": np.array([0.0, 1])}, sp.csr_array(np.ones((2, 4))))
    chosen = fit_preprocessing(source, target, label="label")
    assert chosen.transform(source).shape == (2, 4)
    new = Table("n", 1, {}, sp.csr_array(np.ones((1, 9))))
    assert chosen.transform(new).shape == (1, 4)


def test_matrix_errors():
    source = Table("s", 2, {"y": np.array([0.0, 1])}, np.eye(2))
    plain = table(a=[1, 2])
    with pytest.raises(InputError, match="holds columns, but the other file a matrix"):
        fit_preprocessing(source, plain, label="y")
    chosen = fit_preprocessing(source, source, label="y")
    with pytest.raises(InputError, match="has 3 features, but the model wants 2"):
        chosen.transform(Table("n", 1, {}, np.ones((1, 3))))
    with pytest.raises(InputError, match="wants a matrix of 2 features"):
        chosen.transform(plain)
    with pytest.raises(InputError, match=r"missing values in 'X' \(1 row\)"):
        chosen.transform(Table("n", 1, {}, np.array([[np.nan, 1]])))


def test_names_of_matrix_features_decide():
    source = Table("s", 2, {"y": np.array([0.0, 1])}, np.array([[1.0, 2], [3, 4]]), ("a", "b"))
    turned = Table("t", 2, {}, np.array([[2.0, 1], [4, 3]]), ("b", "a"))
    chosen = again(fit_preprocessing(source, turned, label="y"))
    np.testing.assert_array_equal(chosen.transform(turned), source.block)
    with pytest.raises(InputError, match="no feature 'b'"):
        chosen.transform(Table("n", 1, {}, np.ones((1, 2)), ("a", "c")))


def test_unusable_columns():
    many = table(y=[0, 1] * 60, name=[f"name {k}" for k in range(120)])
    more = table(y=[0, 1] * 60, name=[f"other {k}" for k in range(120)])
    with pytest.raises(InputError, match=r"240 rows.*--text 'name', --id 'name' or --drop 'name'"):
        fit_preprocessing(many, more, label="y")
    empty = table(y=[0, 1], a=[np.nan, np.nan])
    with pytest.raises(InputError, match="'a' has no values"):
        fit_preprocessing(empty, empty, label="y")
    infinite = table(y=[0, 1], a=[np.inf, 1])
    with pytest.raises(InputError, match="'a' holds infinity"):
        fit_preprocessing(infinite, infinite, label="y")
    with pytest.raises(InputError, match="no column of features"):
        fit_preprocessing(table(y=[0, 1]), table(y=[0, 1]), label="y")
    chosen = fit_preprocessing(SOURCE, TARGET, label="y", drop=["t", "c"])
    with pytest.raises(InputError, match="'a' must hold numbers, got 'x'"):
        chosen.transform(table(a=["1", "x"]))


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"version": 2, "label": "y", "id": None, "steps": []},
        {"version": 1, "label": "y", "id": None, "steps": [{"kind": "os.system", "name": "x"}]},
        {"version": 1, "label": "y", "id": None, "steps": [{"kind": "number", "nome": "x"}]},
        {"version": 1, "label": "y", "id": None, "steps": [{"kind": "number", "name": 3}]},
        {"version": 1, "label": "y", "id": None, "steps": 3},
        *(
            {"version": 1, "label": "y", "id": None, "steps": [step]}
            for step in (
                {"kind": "number", "name": "x", "scale": 0},
                {"kind": "number", "name": "x", "center": "1"},
                {"kind": "category", "name": "x", "categories": [1]},
                {"kind": "category", "name": "x", "categories": ["a", "a"]},
                {"kind": "text", "name": "x", "words": ["a"], "idf": []},
                {"kind": "matrix", "width": -1},
                {"kind": "matrix", "width": 2, "scale": [1.0]},
                {"kind": "matrix", "width": 2.0},
            )
        ),
    ],
)
def test_foreign_json(state):
    with pytest.raises(InputError, match="not readable"):
        Preprocessing.from_json(state)


def test_labels():
    ys, yt = read_labels(SOURCE, TARGET, "y")
    assert ys.tolist() == ["p", "q", "p"]
    assert yt.tolist() == [None] * 3 or np.isnan(yt.astype(float)).all()
    source = table(y=["1", "2", "1"])
    ys, yt = read_labels(source, table(y=[np.nan, 2.0]), "y")
    assert ys.dtype == np.int64
    np.testing.assert_array_equal(yt, [np.nan, 2])
    block = np.ones((2, 1))
    signs = Table("s", 2, {"label": np.array([-1.0, 1])}, block)
    zeros = Table("t", 2, {"label": np.array([0.0, 1])}, block)
    np.testing.assert_array_equal(read_labels(signs, zeros, "label")[1], [np.nan, 1])


@pytest.mark.parametrize(
    "values",
    [
        ["01", "02", "1"],
        ["12345678901234567890", "12345678901234567891", "1"],
        np.array([2**53, 2**53 + 1, 1]),
    ],
    ids=["zeros", "digits", "whole"],
)
def test_labels_that_no_number_tells_apart_stay_as_they_are(values):
    labels = np.asarray(values, dtype=getattr(values, "dtype", object))
    source, target = Table("s", 3, {"y": labels}), Table("t", 1, {"y": labels[:1]})
    ys, yt = read_labels(source, target, "y")
    assert ys.tolist() == [str(v) for v in values]
    assert yt.tolist() == ys.tolist()[:1]
    with pytest.raises(InputError, match="label '2' in column 'y' is no class of the source"):
        read_labels(source, table(y=["2"]), "y")


@pytest.mark.parametrize(
    ("ys", "yt", "words"),
    [
        ([0.0, np.nan, 1.0], [0.0], r"1 source row has no label .*row 2"),
        ([np.nan, np.nan], [0.0], r"no source row has a label .*are source and target swapped"),
        ([0.0, 0.0], [0.0], "one class only"),
        ([0.5, 1.0], [1.0], "fractions such as 0.5"),
        ([0.0, 1.0], [7.0], "label 7 in column 'y' is no class of the source"),
        (["p", "q"], ["r"], "label 'r'"),
        (
            ["p", "q"],
            ["s", "r", "p"],
            r"labels 'r', 's' in .* no classes .* \('p', 'q'\): correct",
        ),
        (np.repeat(np.arange(30.0), 4), [31.0], r"of 30 different values: is it the right column"),
    ],
)
def test_wrong_labels(ys, yt, words):
    with pytest.raises(InputError, match=words):
        read_labels(table(y=ys), table(y=yt), "y")


@pytest.mark.parametrize("form", ["{:.2f} €", "{:.1f}%", "$ {:,.2f}", "2024-01-{:02.0f}"])
def test_labels_that_are_amounts_are_refused(form):
    values = [form.format(k) for k in range(1, 29)]
    if form.startswith("2024"):  # days are words: rare ones, but words
        assert len(read_labels(table(y=values), table(y=[None, None]), "y")[0]) == 28
        return
    with pytest.raises(InputError, match=r"28 different numbers in 28 rows.*\(a regression\)"):
        read_labels(table(y=values), table(y=[None, None]), "y")


def test_dates_are_days_at_mean_0():
    days = np.array(["2024-01-01", "2024-01-03", "NaT"], dtype="datetime64[us]")
    source = Table("s", 3, {"d": days})
    target = Table("t", 1, {"d": np.array(["2024-01-02T12:00"], dtype="datetime64[us]")})
    chosen = again(fit_preprocessing(source, target, label="y", missing="impute"))
    X = np.vstack([chosen.transform(t) for t in (source, target)]).ravel()
    np.testing.assert_allclose(
        [X[[0, 1, 3]].mean(), X[[0, 1, 3]].std(), X[2]], [0, 1, 0], atol=1e-9
    )
    strict = fit_preprocessing(source, target, label="y")
    assert strict.gaps(source) == ["'d' (1 row)"]
    with pytest.raises(InputError, match=r"missing values in 'd' \(1 row\)"):
        strict.transform(source)
    with pytest.raises(InputError, match="column 'd' must hold dates, got 'x'"):
        chosen.transform(table(d=["x"]))


def test_all_that_is_wrong_is_said_at_once():
    source = table("s", y=["p", "q"], a=[1, 2], b=[np.inf, 1], c=["x", "y"])
    with pytest.raises(InputError) as caught:
        fit_preprocessing(source, table("t", b=[1, 2], c_=[1, 2]), label="y", drop=["z"])
    assert "4 things to settle" in str(caught.value)
    assert "(did you mean 'c_'?)" in str(caught.value)
    assert caught.value.options == ("--drop", "a,b,c")
    assert str(caught.value).endswith("In one go: --drop a,b,c")


def test_scripts_without_spaces_are_read_by_characters():
    source = table("s", y=["p", "q"], t=["果皮坚硬", "柔软多汁"])
    chosen = again(fit_preprocessing(source, source, label="y", text=["t"]))
    assert "t:坚硬" in chosen.features
    assert chosen.steps[0].characters
    assert chosen.transform(table(t=["坚硬"])).nnz == 3


def test_models_of_before_have_categories_with_spaces():
    state = {"kind": "category", "name": "c", "categories": [" u", "v"], "fill": None}
    old = Preprocessing.from_json({"version": 1, "label": "y", "id": None, "steps": [state]})
    np.testing.assert_array_equal(old.transform(table(c=["u", "v"])), np.eye(2))


def test_the_mean_row_of_a_model_file():
    chosen = Preprocessing((Number("a"), Number("b")), "y", means=(1.5, -2.0))
    again = Preprocessing.from_json(json.loads(json.dumps(chosen.to_json())))
    assert again == chosen
    plain = Preprocessing(chosen.steps, "y").to_json()
    assert "means" not in plain
    assert Preprocessing.from_json(plain).means == ()  # as in files of before it was kept
    for wrong in ([1.0], [1.0, "2"], [1.0, float("nan")], 3):
        with pytest.raises(InputError, match="preprocessing is not readable"):
            Preprocessing.from_json(plain | {"means": wrong})


def test_shares_of_missing_values_in_a_model_file():
    chosen = Preprocessing((Number("a", 1.0), Number("b", 2.0)), "y", missing=(("a", 0.25),))
    assert Preprocessing.from_json(json.loads(json.dumps(chosen.to_json()))) == chosen
    plain = Preprocessing(chosen.steps, "y").to_json()
    assert "missing" not in plain
    for wrong in ([0.5], {"a": 2}, {"a": "1"}, {"a": float("nan")}):
        with pytest.raises(InputError, match="preprocessing is not readable"):
            Preprocessing.from_json(plain | {"missing": wrong})


def test_parts_are_columns_and_words():
    words = Words("text", ("bad", "good"), (1.0, 1.0))
    steps = (Number("a"), Category("colour", ("blue", "red")), words)
    parts = Preprocessing(steps, "y").parts
    places = [(name, list(range(5))[where]) for name, where in parts]
    assert places == [("a", [0]), ("colour", [1, 2]), ("text:bad", [3]), ("text:good", [4])]


def test_categories_in_another_spelling_are_told():
    chosen = fit_preprocessing(*(table(c=["grün", "red", "A"]) for _ in range(2)), label="y")
    unseen = Unseen()
    X = chosen.transform(table(c=["GRU\u0308N", "Red", "a"]), unseen)
    assert X.sum(axis=1).tolist() == [1, 1, 0]  # one letter may mean something else
    spelled, strange = unseen.notes(chosen)
    assert "'Red' is read as 'red'" in spelled
    assert "1 of 3 rows hold categories that adapt did not see ('a')" in strange
