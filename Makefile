# Every target creates and uses .venv by itself; nothing else is needed than Python 3.11+.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# The data-heavy tests run where the benchmark data are (MARDA_DATA, else ../shared/data).
MARDA_DATA ?= $(abspath $(wildcard ../shared/data))
export MARDA_DATA
# One BLAS thread a test process: two processes on two cores do not fight.
TEST_ENV := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

.PHONY: demo test lint types imports slow test-min bench torture torture-short mutants docs clean

$(VENV)/.core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e '.[cli,report]'
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(BIN)/python -m pip install --quiet -e '.[test,peers]'
	touch $@

$(VENV)/.dev: $(VENV)/.test
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

demo: $(VENV)/.core  ## run the main job on embedded data
	$(BIN)/marda demo

test: $(VENV)/.test  ## the default test suite
	$(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS)

slow: $(VENV)/.test  ## the slow, data and browser tests
	$(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) -m 'slow or data or browser'
	# scikit-learn's checks of other arrays run only where SciPy was told of them when it was loaded.
	SCIPY_ARRAY_API=1 $(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) -k array_api

test-min:  ## the default suite against the oldest supported dependencies
	$(MAKE) VENV=.venv-min .venv-min/.oldest
	$(TEST_ENV) .venv-min/bin/python -m pytest -n $(WORKERS)

.venv-min/.oldest: pyproject.toml constraints-min.txt
	$(PYTHON) -m venv .venv-min
	.venv-min/bin/python -m pip install --quiet -c constraints-min.txt -e '.[cli,report]' \
		pytest pytest-xdist hypothesis pandas threadpoolctl python-flint
	touch $@

lint: $(VENV)/.dev  ## ruff, strict types, layer order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test  ## speed ratios in one run; writes docs/performance.md
	$(BIN)/python -m marda.bench

torture: $(VENV)/.test  ## everything that was tried to break it, and what happened (minutes)
	$(TEST_ENV) $(BIN)/python -m scripts.torture

torture-short: $(VENV)/.test  ## the same, as much as CI has time for
	$(TEST_ENV) $(BIN)/python -m scripts.torture --short

mutants: $(VENV)/.test  ## small wrong changes to the core, and whether a test notices (an hour)
	nice -n 15 $(BIN)/python -m scripts.mutants --workers $(WORKERS)

docs: $(VENV)/.dev  ## the documentation, into docs/_build/html
	$(BIN)/sphinx-build -W -q -b html docs docs/_build/html

clean:
	rm -rf $(VENV) .venv-min build dist docs/_build
