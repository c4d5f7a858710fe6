"""Numbers and dates as people write them: read by one convention per file, or asked for."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

from marda.io import Table
from marda.io.conventions import (
    Notation,
    convert,
    days_of,
    one_spelling,
    quantities,
    respelled,
    settle,
)


def table(path="t.csv", **columns):
    arrays = {name: np.array(values, dtype=object) for name, values in columns.items()}
    return Table(path, len(next(iter(arrays.values()))), arrays)


def settled(*tables, notation=None, **options):
    names = [*tables[0].columns]
    return settle(tables, names, notation or [Notation()] * len(tables), **options)


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["1,234.5", "-2"], [1234.5, -2]),
        (["1.234,5", "0,25"], [1234.5, 0.25]),
        (["1 234,5", "1\u00a0000\u00a0000,0"], [1234.5, 1e6]),
        (["1’234.50", "1'000.5"], [1234.5, 1000.5]),
        (["12,34,567.0", "1.5"], [1234567, 1.5]),
        (["45%", "5.5 %"], [0.45, 0.055]),
        (["$1.50", "-$2", "($3.00)"], [1.5, -2, -3]),
        (["1,50 €", "2,5€"], [1.5, 2.5]),
        (["EUR 1.5", "2.5 EUR"], [1.5, 2.5]),
        (["1.5e3", "2E−1"], [1500, 0.2]),
        (["3.5-", "−2.25"], [-3.5, -2.25]),
        (["1.5", "n/a", None, "#N/A", "-"], [1.5, np.nan, np.nan, np.nan, np.nan]),
    ],
)
def test_quantities(texts, numbers):
    np.testing.assert_allclose(quantities(np.array(texts, dtype=object)), numbers)


@pytest.mark.parametrize(
    "texts",
    [
        ["1.2.3"],
        ["12,3456.7"],
        ["1,2,3"],
        ["€ 5 $"],
        ["--5"],
        ["(5"],
        ["5 kg"],
        ["1.5,5"],
        ["1,23.456"],
        ["EURO 5"],
    ],
)
def test_no_quantities(texts):
    assert quantities(np.array(texts, dtype=object)) is None


def test_the_file_decides_what_a_column_leaves_open():
    german = table(a=["1.234", "2.345"], b=["0,5", "1,25"])
    (found,), problems, *_ = settled(german)
    assert not problems
    np.testing.assert_array_equal(found["a"], [1234, 2345])
    english = table(a=["1,234", "2,345"], b=["0.5", "1.25"])
    (found,), problems, *_ = settled(english)
    assert not problems
    np.testing.assert_array_equal(found["a"], [1234, 2345])
    plain = table(a=["1.234", "2.345"], b=["5", "6"])
    (found,), problems, *_ = settled(plain)
    assert not problems
    np.testing.assert_array_equal(found["a"], [1.234, 2.345])


def test_what_no_file_tells_is_asked_for():
    open_ = table(a=["1,234", "2,345"])
    _, (problem,), *_ = settled(open_)
    assert problem.column == "a"
    assert "--decimal point or --decimal comma" in problem.what
    for mark, first in ((".", 1234), (",", 1.234)):
        (found,), problems, *_ = settled(open_, notation=[Notation(mark)])
        assert not problems
        assert found["a"][0] == first
    # A point is no evidence where the other file writes decimal commas.
    _, problems, *_ = settled(table("s", a=["0,5", "1,5"]), table("t", a=["1.234", "2.345"]))
    assert [p.column for p in problems] == ["a"]
    (found,), problems, *_ = settled(table(a=["0,428", "1,234"]))  # no thousand begins with 0
    assert not problems
    np.testing.assert_array_equal(found["a"], [0.428, 1.234])
    # What a file tells is stronger than an option.
    (found,), *_ = settled(table(a=["0,5", "12,25"]), notation=[Notation(".")])
    np.testing.assert_array_equal(found["a"], [0.5, 12.25])


def test_signs_that_do_not_go_together():
    _, (problem,), *_ = settled(table("s", a=["5%", "6%"]), table("t", a=["0.05", "0.06"]))
    assert problem.options == (("--drop", "a"),)
    _, (problem,), *_ = settled(table(a=["$5", "€6"]))
    assert "several currencies ($, €)" in problem.what
    _, problems, notes, _ = settled(table("s", a=["$5", "$6"]), table("t", a=["€5", "6"]))
    assert not problems
    assert "'a' is in $ and €" in notes[0]


def test_yes_and_no_are_not_1_and_2():
    bits, more = table("t", a=["1", "0", None]), table("t", a=["1", "2", None])
    (s, t), problems, *_ = settled(table("s", a=["yes", "no"]), bits)
    assert not problems
    np.testing.assert_array_equal(np.r_[s["a"], t["a"]], [1, 0, 1, 0, np.nan])
    _, (problem,), *_ = settled(table("s", a=["yes", "no"]), more)
    assert problem.options == (("--drop", "a"),)
    assert "holds yes and no in one file and other numbers than 1 and 0 in another" in problem.what
    _, (problem,), *_ = settled(table("s", a=["5%", "6%"]), bits)  # 1 is no 100 %
    assert "some values with a percent sign" in problem.what


PERCENT, HOURS, TRUTH = ["40%", "5 %"], ["1:30:05", "0:45"], ["yes", "no"]
PLAIN, COUNTS, BITS = ["40", "0.5"], ["1", "2"], ["1", "0"]


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        (PERCENT, PERCENT, None),
        (PERCENT, [None, None], None),
        (PERCENT, PLAIN, "numbers alone, but numbers with a percent sign"),
        (PERCENT, BITS, "numbers alone, but numbers with a percent sign"),
        (PERCENT, ["40%", "5"], "numbers alone, but"),
        (PLAIN, PERCENT, "numbers with a percent sign, but numbers alone"),
        (HOURS, HOURS, None),
        (HOURS, PLAIN, "numbers alone, but durations such as 1:30:05"),
        (PLAIN, HOURS, "durations such as 1:30:05, but numbers alone"),
        (TRUTH, TRUTH, None),
        (TRUTH, BITS, None),
        (TRUTH, ["TRUE", "false"], None),
        (TRUTH, COUNTS, "numbers alone, but yes and no"),
        (BITS, TRUTH, None),
        (BITS, COUNTS, None),
        (["$ 3", "$ 4"], PLAIN, None),
        (PLAIN, ["3 €", "4 €"], None),
    ],
)
def test_new_numbers_that_mean_another_thing_are_refused(then, now, told):
    habits = settled(table("s", a=then), table("t", a=then))[3]
    known = {"a": habits.written["a"]}
    _, _, problems = convert(table("n.csv", a=now), known, {}, Notation())
    assert len(problems) == (told is not None)
    if told is not None:
        assert problems[0].what.startswith(f"n.csv: column 'a' holds {told}")
    assert not convert(table("n.csv", a=now), {"a": None}, {}, Notation())[2]  # older models


def test_words_of_truth():
    (s, t), *_ = settled(table("s", a=["Yes", "no"]), table("t", a=["TRUE", "false"]))
    np.testing.assert_array_equal([s["a"], t["a"]], [[1, 0], [1, 0]])
    (s,), *_ = settled(table(a=["yes", "no", "maybe"]))
    assert s["a"].tolist() == ["yes", "no", "maybe"]
    (s,), *_ = settled(table(a=["yes", "false"]))  # not one pair of words
    assert s["a"].tolist() == ["yes", "false"]


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2024-02-29", "2024-02-29"),
        ("2024/2/9", "2024-02-09"),
        ("2024-02", "2024-02-01"),
        ("31.12.1999", "1999-12-31"),
        ("31.12.99", "1999-12-31"),
        ("31/12/2024", "2024-12-31"),
        ("12/31/2024", "2024-12-31"),
        ("3 Jan 2024", "2024-01-03"),
        ("03-Jan-2024", "2024-01-03"),
        ("January 3rd, 2024", "2024-01-03"),
        ("2024-01-03T04:05:06Z", "2024-01-03T04:05:06"),
        ("2024-01-03 04:05:06.5+02:00", "2024-01-03T02:05:06.5"),
        ("1/13/2024 4:05 PM", "2024-01-13T16:05"),
        ("13.1.2024, 00:30", "2024-01-13T00:30"),
        ("1/13/2024 12:00 am", "2024-01-13"),
        ("Wed, 03 Jan 2024 04:05:06 +0200", "2024-01-03T02:05:06"),
        ("Wednesday, January 3, 2024", "2024-01-03"),
        ("Wed Jan  3 04:05:06 2024", "2024-01-03T04:05:06"),
        ("Wed Jan 3 04:05:06 UTC 2024", "2024-01-03T04:05:06"),
        ("Wed Jan 3 04:05:06 CET 2024", "2024-01-03T03:05:06"),
        ("2024-07-03 04:05:06 CEST", "2024-07-03T02:05:06"),
        ("13.1.2024 04:05 MEZ", "2024-01-13T03:05"),
        ("1/13/2024 4:05 PM EST", "2024-01-13T21:05"),
    ],
)
def test_dates(text, iso):
    (found,), problems, *_ = settled(table(a=[text, None]))
    assert not problems
    assert found["a"].dtype.kind == "M"
    wanted = datetime.fromisoformat(iso)
    assert abs(found["a"][0] - np.datetime64(wanted)) < np.timedelta64(1, "ms")
    assert np.isnat(found["a"][1])


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-02-30"],
        ["31/31/2024"],
        ["20-01-31"],
        ["1.1.1"],
        ["3 Foo 2024"],
        ["Foo, 3 Jan 2024"],
        ["Wed Foo 3 04:05:06 2024"],
        ["Wed Jan 3 25:05:06 2024"],
        ["13/1/2024", "1/13/2024"],
    ],
)
def test_no_dates(texts):
    (found,), *_ = settled(table(a=texts))
    assert found["a"].tolist() == texts


def test_day_and_month():
    _, (problem,), *_ = settled(table(a=["3/4/2024"]))
    assert "--dates day-first or --dates month-first" in problem.what
    for first, month in ((True, 4), (False, 3)):
        (found,), problems, _, habits = settled(
            table(a=["3/4/2024"]), notation=[Notation(day_first=first)]
        )
        assert not problems
        assert habits.day_first == {"a": first}
        assert found["a"][0].astype("datetime64[M]").astype(int) % 12 + 1 == month
    # The other column, or the other file, tells.
    (found,), problems, *_ = settled(table(a=["3/4/2024"], b=["13/4/2024"]))
    assert not problems
    assert str(found["a"][0])[:10] == "2024-04-03"
    tables, problems, *_ = settled(table("s", a=["3/4/2024"]), table("t", a=["3/14/2024"]))
    assert not problems
    assert str(tables[0]["a"][0])[:10] == "2024-03-04"


def test_stray_words_are_named_with_what_they_need():
    values = [str(k + 0.5) for k in range(60)]
    values[3] = values[7] = "broken"
    _, (problem,), *_ = settled(table(a=values), missing="error")
    assert problem.options == (("--na", "broken"), ("--missing", "impute"))
    assert "--na 'broken' --missing impute" in problem.what
    few = ["1", "2", "3", "x"] * 10  # codes
    _, problems, *_ = settled(table(a=few))
    assert not problems


def test_batches_follow_the_first():
    first, known, problems = convert(table(a=["1.234,5", "2"]), {"a": ""}, {}, Notation())
    assert not problems
    np.testing.assert_array_equal(first["a"], [1234.5, 2])
    second, _, _ = convert(table(a=["1.234", "7,25"]), {"a": ""}, {}, Notation(), known)
    np.testing.assert_array_equal(second["a"], [1234, 7.25])
    third, _, _ = convert(table(a=["1,234.5"]), {"a": ""}, {}, Notation(), known)
    assert third["a"].tolist() == ["1,234.5"]  # left as it is: the step refuses it
    first, known, _ = convert(table(a=["1", "2"]), {"a": ""}, {}, Notation())
    later, _, _ = convert(table(a=["1,5"]), {"a": ""}, {}, Notation(), known)
    assert later["a"].tolist() == ["1,5"]
    day, known, problems = convert(table(a=["3/4/2024"]), {}, {"a": True}, Notation())
    assert not problems
    assert str(day["a"][0])[:10] == "2024-04-03"
    later, _, _ = convert(table(a=["3/14/2024"]), {}, {"a": True}, Notation(), known)
    assert later["a"].tolist() == ["3/14/2024"]
    _, _, problems = convert(table(a=["3/4/2024"]), {}, {"a": None}, Notation())
    assert len(problems) == 1


def test_days():
    values = np.array(["1970-01-02T12:00", "NaT"], dtype="datetime64[us]")
    np.testing.assert_array_equal(days_of(values), [1.5, np.nan])


@pytest.mark.parametrize("factor", [1, 1000])
@pytest.mark.parametrize("name", ["created_at", "time", "eventTime", "Unix timestamp", "ts"])
def test_seconds_since_1970(name, factor):
    moments = np.array([1.7e9, 1.6e9, np.nan]) * factor
    (found, other), problems, notes, habits = settled(
        table(**{name: moments}), table(**{name: ["1650000000" + "0" * 3 * (factor > 1), None]})
    )
    assert not problems
    assert notes == [f"column {name!r} is read as times: seconds, or thousandths, since 1970."]
    assert habits.day_first == {name: None}
    assert found[name].astype("datetime64[s]").astype(str).tolist() == [
        "2023-11-14T22:13:20",
        "2020-09-13T12:26:40",
        "NaT",
    ]
    assert other[name][0] == np.datetime64("2022-04-15T05:20:00")
    again, _, problems = convert(table(**{name: moments}), {}, habits.day_first, Notation())
    assert not problems
    assert np.array_equal(again[name], found[name], equal_nan=True)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("account", [1.7e9, 1.6e9]),  # no name of a time
        ("update", [1.7e9, 1.6e9]),
        ("time", [12.0, 13.0]),
        ("time", [1.7e9, 13.0]),
        ("time", [1.7e9 + 0.5, 1.6e9]),
        ("date", [20240131.0, 20240201.0]),
        ("time", [np.nan, np.nan]),
    ],
)
def test_other_numbers_stay_numbers(name, values):
    (found,), _, notes, _ = settled(table(**{name: np.array(values)}))
    assert found[name].dtype.kind == "f"
    assert not notes


@pytest.mark.parametrize(
    ("known", "given", "found"),
    [
        (["no", "yes"], ["0", "1"], {"0": "no", "1": "yes"}),
        (["no", "yes"], ["NO"], {"NO": "no"}),
        (["0", "1"], ["true", "False"], {"true": "1", "False": "0"}),
        (["no", "yes"], ["1", "perhaps"], {}),
        (["no", "yes"], ["Yes", "perhaps"], {"Yes": "yes"}),
        (["no", "soft\u00a0yes"], ["soft yes"], {"soft yes": "soft\u00a0yes"}),
        (["A", "a", "b"], ["B"], {}),  # two that differ in their case alone
        (["a", "b"], ["A", "c"], {}),  # one letter may be another class
        (["apple", "pear"], ["0", "1"], {}),
    ],
)
def test_labels_in_another_spelling(known, given, found):
    assert respelled(known, given) == found


def test_durations_are_seconds_and_stand_beside_no_numbers():
    spans = table(a=["1:30:05", "0:00:07,5", None])
    (one,), problems, notes, _ = settled(spans)
    np.testing.assert_array_equal(one["a"], [5405, 7.5, np.nan])
    assert (problems, len(notes)) == ([], 1)
    problems = settled(spans, table(a=["12", "13", "14"]))[1]
    assert problems[0].what == (
        "column 'a' holds durations such as 1:30:05 in one file and numbers in another: write them "
        "alike, or leave it out with --drop 'a'"
    )
    assert problems[0].options == (("--drop", "a"),)


def test_labels_that_differ_in_case_are_one_class_unless_they_are_letters():
    counts = {"Yes": 1, "yes": 2, "YES": 1, "no": 1}
    assert one_spelling(counts) == {"YES": "yes", "Yes": "yes"}
    assert one_spelling({"a": 1, "A": 2, "b": 1}) == {}


@pytest.mark.parametrize(
    ("written", "number"),
    [("١٢٬٣٤٥٫٥", 12345.5), ("۱۲٫۵", 12.5), ("१२.५", 12.5), ("１２．５", 12.5), ("٤٥٪", 0.45)],
)
def test_digits_of_other_scripts(written, number):
    assert quantities(np.array([written], dtype=object)).tolist() == [number]


def test_powers_are_no_digits():
    assert quantities(np.array(["5²"], dtype=object)) is None
