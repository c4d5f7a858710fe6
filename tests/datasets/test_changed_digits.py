import numpy as np
import pytest

from marda.datasets import DataError, changed_digits, make_task


def test_halves_of_the_digits():
    task = make_task(changed_digits.load("dim"), "source", "target")
    assert task.X_source.shape == (900, 64)
    assert task.X_test is not None
    assert len(task.y_test) == 897
    assert task.X_target.max() == pytest.approx(0.3 * 16)
    same = make_task(changed_digits.load("same"), "source", "target")
    assert np.unique(same.X_target).tolist() == list(range(17))


def test_every_change_changes_the_images():
    for change in changed_digits.TASKS[1:]:
        data = changed_digits.load(change)
        source, target = data["source"].X.mean(0), data["target"].X.mean(0)
        assert np.abs(source - target).max() > 1
    with pytest.raises(DataError, match="no change 'x' of digits"):
        changed_digits.load("x")
