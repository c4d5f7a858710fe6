"""Columns that no model should see are found; shifted features are not among them."""

from __future__ import annotations

import numpy as np
import pytest

from marda.io import Table
from marda.io.screening import free_texts, notes_of, screen, unique_dates, used_notes

RNG = np.random.default_rng(0)
N, M = 100, 80
Y = np.arange(N) % 2
GOOD = RNG.normal(Y, 1), RNG.normal(0.5, 1, M) + 5  # shifted


def found(source, target, name="x", keep=(), **tables):
    columns = [
        {
            "good": GOOD[k],
            name: np.array(values, dtype=object if isinstance(values[0], str) else None),
        }
        for k, values in enumerate((source, target))
    ]
    s, t = (
        Table(path, len(held["good"]), held, **tables)
        for path, held in zip(("s", "t"), columns, strict=True)
    )
    return {left.name: left.why for left in screen(s, t, Y, ["good", name], keep)}


@pytest.mark.parametrize(
    ("name", "source", "target", "why"),
    [
        ("x", range(N), range(M), "id or a row number"),
        ("x", range(1000, 1000 + N), range(7, 7 + M), "id or a row number"),
        ("x", [10**7 + 7919 * k for k in range(N)][::-1], [10**7 + 31 * k for k in range(M)], "id"),
        ("id", [k * k % 7919 for k in range(N)], [k * 37 % 7919 for k in range(M)], "id"),
        ("customerId", [k * 37 % 7919 for k in range(N)], [k * 53 % 7919 for k in range(M)], "id"),
        ("x", [f"u{k}" for k in range(N)], [f"v{k}" for k in range(M)], "id"),
        ("x", [f"{k}A" for k in range(N)], [f"{k}B" for k in range(M)], "id"),
        ("x", [3.0] * N, [3.0] * M, "the same in all rows"),
        ("x", [np.nan] * N, [np.nan] * M, "has no values"),
        ("x", [1.0, 2.0] * (N // 2), [np.nan] * M, "has no values in t"),
        ("x", [3.0] * N, [4.0] * M, "tells the files apart"),
        ("x", ["a", "b"] * (N // 2), ["c"] * M, "tells the files apart"),
        ("x", ["p", "q"] * (N // 2), ["p", "q"] * (M // 2), "the label in other words"),
        ("x", (5.0 * Y + RNG.random(N)).tolist(), (6 * RNG.random(M)).tolist(), "alone predicts"),
    ],
)
def test_left_out(name, source, target, why):
    left = found([*source], [*target], name)
    assert why in left.pop(name)
    assert not left
    assert not found([*source], [*target], name, keep=[name])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (RNG.integers(0, 10**6, N).tolist(), RNG.integers(0, 10**6, M).tolist()),  # amounts
        (RNG.integers(1, 6, N).tolist(), RNG.integers(6, 11, M).tolist()),  # shifted by five
        (RNG.normal(0, 1, N).tolist(), RNG.normal(90, 1, M).tolist()),
        (["a", "b", "a", "a"] * (N // 4), ["b", "c"] * (M // 2)),
        (
            [f"{k} of many words here" for k in range(N)],
            [f"other {k} words are here" for k in range(M)],
        ),
        ((3 * Y + RNG.normal(0, 1, N)).tolist(), RNG.normal(0, 1, M).tolist()),  # predicts well
        ([f"{k}.5 kg" for k in range(N)], [f"{k} g" for k in range(M)]),  # refused by what it is
    ],
)
def test_features_stay(source, target):
    assert not found(source, target)


def test_nameless_columns_go():
    left = found([1.5, 2.5] * (N // 2), [1.5, 2.5] * (M // 2), nameless=frozenset({"x"}))
    assert left["x"] == "has no name"


def test_few_rows_tell_nothing():
    held = {"a": np.arange(10.0), "b": np.arange(10.0) ** 2}
    tables = [Table(path, 10, held) for path in "st"]
    assert not screen(*tables, np.arange(10) % 2, ["a", "b"], ())


def test_an_easy_problem_has_no_leaks():
    columns = [RNG.normal(20 * Y, 1) for _ in range(6)]
    s = Table("s", N, {f"c{k}": values for k, values in enumerate(columns)})
    t = Table("t", M, {f"c{k}": RNG.normal(0, 10, M) for k in range(6)})
    assert not screen(s, t, Y, [*s.columns], ())


def test_notes_name_the_option():
    s = Table("s", N, {"a, b": np.ones(N), "c": np.ones(N), "d": RNG.normal(0, 1, N)})
    t = Table("t", M, {"a, b": np.ones(M), "c": np.ones(M), "d": RNG.normal(0, 1, M)})
    (note,) = notes_of(screen(s, t, Y, [*s.columns], ()))
    assert note.startswith("left out: 'a, b', 'c', each of which is the same in all rows")
    assert note.endswith("""(--keep '"a, b",c').""")


# Text and dates ----------------------------------------------------------------------------------

OPINIONS = [
    f"the {a} one was {b} and {c}" for a in "abc" for b in ("fine", "poor") for c in "xyzuvw"
]


def tables(source, target, name="x"):
    return [
        Table(path, len(values), {name: np.array(values, dtype=object)})
        for path, values in (("s", source), ("t", target))
    ]


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        (OPINIONS, OPINIONS[:20], True),
        ([*OPINIONS, None, None], [None, *OPINIONS[5:]], True),
        (OPINIONS[:12], OPINIONS[12:22], True),
        (OPINIONS, ["nothing to say about this one"] * 20, True),
        (["nothing to say about this one"] * 90, OPINIONS, True),
        (OPINIONS, [str(k) for k in range(60)], False),  # numbers in the other file
        (OPINIONS, OPINIONS[:1], True),
        (OPINIONS[:24] * 9, OPINIONS[:1], False),
        (OPINIONS[:10], OPINIONS[10:18], False),  # too few to tell
        (OPINIONS[:5] * 20, OPINIONS[:5] * 20, False),  # categories, though of many words
        ([f"ab-{k}" for k in range(50)], [f"cd-{k}" for k in range(50)], False),
        ([f"Anna Nr{k}" for k in range(50)], [f"Otto Nr{k}" for k in range(50)], False),
        (
            [f"{k} octobre 2024 12" for k in range(50)],
            [f"{k} mai 2024 12" for k in range(50)],
            False,
        ),
        (["又甜又圆很脆" + chr(0x4E00 + k) for k in range(40)], ["果皮坚硬发红"] * 20, True),
        (
            ["张三" + chr(0x4E00 + k) for k in range(40)],
            ["李四" + chr(0x4F00 + k) for k in range(40)],
            False,
        ),
        ([None] * 30, OPINIONS, True),
        ([None] * 30, [None] * 30, False),
    ],
)
def test_free_text(source, target, text):
    assert free_texts(*tables(source, target), ["x"]) == (["x"] if text else [])


def test_free_text_is_in_both_files_and_never_numbers():
    s, t = tables(OPINIONS, OPINIONS)
    assert not free_texts(s, Table("t", 2, {}), ["x"])
    assert not free_texts(s, Table("t", 2, {"x": np.array([1.0, 2.0])}), ["x"])
    assert free_texts(s, t, ["x", "not there"]) == ["x"]


def test_much_text_may_be_there_more_than_once():
    many = [f"they said {k} times that this is so" for k in range(1100)]
    assert free_texts(*tables(many * 3, many), ["x"])
    assert not free_texts(*tables(many[:400] * 3, many[:400] * 3), ["x"])


@pytest.mark.parametrize(
    ("leak", "left"),
    [
        (lambda y: "filed as good" if y else "filed as other", True),
        (lambda y: "又甜又圆很脆" if y else "果皮坚硬发红", True),
        (lambda y: "filed as good" if RNG.random() < 0.95 * y else "filed as other", False),
    ],
)
def test_words_that_give_the_label_away(leak, left):
    rng = np.random.default_rng(1)
    told = [f"{leak(y)} {rng.integers(10**6)} of the {rng.integers(9)}th day" for y in Y]
    s = Table("s", N, {"good": GOOD[0], "x": np.array(told, dtype=object)})
    t = Table("t", M, {"good": GOOD[1], "x": np.array(told[:M], dtype=object)})
    names = ["good", "x"]
    found = screen(s, t, Y, names, (), ["x"])
    assert [column.name for column in found] == (["x"] if left else [])
    assert all("words that alone predict" in column.why for column in found)
    assert not screen(s, t, Y, names, ["x"], ["x"])
    assert not screen(s, t, np.arange(N) // (N // 2), names, (), ["x"])  # labels of something else


def test_text_that_says_the_same_in_every_row_of_a_file():
    same = "nothing to say about this one"
    for source, target, path in ((OPINIONS, [same] * M, "t"), ([same] * N, OPINIONS, "s")):
        held = tables(source, target)
        (left,) = screen(*held, np.arange(len(source)) % 2, ["x"], (), ["x"])
        assert left.why == f"is text, and the same in all rows of {path}"
    assert not screen(*tables(OPINIONS, [same]), np.arange(len(OPINIONS)) % 2, ["x"], (), ["x"])


def test_text_without_a_word_is_no_leak():
    signs = np.array([f"!{'?' * (k % 5)} . ," for k in range(N)], dtype=object)
    s = Table("s", N, {"good": GOOD[0], "x": signs})
    assert not screen(
        s, Table("t", M, {"good": GOOD[1], "x": signs[:M]}), Y, ["good", "x"], (), "x"
    )


def test_times_of_events_are_no_ids():
    start = np.datetime64("2023-01-01T00:00:00", "us")
    s = Table("s", N, {"good": GOOD[0], "at": start + np.arange(N) * np.timedelta64(977, "s")})
    t = Table("t", M, {"good": GOOD[1], "at": start + np.arange(M) * np.timedelta64(541, "s")})
    assert not screen(s, t, Y, ["good", "at"], ())
    assert unique_dates(s, t, ["good", "at", "not there"]) == ["at"]
    days = Table("t", M, {"at": start + (np.arange(M) % 9) * np.timedelta64(1, "D")})
    assert not unique_dates(s, days, ["at"])


def test_notes_of_what_is_used():
    assert not used_notes([], [])
    assert used_notes(["said"], ["at", "b, c"]) == [
        "read as text, word by word: 'said' (--drop 'said' leaves it out).",
        "read as dates, though nearly every row has its own: 'at', 'b, c' "
        "(--drop 'at,\"b, c\"' leaves them out).",
    ]
    (many,) = used_notes([*"abcdefg"], [])
    assert many.startswith("read as text, word by word: 'a', 'b', 'c', 'd', 'e' and 2 more (--drop")
