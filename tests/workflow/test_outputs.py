"""What would fail after the work is refused before it."""

from __future__ import annotations

import pytest

from marda.io import InputError
from marda.workflow.outputs import Outputs, check_names


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"out": "t.parquet"}, "--out t.parquet would replace an input file."),
        ({"model": "./s.parquet"}, "--model ./s.parquet would replace an input file."),
        ({"out": "p.csv", "model": "p.csv"}, "--out and --model both name p.csv."),
        ({"model": "."}, "--model . is a folder: give the name of a file."),
        ({"target": None, "out": "p.csv"}, "--out without --target"),
        ({"out": "p.txt"}, "p.txt: predictions are written as"),
    ],
)
def test_refused(given, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outputs = Outputs(**{"target": "t.parquet", **given})
    with pytest.raises(InputError) as caught:
        outputs.check(["s.parquet", "t.parquet"])
    assert str(caught.value).startswith(words)


def test_folders_are_made_or_refused(tmp_path):
    Outputs("t.parquet", out=tmp_path / "new" / "p.csv").check(["s.parquet", "t.parquet"])
    with pytest.raises(InputError, match="there is no folder"):
        check_names([], {"--out": tmp_path / "new" / "p.csv"})
