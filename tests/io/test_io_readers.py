"""Packed files, encodings, layouts, JSON, workbooks and Arrow: read as written, or one sentence."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import struct
import sys
import zipfile
from datetime import date, datetime

import numpy as np
import pytest

from marda.io import InputError, detect_format, read_batches, read_table, text
from measured import traced_peak

CSV = "a,b\n1,x\n2,y\n"


def columns(table):
    return {name: values.tolist() for name, values in table.columns.items()}


def read(tmp_path, content, name="a.csv", **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, **options)


# Packed files ------------------------------------------------------------------------------------


def zipped(data, *names):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as out:
        for name in names:
            out.writestr(name, data)
    return held.getvalue()


def zstandard(data):
    module = pytest.importorskip("zstandard")
    return module.ZstdCompressor(write_checksum=True).compress(data)


PACK = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zip": lambda data: zipped(data, "a.csv"),
    ".zst": zstandard,
}


@pytest.mark.parametrize("suffix", PACK)
def test_packed(tmp_path, suffix):
    whole = PACK[suffix](CSV.encode() + b"3,z\n" * 5000)
    for name in (f"a.csv{suffix}", "a.csv", "rows"):  # the content decides
        table = read(tmp_path, whole, name)
        assert table.n_rows == 5002
        assert table["b"][:3].tolist() == ["x", "y", "z"]
    for cut in range(20, len(whole) - 4, max(1, len(whole) // 40)):
        with pytest.raises(InputError, match="rows"):
            read(tmp_path, whole[:cut], "rows")


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_streams_behind_each_other(tmp_path, suffix):
    whole = PACK[suffix](CSV.encode()) + PACK[suffix](b"3,z\n")
    assert read(tmp_path, whole, f"a.csv{suffix}").n_rows == 3


@pytest.mark.parametrize("suffix", PACK)
def test_bombs_take_no_memory(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"a.csv{suffix}"
    path.write_bytes(PACK[suffix](b"a,b\n" + b"1,2\n" * 25_000))  # 3.6 MB, if it were read
    monkeypatch.setenv("MARDA_MEMORY", "1MB")

    def refused():
        with pytest.raises(InputError, match=r"memory|unpack"):
            read_table(path)

    assert traced_peak(refused) < 3.2e6


def test_what_a_zip_declares_is_compared_with_what_it_holds(tmp_path):
    whole = bytearray(zipped(CSV.encode(), "a.csv"))
    at = whole.index(b"PK\x01\x02") + 24
    whole[at : at + 4] = struct.pack("<I", 2**31)
    with pytest.raises(InputError, match="declares more bytes than the file can hold"):
        read(tmp_path, bytes(whole), "a.zip")


def test_archives(tmp_path):
    assert read(tmp_path, zipped(CSV.encode(), "__MACOSX/._a", "x/", "a.csv"), "a.zip").n_rows == 2
    with pytest.raises(InputError, match=r"zip archive of 2 files \('a.csv', 'b.csv'\)"):
        read(tmp_path, zipped(CSV.encode(), "a.csv", "b.csv"), "a.zip")
    with pytest.raises(InputError, match="zip archive of 2 files"):
        read(tmp_path, zipped(CSV.encode(), "a.csv", "b.csv"), "a.zip", format="csv")
    with pytest.raises(InputError, match="holds a packed parquet: unpack it"):
        read(tmp_path, gzip.compress(b"PAR1 and so on", mtime=0), "a.parquet.gz")
    with pytest.raises(InputError, match="is empty"):
        read(tmp_path, gzip.compress(b"", mtime=0), "a.csv.gz")


def test_xz_may_not_ask_for_more_memory_than_there_is(tmp_path, monkeypatch):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**28}]
    path = tmp_path / "a.csv.xz"
    path.write_bytes(lzma.compress(CSV.encode(), filters=filters))
    assert read_table(path).n_rows == 2
    monkeypatch.setenv("MARDA_MEMORY", "30MB")
    with pytest.raises(InputError, match="needs more memory to unpack than there is, 30 MB"):
        read_table(path)


def test_without_its_library_a_file_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.csv.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    book = zipped(b"<a/>", "xl/workbook.xml")
    for name in ("zstandard", "compression.zstd", "openpyxl"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match="needs a library: run pip install zstandard"):
        read_table(tmp_path / "a.csv.zst")
    with pytest.raises(InputError, match=r"needs openpyxl: run pip install 'marda\[excel\]'"):
        read(tmp_path, book, "a.xlsx")


def test_addresses_are_refused():
    for address in ("https://example.org/a.csv", "s3://bucket/a.parquet", "http:/example.org/a"):
        with pytest.raises(InputError, match=r"^\w+://\S+ is an address, and marda reads files"):
            read_table(address)
        with pytest.raises(InputError, match="is an address"):
            detect_format(address)


# Encodings ---------------------------------------------------------------------------------------

ACCENTS = "name,x\ncafé,1\nGröße,2\nnaïve,3\n"
POLISH = "name,x\nżółty,1\nłódź,2\nświt,3\n"
RUSSIAN = "name,x\nкрасный,1\nзелёный,2\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (ACCENTS.encode(), None),
        (ACCENTS.encode("utf-8-sig"), None),
        (ACCENTS.encode("utf-16"), None),
        (codecs.BOM_UTF16_BE + ACCENTS.encode("utf-16-be"), None),
        (ACCENTS.encode("utf-32"), None),
        (ACCENTS.encode("cp1252"), "Windows-1252"),
    ],
)
def test_encodings_are_found_out(tmp_path, content, words):
    table = read(tmp_path, content)
    assert table["name"].tolist() == ["café", "Größe", "naïve"]
    assert [words in note for note in table.notes] == ([True] if words else [])


@pytest.mark.parametrize(
    "word", ["créé", "agréée", "ação", "AVALIAÇÃO", "pääsy", "ääni", "öðruvísi", "jäääär"]
)
def test_accents_in_a_row(tmp_path, word):
    table = read(tmp_path, f"name,x\n{word},1\n".encode("cp1252"))
    assert table["name"].tolist() == [word]


@pytest.mark.parametrize(
    ("above", "told"),
    [
        ("Fruit;;\n", "1 line"),
        ("Fruit;;\n;;\n", "2 lines"),
        (";;Fruit of 2024\n\n", "2 lines"),
        ('"Fruit; of 2024";;\n', "1 line"),
    ],
)
def test_titles_padded_with_separators(tmp_path, above, told):
    table = read(tmp_path, f"{above}a;b;c\n1;x;2\n3;y;4\n".encode())
    assert [*table.columns] == ["a", "b", "c"]
    assert table["b"].tolist() == ["x", "y"]
    assert told in table.notes[0]


def test_units_under_the_header_are_left_out(tmp_path):
    table = read(tmp_path, b"weight,height,kind\nkg,cm,\n70,180,a\n60,170,b\n")
    assert table["weight"].tolist() == ["70", "60"]
    assert "the line under the header names units ('kg', 'cm'), left out." in table.notes[0]


@pytest.mark.parametrize(
    "words", ["weight,kind,ill\nkg,m/f,yes/no\n", "weight,kind,ill\nmmHg,f | m,no; yes\n"]
)
def test_units_stand_beside_what_words_can_be(tmp_path, words):
    table = read(tmp_path, f"{words}70,m,no\n60,f,yes\n".encode())
    assert table["ill"].tolist() == ["no", "yes"]
    assert "names units" in table.notes[0]


def test_three_known_units_are_no_row_whatever_else_is_there(tmp_path):
    table = read(tmp_path, "a,b,c,d\nmg/l,°C,kg,ICD-10\n1,2,3,J18.9\n4,5,6,A41\n".encode())
    assert table["d"].tolist() == ["J18.9", "A41"]


@pytest.mark.parametrize(
    "written",
    [
        "a,b,c\nkg,cm,x\n1,2,y\n",  # it has a value
        "a,b,c\nmuch,some,x/y\n1,2,y\n3,4,x/y\n",  # no known unit
        "a,b,c\nNA,NA,\n1,2,y\n",
        "a,b,c\nkg,cm,\nm,s,y\n",  # words, all of them
        "a,b\nhello,\n42,\n",
        "a,b,c\nunknown,unknown,x\n1,2,y\n3,4,z\n",  # names differ
        "a,b,c\nnone,much,x\n1,2,y\n3,4,z\n",  # no value is no name
        "a,b,c\nsome,9,x\n1,2,y\n3,4,z\n",
        "a,b,c\nsome,u,x\n1,v,y\n3,w,z\n",  # above one column of numbers
        "a,b,c\nbroken,off,red\n1,2,red\n3,4,blue\n",  # words, but no questions
        "a,b,c\nnot known,too high,dark red\n1,2,red\n3,4,blue\n",
        "a,b,c\nwhat?,off,red\n1,2,red\n3,4,blue\n",
    ],
)
def test_lines_that_may_be_rows_are_no_units(tmp_path, written):
    assert len(read(tmp_path, written.encode())["a"]) == written.count("\n") - 1


def test_names_under_the_header_are_left_out(tmp_path):
    table = read(tmp_path, b"q1,q2,q3\nHow long?,When?,Which?\n5,2024-01-02,a\n6,3.4.2024,b\n")
    assert table["q1"].tolist() == ["5", "6"]
    assert "under the header ('How long?', 'When?', 'Which?') left out" in table.notes[0]
    with pytest.raises(InputError, match="line 3: 2 fields"):
        read(tmp_path, b"a,b,c\n1,2,x\n3,4\n5,6,y\n")


@pytest.mark.parametrize(
    "written", ["a;;\n1;2;3\n4;5;6\n", "a;;\nx;x;y\nz;y;y\n", "a;b;c\n;;\nx;y;z\n"]
)
def test_headers_with_gaps_are_no_titles(tmp_path, written):
    assert "a" in read(tmp_path, written.encode()).columns


@pytest.mark.parametrize(
    ("written", "encoding"),
    [
        (ACCENTS, "mac_roman"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"),
        (POLISH, "cp1250"),
        ("x\n緑色\n赤い\n", "shift_jis"),
    ],
)
def test_other_encodings_are_asked_for(tmp_path, written, encoding):
    with pytest.raises(InputError, match=rf"name its encoding with --encoding \(.*{encoding}"):
        read(tmp_path, written.encode(encoding))
    assert read(tmp_path, written.encode(encoding), encoding=encoding).columns


def test_an_encoding_that_is_not_the_files_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="is UTF-8, and --encoding says cp1251"):
        read(tmp_path, RUSSIAN, encoding="cp1251")
    with pytest.raises(
        InputError, match="begins with the mark of UTF-16, and --encoding says cp1252"
    ):
        read(tmp_path, RUSSIAN.encode("utf-16"), encoding="cp1252")
    with pytest.raises(InputError, match="no such encoding"):
        read(tmp_path, CSV, encoding="base64")
    with pytest.raises(InputError, match=r"not text, or UTF-16 without its mark.*utf-16-le"):
        read(tmp_path, CSV.encode("utf-16-le"))
    assert read(tmp_path, CSV.encode("utf-16-le"), encoding="utf-16-le").n_rows == 2
    monkeypatch.setattr(text, "SCANNED", 2**16)
    late = (CSV + f"3,{'z' * 400}\n" * 4_000).encode() + b"4,\xe9\n"  # beyond what is looked at
    with pytest.raises(InputError, match="is not utf-8 text throughout: name its encoding"):
        read(tmp_path, late)


# Layouts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("a|b\n1|x\n", {"a": ["1"], "b": ["x"]}),
        ("a;b\n1,5;2,5\n3,5;4,5\n", {"a": ["1,5", "3,5"], "b": ["2,5", "4,5"]}),
        ('"a, b";c\n1;2\n', {"a, b": ["1"], "c": ["2"]}),
        ("sep=|\na|b\n1|x\n", {"a": ["1"], "b": ["x"]}),
        ("Title\n\na,b\n1,2\n3,4\n", {"a": ["1", "3"], "b": ["2", "4"]}),
        ("# a; b\na,b\n1,2\n3,4\n", {"a": ["1", "3"], "b": ["2", "4"]}),
        ("#a,b\n1,2\n3,4\n", {"#a": ["1", "3"], "b": ["2", "4"]}),
        ("a,b\n1,2,\n3,4,\n", {"a": ["1", "3"], "b": ["2", "4"]}),
        ("a,b\nr1,1,2\nr2,3,4\n", {"column1": ["r1", "r2"], "a": ["1", "3"], "b": ["2", "4"]}),
        ("x\nr1,1\nr2,2\n", {"column1": ["r1", "r2"], "x": ["1", "2"]}),
        (" a , b \n 1 , x y \n", {"a": ["1"], "b": ["x y"]}),
        ("5.1,3.5,red\n4.9,3.0,red\n", {"column1": ["5.1", "4.9"], "column2": ["3.5", "3.0"]}),
        ("1,1,0\n0,1,0\n", {"column1": ["1", "0"]}),
        ("0,1,2\n5,6,7\n", {"0": ["5"], "1": ["6"], "2": ["7"]}),
        ("400.5,401.5,402.5\n5,6,7\n", {"400.5": ["5"], "401.5": ["6"]}),
        ("only\n1\n2\n", {"only": ["1", "2"]}),
        ("a,,c\n1,2,3\n", {"a": ["1"], "column2": ["2"], "c": ["3"]}),
        ("column2,,c\n1,2,3\n", {"column2": ["1"], "column2_": ["2"], "c": ["3"]}),
    ],
)
def test_layouts(tmp_path, content, wanted):
    found = columns(read(tmp_path, content))
    assert {name: found.get(name) for name in wanted} == wanted


def test_nameless_columns_are_known(tmp_path):
    table = read(tmp_path, ",Unnamed: 1,c\n1,2,3\n")
    assert table.nameless == {"column1", "Unnamed: 1"}
    assert read(tmp_path, "0.5,0.5\n1,2\n").nameless == frozenset()


def test_repeated_names_are_refused_when_they_are_used(tmp_path):
    table = read(tmp_path, "a,b,a,a\n1,2,3,4\n")
    assert columns(table) == {"b": ["2"]}
    with pytest.raises(InputError, match=r"column 'a' is there 3 times: leave it out with --drop"):
        table["a"]


def test_nul_bytes(tmp_path):
    with pytest.raises(InputError, match="not text, or UTF-16 without its mark"):
        read(tmp_path, b"a,b\n1,\0\n")
    with pytest.raises(InputError, match="holds NUL bytes"):
        read(tmp_path, b"a,b\n1,\0\n", encoding="utf-8")


# JSON --------------------------------------------------------------------------------------------

RECORDS = [
    {"a": 1, "b": "x", "c": True, "d": None, "e": 1},
    {"a": 2.5, "b": None, "c": False, "d": None, "e": "z", "f": "late"},
]
WANTED = {"a": [1, 2.5], "b": ["x", None], "c": [1, 0], "e": ["1", "z"], "f": [None, "late"]}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", json.dumps(RECORDS)),
        ("a.json", json.dumps(RECORDS, indent=2)),
        ("a", json.dumps(RECORDS, indent=2)),
        ("a.json", json.dumps({"rows": RECORDS, "n": 2})),
        ("a.json", json.dumps({"rows": RECORDS, "n": 2}, indent=1)),
        ("a.jsonl", "\n".join(map(json.dumps, RECORDS)) + "\n\n"),
        ("a.json", "\n".join(map(json.dumps, RECORDS))),
        ("a.txt", "\n".join(map(json.dumps, RECORDS))),
        ("a.jsonl.gz", gzip.compress("\n".join(map(json.dumps, RECORDS)).encode(), mtime=0)),
    ],
)
def test_json(tmp_path, name, content):
    table = read(tmp_path, content, name)
    found = columns(table)
    assert {key: found[key] for key in WANTED} == WANTED
    assert np.isnan(table["d"]).all()
    parts = [*read_batches(tmp_path / name, rows=1, columns={"a", "f"})]
    assert [part["a"].tolist() for part in parts] == [[1], [2.5]]


def test_json_with_objects_inside(tmp_path):
    rows = [{"id": 1, "user": {"age": 3, "at": {"x": 2}}}, {"id": 2, "user": None}]
    table = read(tmp_path, json.dumps(rows), "a.json")
    assert [*table.columns] == ["id", "user.age", "user.at.x", "user"]
    assert table["user.at.x"].tolist()[0] == 2
    assert "inside objects are columns ('user.age', 'user.at.x')" in table.notes[0]
    with pytest.raises(InputError, match=r"'user\.age' twice"):
        read(tmp_path, '[{"user": {"age": 3}, "user.age": 4}]', "a.json")


def test_json_of_columns(tmp_path):
    assert columns(read(tmp_path, '{"a": 1, "b": "x"}\n', "a.json")) == {"a": [1], "b": ["x"]}
    assert columns(read(tmp_path, '{"a": [1, 2], "b": ["x", "y"]}', "a.json")) == {
        "a": [1, 2],
        "b": ["x", "y"],
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1, 2]", "holds no records"),
        ('{"a": 1,', "cannot be read as JSON"),
        ('{"a": 1}\n[2]\n', "line 2: expected a record"),
        ('{"a": 1}\n{"a" 2}\n', "line 2 cannot be read as JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('[{"a": ' + "9" * 5000 + "}]", "cannot be read as JSON"),
        ("", "is empty"),
        ("[]", "has no rows"),
    ],
)
def test_wrong_json(tmp_path, content, words):
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path, content, "a.json")
    assert "\n" not in str(caught.value)


def test_json_values_that_are_no_cells(tmp_path):
    table = read(tmp_path, '[{"a": [1], "b": 2, "c": 1e999}]', "a.json")
    assert columns(table) == {"b": [2], "c": [np.inf]}
    with pytest.raises(InputError, match="'a' holds lists or objects"):
        table["a"]


def test_large_json_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setenv("MARDA_MEMORY", "10MB")
    with pytest.raises(InputError, match="takes more memory than there is, 10 MB"):
        read(tmp_path, "[" + '{"a": 1},\n' * 300_000 + '{"a": 1}]', "a.json")
    with pytest.raises(InputError, match="takes more memory than there is, 10 MB"):
        read(tmp_path, '{"a": 1}\n' * 300_000, "a.jsonl")


# Workbooks ---------------------------------------------------------------------------------------


@pytest.fixture
def book(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")

    def write(name="a.xlsx", **sheets):
        held = openpyxl.Workbook()
        held.remove(held.active)
        for title, rows in sheets.items():
            sheet = held.create_sheet(title)
            for row in rows:
                sheet.append(row)
        held.save(tmp_path / name)
        return tmp_path / name

    return write


def test_workbook(book):
    rows = [
        ["n", "text", "day", "ok", "mixed", None, "n2"],
        [1, " x ", date(2024, 1, 2), True, 3, None, "#N/A"],
        [],
        [2.5, None, datetime(2024, 1, 3, 12), False, "y", None, 4],
    ]
    path = book(empty=[], rows=rows)
    table = read_table(path)
    found = columns(table)
    assert found["n"] == [1, 2.5]
    assert found["text"] == ["x", None]
    assert [str(v) for v in table["day"]] == [
        "2024-01-02T00:00:00.000000",
        "2024-01-03T12:00:00.000000",
    ]
    assert found["ok"] == [1, 0]
    assert found["mixed"] == ["3", "y"]
    assert found["n2"] == ["#N/A", "4"]
    assert table.nameless == {"column6"}
    assert [t["n"].tolist() for t in read_batches(path, rows=1)] == [[1], [2.5]]
    assert [*read_table(path, sheet="ROWS ").names] == table.names


def test_workbook_with_a_title(book):
    table = read_table(book(rows=[["Report"], [], ["a", "b", "c"], [1, 2, 3], [4, 5, 6]]))
    assert columns(table) == {"a": [1, 4], "b": [2, 5], "c": [3, 6]}
    assert "1 row above the header" in table.notes[0]


def test_sheets(book):
    path = book(one=[["a"], [1]], two=[["b"], [2]])
    with pytest.raises(
        InputError, match=r"2 sheets with rows \('one', 'two'\): name one with --sheet"
    ):
        read_table(path)
    assert columns(read_table(path, sheet="two")) == {"b": [2]}
    with pytest.raises(
        InputError, match=r"no sheet 'three': name one with --sheet \('one', 'two'\)"
    ):
        read_table(path, sheet="three")
    with pytest.raises(InputError, match="is empty"):
        read_table(book(one=[]))
    with pytest.raises(InputError, match="has no rows"):
        read_table(book(one=[["a", "b"]]))
    with pytest.raises(InputError, match="'a' is there twice"):
        read_table(book(one=[["a", "a"], [1, 2]]))["a"]


def test_workbooks_that_would_not_fit(book, monkeypatch, tmp_path):
    monkeypatch.setenv("MARDA_MEMORY", "1MB")
    texts = zipped(b"<t>a</t>" * 20_000, "xl/workbook.xml", "xl/sharedStrings.xml")
    with pytest.raises(InputError, match=r"takes 1.28 MB to read, above the memory there is, 1 MB"):
        read(tmp_path, texts, "b.xlsx")
    path = book(one=[["a"], *([f"text {k} {'x' * 200}"] for k in range(4_000))])
    with pytest.raises(InputError, match=r"takes more memory than there is, 1 MB"):
        read_table(path)
    path = book(one=[["a"], *([k] for k in range(11_000))])
    with pytest.raises(InputError, match=r"takes more memory than there is, 1 MB"):
        read_table(path)


def test_damaged_workbooks(book):
    path = book(one=[["a", "b"], [1, "x"]])
    whole = path.read_bytes()
    for at in range(30, len(whole), 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            assert columns(read_table(path)) == {"a": [1], "b": ["x"]}
        except InputError as error:
            assert str(path) in str(error)  # noqa: PT017


# Arrow -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lz4", "uncompressed", "stream"])
def test_arrow(tmp_path, kind):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.feather as feather

    table = pa.table({"a": [1.5, None], "b": ["x", ""], "day": [date(2024, 1, 2), None]})
    path = tmp_path / "rows"
    if kind == "stream":
        with pa.ipc.new_stream(path, table.schema) as out:
            out.write_table(table, 1)
    else:
        feather.write_feather(table, path, compression=kind, chunksize=1)
    assert detect_format(path) == "arrow"
    found = read_table(path)
    np.testing.assert_array_equal(found["a"], [1.5, np.nan])
    assert found["b"].tolist() == ["x", None]
    assert str(found["day"][0]).startswith("2024-01-02")
    (part, _) = read_batches(path, rows=1, columns={"B"})
    assert columns(part) == {"b": ["x"]}
    whole = path.read_bytes()
    for cut in range(8, len(whole) - 10, 41):
        path.write_bytes(whole[:cut])
        if kind == "stream":
            continue  # a stream may end between two batches
        with pytest.raises(InputError, match="cannot be read as Arrow"):
            read_table(path)


def test_a_length_beyond_the_end_of_arrow_is_never_allocated(tmp_path):
    pytest.importorskip("pyarrow")
    stream = struct.pack("<iI", -1, 2**31 - 1) + b"a;b\n1;2\n" * 50  # its first message's length

    def refused():
        with pytest.raises(InputError, match="cannot be read as Arrow"):
            read(tmp_path, stream, "a.arrow")

    assert traced_peak(refused) < 2**26


def test_old_feather_and_repeated_names(tmp_path):
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="Feather file of version 1"):
        read(tmp_path, b"FEA1 and so on", "a.feather")
    table = pa.table([[1.0], [2.0]], names=["a", "a"])
    with pa.ipc.new_file(tmp_path / "b.arrow", table.schema) as out:
        out.write_table(table)
    with pytest.raises(InputError, match="two columns 'a'"):
        read_table(tmp_path / "b.arrow")
    with pytest.raises(InputError, match="is not arrow, though its name says so"):
        read(tmp_path, CSV, "a.feather")
