"""What tests of the commands share."""

from __future__ import annotations

import pytest

from marda import cli


@pytest.fixture
def refused(capsys):
    """A function that makes a wrong call, which must say what is wrong on one line alone."""

    def call(arguments, words, start="marda"):
        assert cli.main([*arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert words in err
        assert err.count("\n") == 1
        assert err.startswith(start)
        assert "Traceback" not in err

    return call
