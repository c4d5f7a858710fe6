"""Scripts follow the package: they import, what they name exists, and measurements run."""

from __future__ import annotations

import ast
import csv
import importlib
import inspect
import re
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from marda import MDA, MDAClassifierCV, datasets
from marda.benchmarks import published
from marda.benchmarks.plan import CLASSIFIERS, MODELS
from marda.estimators.self_training import train_on_features
from marda.selection.search import TARGET_CRITERIA
from repository_scripts import SCRIPTS, script

TINY = {"method": ["S1", "S1D"], "noise": [0.1, 0.9], "ridge_class": [1.0, 100.0]}


@pytest.mark.parametrize("name", sorted(path.name for path in SCRIPTS.glob("*.py")))
def test_what_a_script_names_of_the_package_exists(name):
    module = script(name)
    for node in ast.walk(ast.parse((SCRIPTS / name).read_text(encoding="utf-8"))):
        # Imports inside functions, too.
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("marda"):
            found = importlib.import_module(node.module)
            for one in node.names:
                assert hasattr(found, one.name), f"{node.module} has no {one.name}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = getattr(module, node.value.id, None)
            if isinstance(owner, ModuleType) and owner.__name__.startswith("marda"):
                assert hasattr(owner, node.attr), f"{owner.__name__} has no {node.attr}"


@pytest.fixture
def hindsight(monkeypatch):
    """The script on two generated domains of 60 rows, with 8 candidates."""
    module = script("hindsight.py")
    data = datasets.make_shift(n_source=60, n_target=60, n_features=8, n_classes=3, shift=0.5)
    monkeypatch.setattr(module, "GRID", [TINY])
    monkeypatch.setattr(datasets, "load", lambda name, path=None: data)
    return module


def stored(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def figures(row, *names):
    return [float(row[name]) for name in names]


def test_hindsight_of_criteria(hindsight, tmp_path, capsys):
    out = tmp_path / "criteria.csv"
    assert hindsight.main(["tiny", "--out", str(out)]) == 0
    rows = stored(out)
    assert [row["criterion"] for row in rows] == [*TARGET_CRITERIA] * 2
    assert {row["task"] for row in rows} == {"source-target", "target-source"}
    for row in rows:
        chosen, best, mean = figures(row, "accuracy", "best", "mean")
        assert 0 <= mean <= best <= 100
        assert chosen <= best
        assert 0 <= int(row["chosen"]) < 8
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["data", "criterion", "chosen", "best", "blind"]
    assert [line.split()[1] for line in lines[1:]] == [*TARGET_CRITERIA]
    chosen = np.mean([float(row["accuracy"]) for row in rows if row["criterion"] == "auto"])
    assert lines[-1].split()[:3] == ["tiny", "auto", f"{chosen:.2f}"]


def test_the_criteria_choose_what_a_search_chooses(hindsight):
    data = datasets.load("tiny")
    _, X, y, domain = hindsight.rows_of(data, "source", "target")
    for row in hindsight.criteria(data, "source", "target"):
        grid = {**TINY, "inputs": "unit"}
        model = MDAClassifierCV(grid, scoring=row["criterion"], calibrate=False, random_state=0)
        assert model.fit(X, y, sample_domain=domain).best_index_ == row["chosen"]


def test_finished_tasks_are_not_measured_again(hindsight, tmp_path, capsys):
    out = tmp_path / "criteria.csv"
    stands = ",".join(hindsight.FIELDS) + "\ntiny,source-target,auto,3,70,80,60\n"
    out.write_text(stands)
    assert hindsight.main(["tiny", "--tasks", "1", "--out", str(out)]) == 0
    assert out.read_text() == stands
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:]] == [["tiny", "auto", "70.00", "80.00", "60.00"]]


def test_a_second_run_appends_what_is_missing(hindsight, tmp_path):
    out = tmp_path / "criteria.csv"
    hindsight.main(["tiny", "--tasks", "1", "--out", str(out)])
    stands = out.read_text()
    hindsight.main(["tiny", "--out", str(out)])
    assert out.read_text().startswith(stands)
    wanted = [
        (task, name) for task in ("source-target", "target-source") for name in TARGET_CRITERIA
    ]
    assert [(row["task"], row["criterion"]) for row in stored(out)] == wanted


