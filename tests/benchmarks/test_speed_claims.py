import json
import os
import time
from multiprocessing import Pipe

import pytest

from marda import cli
from marda._machine import machine_facts
from marda._progress import Progress
from marda.benchmarks import speed_cases as cases
from marda.benchmarks import speed_claims as claims
from marda.benchmarks.speed_claims import render

TASK = {"task": "a-b", "auto_s": 2.0, "primal_s": 7.0}


@pytest.fixture
def measured(monkeypatch):
    """Figures by case, instead of measuring; a case that is not there fails."""
    figures = {"oc10": {"ratio": 3.5, "by_task": [TASK]}, "path": {"ratio": 2.0, "path_s": 1.0}}
    monkeypatch.setattr(
        claims,
        "_measure",
        lambda claim, timeout, tell: figures.get(claim.name, {"error": "too slow"}),
    )
    return figures


def bench(folder, *args):
    files = ["--json", str(folder / "f.json"), "--page", str(folder / "f.md")]
    code = cli.main(["bench", *files, *args])
    return code, json.loads((folder / "f.json").read_text())["results"]


def test_one_case_keeps_the_others(measured, tmp_path):
    assert bench(tmp_path, "--only", "path", "oc10", "--tasks", "2")[0] == 0
    measured["oc10"] = {"ratio": 2.5, "by_task": [TASK]}
    code, results = bench(tmp_path, "--only", "oc10")
    assert code == 1  # 2.5 is below the bound of 3
    assert [(r["case"], r["figures"]["ratio"]) for r in results] == [("path", 2.0), ("oc10", 2.5)]
    assert results[1]["title"] == "OC10 unsupervised table"


@pytest.mark.parametrize(("case", "left"), [("oc10", False), ("path", True), ("dual", True)])
def test_tasks_are_kept_until_their_case_is_finished(case, left, measured, tmp_path):
    bench(tmp_path, "--only", "oc10")
    kept = tmp_path / "f.oc10.sqlite"
    kept.touch()
    bench(tmp_path, "--only", case)
    assert kept.exists() == left


def test_page_has_ratios_tasks_and_failures(measured, tmp_path):
    bench(tmp_path, "--only", "oc10", "dual")
    page = (tmp_path / "f.md").read_text()
    assert "| OC10 unsupervised table | solver='primal' | 3.5 | ≥ 3 | yes |" in page
    assert "| a-b | 2.0 s | 7.0 s | 3.50 |" in page
    assert "not measured | too slow |" in page


def test_a_gpu_only_where_it_is_asked_for(measured, tmp_path):
    measured["gpu"] = {"ratio": 20.0, "device": "one"}
    assert all(r["case"] != "gpu" for r in bench(tmp_path)[1])
    code, results = bench(tmp_path / "asked", "--only", "gpu")
    assert code == 0
    assert [r["case"] for r in results] == ["gpu"] * 3


def test_page_names_the_blas():
    where = machine_facts()
    assert where["blas"]
    assert all(name in render({"machine": where, "results": []}) for name in where["blas"])


def test_unknown_case(capsys, tmp_path):
    assert cli.main(["bench", "--only", "speed", "--json", str(tmp_path / "f.json")]) == 2
    assert "there is no case 'speed': choose from" in capsys.readouterr().err


def test_worker_runs_a_case_in_a_fresh_process():
    claim = claims.Claim("tiny", cases.path, {"d": 20, "levels": 2, "columns": 1})
    figures = claims._measure(claim, 300, lambda share: None)
    assert figures["difference"] < 1e-9
    assert figures["blas_threads"] >= 1


def test_the_time_left_follows_from_seconds_on_record(monkeypatch):
    now, seen = [0.0], []

    def measure(claim, timeout, tell):
        for share in (0.5, 1.0) if claim.name == "oc10" else (1.0,):
            now[0] += 2.0 * claim.seconds * (0.5 if claim.name == "oc10" else 1.0)
            tell(share)  # this machine is half as fast as that of the record
            seen.append((display.left(), now[0]))
        return {"ratio": 10.0}

    monkeypatch.setattr(claims, "_measure", measure)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    display = Progress(show=False)
    claims.run(claims.PLAN, 60.0, display)
    end = now[0]
    assert [left for left, _ in seen] == pytest.approx([end - at for _, at in seen])
    assert len(seen) == len(claims.PLAN) + 1


def test_a_worker_tells_what_share_is_done(monkeypatch):
    pipe = Pipe()
    with monkeypatch.context() as patch:  # this process keeps its errors and its signals
        patch.setattr(os, "dup2", lambda null, _: os.close(null))
        patch.setattr(claims.signal, "signal", lambda *_: None)
        patch.setattr(cases, "oc10", lambda tell: tell(0.5) or {"ratio": 1.0})
        claims._serve(pipe[1], cases.oc10, {})
    assert json.loads(pipe[0].recv_bytes()) == 0.5
    assert json.loads(pipe[0].recv_bytes())["ratio"] == 1.0
