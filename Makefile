# make run    set up what the demo needs and run it
# make test   set up the rest and run the tests
# make check  style, formatting, types
# make docs   build the site into site/
# make bench  measure the core beside its peers
# make clean  remove what the above made

PYTHON ?= python3
WORKERS ?= 2

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Real data sets for the tests that want them; such tests are skipped where there are none.
ifneq ($(wildcard ../shared/data),)
export REGARD_DATA ?= $(abspath ../shared/data)
endif

.PHONY: run test check docs bench clean
.DELETE_ON_ERROR:

run: .venv/.demo
	$(BIN)/regard demo

test: .venv/.test
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

check: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/.test
	$(BIN)/regard bench core

clean:
	rm -rf .venv site regard-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis

# A stamp in .venv says which extras are installed; it is redone when the requirements change.
.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.demo: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing Regard and what the demo needs into .venv (once; a few minutes, PyTorch is large) ..."
	$(PIP) -e '.[demo]'
	@touch $@

.venv/.test: .venv/.demo
	@echo "Installing what the tests need ..."
	$(PIP) -e '.[demo,test]'
	@touch $@

.venv/.dev: .venv/.test
	$(PIP) -e '.[demo,test,dev]'
	@touch $@

.venv/.docs: .venv/.demo
	$(PIP) -e '.[demo,docs]'
	@touch $@