def test_a_run_that_was_stopped_in_its_first_task_goes_on(hindsight, tmp_path):
    out = tmp_path / "criteria.csv"
    out.write_text(",".join(hindsight.FIELDS) + "\n")
    hindsight.main(["tiny", "--tasks", "1", "--out", str(out)])
    assert [row["criterion"] for row in stored(out)] == [*TARGET_CRITERIA]


def test_classes_of_sentiment_count_alike(hindsight):
    data = datasets.load("tiny")
    truth, predicted = [0, 0, 0, 1], [0, 0, 0, 0]
    assert hindsight.accuracy(data, truth, predicted) == 75
    assert hindsight.accuracy(replace(data, name="sentiment-snippets"), truth, predicted) == 50


def test_expectations_are_collected_once_and_shown(tmp_path, capsys, monkeypatch):
    module = script("expectations.py")
    folder, out = tmp_path / "evidence", tmp_path / "expectations.csv"
    some = [module.TaskSpec("generated", name, "", "US") for name in ("shares .5>.1", "five rows")]
    monkeypatch.setattr(module, "tasks", lambda names, all_pairs: some)
    linear = module.models
    monkeypatch.setattr(module, "models", lambda X: list(linear(X))[:2])
    given = ["--folder", str(folder), "--out", str(out)]
    assert module.main(["collect", "generated", *given]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert module.main(["collect", "generated", *given]) == 0
    assert not capsys.readouterr().out  # nothing is missing
    assert module.main(["show", *given]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {row["task"]: row for row in stored(out)}
    assert set(rows) == {"shares .5>.1", "five rows"}
    for row in rows.values():
        low, ours, high, truth = figures(row, "low", "ours", "high", "truth")
        assert 0 <= low <= ours <= high <= 1
        assert low <= truth <= high
    assert rows["five rows"]["kind"] == "too few rows"
    assert rows["five rows"]["can_tell"] == "0"
    off = np.mean([abs(float(row["ours"]) - float(row["truth"])) for row in rows.values()])
    assert f"| ours | both | {100 * off:.1f} |" in "\n".join(lines)
    assert lines[-1].startswith("| generated | development | 2 |")


def test_pages_are_what_the_rows_on_record_give(tmp_path, capsys):
    tables = script("paper_tables.py")
    assert tables.main(["--check", "--out", str(tmp_path)]) == 0, capsys.readouterr().out
    names = {path.name for path in tmp_path.iterdir()}
    tables_of = {f"tables.{ending}" for ending in ("md", "csv", "tex")}
    assert names == tables_of | {"auto.md", "auto.tex", "rows.csv", "report.html"}
    assert (tmp_path / "auto.tex").read_text(encoding="utf-8").isascii()
    for row in tables.every_row():
        assert row.n_test
        assert row.commit
        assert row.versions
        assert row.machine


def test_the_table_of_benchmarks_is_what_the_rows_on_record_give():
    figures = script("make_figures.py")
    page = (figures.DOCS / "benchmarks.md").read_text(encoding="utf-8")
    for name, board in figures.boards().items():
        auto, plain = board.best("auto"), board.baseline
        task, worst = board.harm()[0]
        expected = [name, str(len(board.pairs)), f"{plain.mean:.1f}", f"**{auto.mean:.2f}**"]
        expected += [f"{worst:+.1f} ({task.replace('-', ' → ')})", f"{auto.best_member:.2f}"]
        expected += [f"{auto.ece / 100:.2f}", f"{auto.guess_error:.1f}"]
        assert f"| {' | '.join(expected)} |" in page.splitlines()


def test_halves_of_benchmarks_are_those_of_the_leaderboard():
    docs = script("make_figures.py").DOCS
    board = (docs / "tables" / "leaderboard.md").read_text(encoding="utf-8")
    names = {"generated": "generated shifts all", "digits": "changed digits all"}
    names |= {"tables": "tables all"}
    page = (docs / "benchmarks.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| (\w+) \| (development|report) \| (.*) \|$", page, re.MULTILINE)
    for name, half, line in found:
        tasks, auto, plain, falls, off, hold = line.split(" | ")
        row = f"| {names.get(name, f'SKADA-Bench {name}')} | {half} | {tasks} | {auto} | {plain} |"
        told = board[board.index(row) + len(row) :].splitlines()[0].split(" | ")
        assert [c.strip() for c in told[1:5:2]] == [falls, off.split(",")[0]]
        assert told[4].strip(" |") == hold
    assert len(found) == 12


def test_tables_of_the_reproduction_are_what_the_rows_on_record_give():
    """Models down; nn / dscm / ridge of the first draw in every cell, on text dscm / ridge."""
    tables = script("paper_tables.py")
    found = defaultdict(list)
    for row in tables.every_row():
        spec, task = row.spec, row.spec.task
        where = task.benchmark, task.setting, spec.model, spec.classifier
        stated = spec.settings, spec.variant, task.preprocessing, task.protocol, task.draw
        if stated == ("paper", "paper", "paper", "full", 0):
            found[where].append(row.accuracy)
    names = {"OC10": "oc10", "OFF31": "off31", "AMT": "amt"}
    wanted, compared = [], 0
    page = (tables.DOCS / "reproduction.md").read_text(encoding="utf-8")
    for line in page.splitlines():
        first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| "):
            wanted = []
        elif not first and cells[0].startswith("OC10") and len(cells) in (3, 6):
            wanted = [(names[c.split()[0].strip(",")], c.split()[1].strip(",")) for c in cells]
            wanted = [(name, s if s in ("SUP", "SS") else "US") for name, s in wanted]
        elif wanted and first in {where[2] for where in found}:
            for (name, setting), cell in zip(wanted, cells, strict=True):
                kinds = ("nn", "dscm", "ridge")[-len(cell.split(" / ")) :]
                means = [np.mean(found[name, setting, first, kind]) for kind in kinds]
                assert cell == " / ".join(f"{mean:.1f}" for mean in means), (first, name, setting)
                compared += 1
    assert compared == 8 * 3 + 7 * 6


def lines_of(page, heading):
    """Of the table below a heading: cells by the label of their line; "" has the header."""
    below = page.partition(f"### {heading}")[2].partition("\n\n")[2].partition("\n\n")[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in below.splitlines()]
    return {label: cells for label, *cells in lines}


def test_every_figure_of_the_paper_stands_beside_ours_with_the_difference():
    folder = script("paper_tables.py").DOCS / "tables"
    names = ("us", "sup", "ss", "off31", "surf")
    pages = {name: (folder / f"{name}.md").read_text(encoding="utf-8") for name in names}
    pages = {name: re.sub(r"\*\*|</?u>", "", page) for name, page in pages.items()}
    data = {"oc10": "OC10 (SqueezeNet", "off31": "OFF31 (SqueezeNet", "amt": "AMT"}
    asked = [(t, name, data[name], m, c) for t in names[:3] for name in data for m in MODELS
             for c in CLASSIFIERS]  # fmt: skip
    asked.append(("surf", None, "OC10 (SURF", "J12C", "dscm"))
    compared = 0
    for table, name, heading, model, kind in asked:
        figure = published.paper_figure(table, name, model, kind)
        if figure is None:
            continue
        lines = lines_of(pages[table], heading)
        place = lines[""].index(kind)
        ours = float(re.match(r"[\d.]+", lines[model][place])[0])
        gap = f"{round(ours - figure, 1) + 0:+.1f}".replace("-", "−").replace("+0.0", "0.0")
        assert lines[""][place + 1] == "paper"
        assert lines[model][place + 1] == f"{figure:.1f} ({gap})", (table, heading, model, kind)
        compared += 1
    assert compared == 35 + 49 + 49 + 1
    page = pages["off31"].splitlines()
    for (model, kind), figures in published.OFF31_PRINTED.items():
        at = next(i for i, line in enumerate(page) if line.startswith(f"| {model}+{kind} |"))
        ours, theirs, gaps = ([c.strip() for c in line.split("|")[2:-1]] for line in page[at:][:3])
        assert theirs == [f"{figure:.1f}" for figure in figures]
        for mine, figure, gap in zip(ours, figures, gaps, strict=True):
            assert gap.replace("−", "-") == f"{float(mine) - figure:+.1f}"
    quoted = {**published.OC10_QUOTED, **published.AMT_QUOTED}
    for name, figure in quoted.items():
        heading = "AMT" if name in published.AMT_QUOTED else "OC10 (SqueezeNet"
        told = lines_of(pages["us"], heading)[f"{name} (quoted)"][-1]
        assert told == ("none" if figure is None else f"{figure:.1f}")


def test_readings_of_the_paper_on_amt():
    lines = list(script("paper_tables.py").amt_readings(script("paper_tables.py").every_row()))
    at = {name: lines.index(f"## {name}\n") for name in ("US", "SS", "SUP")}
    tables = {name: [line.split(" | ") for line in lines[i + 3 :]] for name, i in at.items()}
    first = {name: cells[1] for name, cells in tables.items()}
    assert [cell.strip("| ") for cell in first["US"][:3]] == ["test", "log", "ridge, δ = 10"]
    # The largest distance from the paper of S1 and S1D, and of all five.
    assert max(abs(float(first["US"][4]) - 81.6), abs(float(first["US"][5]) - 82.2)) <= 0.5
    assert float(first["US"][-1].strip("| ")) <= 0.4
    assert float(first["SS"][-1].strip("| ")) <= 0.5
    stated = [c for c in tables["US"] if [w.strip("| ") for w in c[:2]] == ["train", "plain"]]
    assert stated[0][2:7] == ["marginalised, δ = 1", "77.4", "78.4", "78.8", "74.5"]


def test_split_tables(tmp_path, monkeypatch, capsys):
    """Both directions; neither the label, nor what it is split by, nor its twins are columns."""
    module, rng = script("split_tables.py"), np.random.default_rng(0)
    y = rng.integers(2, size=300)
    made = pd.DataFrame(
        {"y": y + 1.0, "twin": y, "sex": np.where(rng.random(300) < 0.5, "m", "f")}
        | {"a": rng.normal(3 * y, 1), "word": rng.choice(["p", "q"], 300), "gaps": np.nan}
    )
    made.loc[5:, "gaps"] = 1.0
    monkeypatch.setattr(module, "SPLITS", {"made": module.Split("y > 1.5", "sex == 'm'", "twin")})
    monkeypatch.setattr(module, "find", lambda name: made)
    out = tmp_path / "out.csv"
    module.main(["--out", str(out)])
    rows = stored(out)
    assert [row["kind"] for row in rows] == ["report 0", "report 1"]
    assert [row["columns"] for row in rows] == ["4", "4"]  # a, gaps and two words
    assert rows[0]["source_rows"] == rows[1]["target_rows"] == str((made.sex == "m").sum())
    assert all(85 < float(row[name]) < 99 for row in rows for name in ("default", "folds"))
    module.main(["--out", str(out), "--table"])
    assert "| report | 2 |" in capsys.readouterr().out


def test_unseen_tables(tmp_path, monkeypatch, capsys):
    """A table of words, gaps and a rare class is read, cut, measured once, and summed up."""
    module, rng = script("unseen_tables.py"), np.random.default_rng(0)
    y = rng.integers(2, size=300)
    numbers = rng.normal(y[:, None], 1, (300, 2))
    lines = [f"{a:.3f}, {b:.3f}, {'<ab'[k]}, c{k}" for (a, b), k in zip(numbers, y, strict=True)]
    lines += ["1, ?, a, c0", "1, 1, a, rare", "", "@data"]
    (tmp_path / "made.dat").write_text("\n".join(lines))
    X, classes = module.read(tmp_path / "made.dat")
    assert X.shape == (300, 4)
    np.testing.assert_allclose(X[:, :2], numbers, atol=1e-3)
    np.testing.assert_array_equal(X[:, 2:], np.eye(2)[y])
    np.testing.assert_array_equal(classes, y)
    kinds = {}
    for kind, source, target, Xt in module.cuts(X, classes, rng):
        assert not set(source) & set(target)
        kinds[kind] = classes[target].mean(), Xt[:, 0].std() / X[target, 0].std()
    assert set(kinds) == {"none", "by column 0", "by column 1", "shares", "moved"}
    assert abs(kinds["shares"][0] - 0.5) > 0.2  # of four rows of the larger class one is left
    monkeypatch.setattr(module, "cuts", lambda X, y, rng: [*_two_cuts(X, y)])
    monkeypatch.setattr(
        "sys.argv", ["x", "--folder", str(tmp_path), "--out", str(tmp_path / "out.csv")]
    )
    module.main()
    rows = stored(tmp_path / "out.csv")
    assert [row["kind"] for row in rows] == ["none", "moved"]
    for row in rows:
        assert 55 < float(row["default"]) <= 100
        assert row["folds"] == row[row["folds_choose"]]
        assert float(row["low"]) <= float(row["expected"]) <= float(row["high"])
    module.main()  # nothing is measured again
    assert stored(tmp_path / "out.csv") == rows
    told = capsys.readouterr().out
    assert told.count("made done") == 1
    assert "| all | 2 |" in told


def _two_cuts(X, y):
    rows = np.arange(len(y))
    yield "none", rows[:80], rows[80:160], X[80:160]
    yield "moved", rows[:80], rows[80:160], X[80:160] + 0.5


def test_unseen_texts(tmp_path, monkeypatch, capsys):
    """What modules define is found and told apart; every task is measured once."""
    module = script("unseen_texts.py")
    monkeypatch.setattr(module, "MAX_TEXTS", 10**5)
    found = module.docstrings("marda.estimators")
    for kind, thing in (("class", MDA), ("function", train_on_features), ("method", MDA.transform)):
        assert (kind, inspect.getdoc(thing)[: module.LENGTH]) in found
    rng, texts = np.random.default_rng(0), {}
    for name in ("one", "two"):
        texts[name] = []
        for k, kind in enumerate(("class", "function", "method") * 40):
            first = 8 * (k % 3) + (name == "two")
            texts[name].append(
                (kind, " ".join(f"word{w}" for w in rng.integers(first, first + 12, 15)))
            )
    monkeypatch.setattr(module, "TEXTS", tmp_path / "texts.json")
    monkeypatch.setattr(module, "LIBRARIES", ("one", "two"))
    with pytest.raises(SystemExit, match="Not installed: one, two"):
        module.read_texts()
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(module, "docstrings", texts.get)
    monkeypatch.setattr(module, "ProcessPoolExecutor", ThreadPoolExecutor)
    monkeypatch.setattr("sys.argv", ["x", "--jobs", "1", "--out", str(tmp_path / "out.csv")])
    module.main()
    rows = stored(tmp_path / "out.csv")
    assert {row["data"] for row in rows} == {"one > two", "two > one"}
    assert {row["classes"] for row in rows} == {"2", "3"}
    assert all(float(row["default"]) > 70 for row in rows)
    module.main()  # nothing is measured again
    assert stored(tmp_path / "out.csv") == rows
    told = capsys.readouterr().out
    assert told.count(" done") == 2
    assert "| all | 2 |" in told


def test_ratios_of_gains_have_intervals_over_tasks():
    ratio = script("labelling.py").ratio
    assert ratio(np.array([[1.0, 2.0], [2.0, 4.0]])) == ("2.00", "2.00 to 2.00")
    assert ratio(np.array([[-1.0, 2.0], [0.0, 4.0]])) == ("–", "–")
    told, interval = ratio(np.array([[-1.0, 2.0], [2.0, 3.0]]))
    assert (told, interval) == ("5.00", "over 1.50")


def test_what_all_costs_counts_every_run_once():
    tables = script("paper_tables.py")
    rows = tables.every_row()
    header, *pieces, whole = tables.costs(rows)
    runs, on_record = (header.index(name) for name in ("runs", "on record"))
    assert sum(int(line[runs]) for line in pieces) == int(whole[runs])
    done = {row.spec.key for row in rows}
    assert int(whole[on_record]) <= len(done)
    by_name = {line[0]: line for line in pieces}
    # Two of the four domains are there: 2 tasks × (8 + 10 + 10 models) × 3 classifiers.
    assert by_name["paper all oc10-decaf6"][runs] == "168"
    # With one draw the tables US and OFF31 of OFF31 are the same runs.
    assert by_name["paper all off31"][runs] == "504"
    assert float(whole[-1]) < 300  # two cores have 360 minutes in three hours
    # What a GPU did says nothing of cores.
    fast = [replace(row, versions={"torch": "2"}, fit_seconds=0.0) for row in rows]
    assert tables.costs([*rows, *fast]) == [header, *pieces, whole]
