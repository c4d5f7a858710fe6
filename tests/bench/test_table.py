import json

import pytest

from marda import datasets
from marda.bench import table


@pytest.fixture
def tasks_run(monkeypatch):
    """The tasks that were measured; each costs 1 s by auto and 4 s by the d×d route."""
    seen = []

    def measured(data, pair):
        seen.append(pair)
        if len(seen) > 5:
            raise KeyboardInterrupt
        return {"task": pair, "auto_s": 1.0, "primal_s": 4.0, "least_agreement": 0.5 + len(seen)}

    monkeypatch.setattr(table, "_measured", measured)
    monkeypatch.setattr(datasets, "load", lambda *args: None)
    return seen


def test_sums_over_tasks(tasks_run):
    figures = table.oc10(tasks=3)
    assert (figures["marda_s"], figures["reference_s"], figures["ratio"]) == (3.0, 12.0, 4.0)
    assert figures["least_agreement"] == 1.5
    assert [t["task"] for t in figures["by_task"]] == table.PAIRS[:3]


def test_ended_run_goes_on_where_it_stopped(tasks_run, tmp_path):
    keep = tmp_path / "new" / "tasks.jsonl"
    with pytest.raises(KeyboardInterrupt):
        table.oc10(tasks=7, keep=str(keep))
    with keep.open("a") as handle:
        handle.write('{"task": "amazon-web')  # ended in the middle of a line
    del tasks_run[:]
    assert len(table.oc10(tasks=7, keep=str(keep))["by_task"]) == 7
    assert tasks_run == table.PAIRS[5:7]


def test_tasks_of_another_machine_are_measured_again(tasks_run, tmp_path):
    keep = tmp_path / "tasks.jsonl"
    table.oc10(tasks=1, keep=str(keep))
    line = json.loads(keep.read_text())
    line["machine"]["cores"] = 1000
    keep.write_text(json.dumps(line) + "\n")
    table.oc10(tasks=1, keep=str(keep))
    assert tasks_run == table.PAIRS[:1] * 2
