import pytest

from marda.datasets import COLLECTIONS, DataError, named_task
from skada_files import write


def test_tasks_of_a_file(tmp_path):
    write(tmp_path)
    assert COLLECTIONS["skada-bench"].present(tmp_path) == ("mushrooms e>t", "subspace 0")
    first, second = (named_task("skada-bench", "subspace 0", k, tmp_path) for k in (0, 4))
    assert first.checksum != second.checksum
    assert first.setting == "US"
    write(tmp_path, splits=4)
    assert COLLECTIONS["skada-bench"].present(tmp_path) == ()


def test_tasks_without_files():
    assert named_task("generated", "one row", 19).X_target.shape == (1, 10)
    assert named_task("digits", "turn").X_source.shape == (900, 64)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x", "y"), "no collection 'x': choose from skada-bench, generated, digits, tables"),
        (("digits", "x"), "digits has no task 'x': choose from same"),
        (("digits", "same", 1), "draw=1: digits has draws 0 … 0"),
    ],
)
def test_wrong_names(arguments, words):
    with pytest.raises(DataError, match=words):
        named_task(*arguments)


def test_names_can_be_given_on_a_command_line():
    for collection in COLLECTIONS.values():
        assert not any("," in task or task != task.strip() for task in collection.tasks)
