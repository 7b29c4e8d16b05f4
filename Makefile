# make demo   train a small network with the monitor on, and write a report of it
# make docs   build the documentation into build/site
# make test   everything that must hold before a change is done
# Each sets up a virtual environment of its own, with uv where it is installed, on a bare machine
# with Python 3.11 or newer. The viewer's front end is built with Node.js 20 or newer.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# npm writes its own note of what it has installed; the page is what Vite writes last.
MODULES := viewer/node_modules/.package-lock.json
STATIC := src/gradwatch/view/static/index.html
VIEWER := $(shell find viewer/src viewer/index.html viewer/*.json viewer/*.ts -type f)
HAS_NODE := node --eval 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null
# The demo's own: the product, Keras and one backend.
BACKEND := $(or $(KERAS_BACKEND),jax)
DEMO := .venv-demo
DEMO_READY := $(DEMO)/.ready-$(BACKEND)
DEMO_NEEDS := --editable '.[$(BACKEND),view]'
DOCS := .venv-docs
DOCS_READY := $(DOCS)/.ready
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo demo-viewer docs test test-all viewer browser lint types test-viewer test-core test-tensorflow test-jax test-torch
.PHONY: test-distributed test-faults test-twins benchmark screenshots dist clean test-versions test-lowest test-newest

demo: $(DEMO_READY) demo-viewer
	@KERAS_BACKEND=$(BACKEND) TF_ENABLE_ONEDNN_OPTS=0 $(DEMO)/bin/gradwatch demo --directory . --no-view

# Where there is no Node.js, the demo goes without what it would build.
demo-viewer:
	@if $(HAS_NODE); then $(MAKE) --no-print-directory viewer; \
	elif ! test -f $(STATIC); then echo "Node.js 20 or newer (https://nodejs.org) is not installed:" \
	  "the demo goes without the viewer and the report, which are built with it."; fi

# `$(call install,DIRECTORY,WHAT)`: with uv where it is, with pip where not.
install = set -e; if command -v uv >/dev/null; then \
	  test -x $(1)/bin/python || uv venv --quiet --python $(PYTHON) $(1); \
	  uv pip install --quiet --python $(1)/bin/python $(2); \
	else \
	  test -x $(1)/bin/python || $(PYTHON) -m venv $(1); \
	  $(1)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check $(2); \
	fi

$(DEMO_READY): pyproject.toml
	@echo "Installing gradwatch, Keras and $(BACKEND) into $(DEMO) ..."
	@$(call install,$(DEMO),$(DEMO_NEEDS))
	@touch $@

docs: $(DOCS_READY)
	@$(DOCS)/bin/python -m website.build

$(DOCS_READY): pyproject.toml
	@echo "Installing gradwatch and what builds its documentation into $(DOCS) ..."
	@$(call install,$(DOCS),--editable '.[docs]')
	@touch $@

test: lint types docs test-viewer test-core test-tensorflow test-jax test-torch test-distributed

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(READY)
	$(BIN)/mypy

test-viewer: $(MODULES)
	cd viewer && npm run --silent check && npm test --silent

# Debian's, for the tests of the viewer; installed where that is permitted.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
	  as_root=$$(test "$$(id -u)" = 0 || echo "sudo -n"); \
	  echo "Installing Chromium, in which the viewer is tested."; \
	  { $$as_root apt-get install -qq -y chromium || { $$as_root apt-get update -qq && \
	    $$as_root apt-get install -qq -y chromium; }; } >/dev/null 2>&1 || \
	    echo "It could not be installed: the viewer's tests will fail without it." >&2; }

# `make test-all` runs the slow tests too, and every test of Keras on every backend.
PYTEST = $(BIN)/python -m pytest -q -n auto --dist worksteal $(if $(ALL),,-m "not slow")
test-all:
	GRADWATCH_TESTS=full $(MAKE) test ALL=1

# All but the tests of capture in Keras's fit. Many wait for threads and processes, so more run
# at a time than there are cores. On torch, which compiles nothing ...
test-core: $(READY) $(STATIC) browser
	KERAS_BACKEND=torch $(PYTEST) -n 4 --ignore=tests/keras --ignore=tests/distributed

# ... which run once on each of its backends.
test-tensorflow test-jax test-torch: test-%: $(READY)
	KERAS_BACKEND=$* $(PYTEST) tests/keras

# Training in several processes and on several devices, some minutes; all of it with
# GRADWATCH_DISTRIBUTED=full. Two at a time: each starts processes of its own.
test-distributed: $(READY)
	KERAS_BACKEND=jax $(PYTEST) -n 2 --dist loadfile tests/distributed

# A thousand random trainings on each backend, bare and under a monitor, not the few of `make test`:
# some hours. Fewer with TWINS=100.
TWINS ?= 1000
test-twins: $(READY)
	for backend in tensorflow jax torch; do \
	  GRADWATCH_TWINS=$(TWINS) KERAS_BACKEND=$$backend $(BIN)/python -m pytest -q -n auto \
	    --dist worksteal tests/keras/twins || exit 1; done

# Tests on the lowest versions that pyproject.toml allows, and on the newest, each in an environment
# of its own: Keras's on one backend, its recipes among them, and the core suite. Needs uv, and some
# GB, as torch brings CUDA. Other backends with VERSION_BACKENDS="jax torch", all tests on all
# backends with VERSIONS=full, in hours. docs/versions.md has what was run.
LOWEST_PYTHON ?= 3.11
NEWEST_PYTHON ?= 3.13
test-versions: test-lowest test-newest
test-lowest: $(STATIC) browser
	tests/versions.sh lowest-direct "$(LOWEST_PYTHON)"
test-newest: $(STATIC) browser
	tests/versions.sh highest "$(NEWEST_PYTHON)"

# The faults of tests/faults as often as promised, not the few of `make test`; half an hour.
test-faults: $(READY)
	GRADWATCH_FAULTS=full KERAS_BACKEND=jax $(BIN)/python -m pytest -q -n auto -rP tests/faults

benchmark: $(READY)
	$(BIN)/python benchmarks/overhead.py

# The pictures of the README, from the run of `make demo`.
screenshots: $(READY) demo
	$(BIN)/python examples/screenshots.py

# The wheel and the sdist into dist, built twice from nothing but the sources: the bytes must agree.
DIST := .venv-dist
dist:
	@$(call install,$(DIST),'hatchling>=1.28' twine check-wheel-contents 'validate-pyproject[all]')
	@rm -rf dist build/dist
	@for place in build/dist dist; do \
	  rm -rf src/gradwatch/view/static viewer/licenses viewer/gradwatch.cdx.json; \
	  $(DIST)/bin/python -m hatchling build -d $$place >/dev/null || exit 1; done
	diff --recursive build/dist dist
	$(DIST)/bin/twine check --strict dist/*
	$(DIST)/bin/check-wheel-contents dist/*.whl
	$(DIST)/bin/validate-pyproject pyproject.toml

viewer: $(STATIC)

$(MODULES): viewer/package-lock.json
	@$(HAS_NODE) || { \
	  echo "The viewer is built with Node.js 20 or newer and npm, which are not installed." \
	    "Install them (https://nodejs.org) and run make again." >&2; exit 1; }
	@echo "Installing what the viewer is built with ..."
	@cd viewer && npm ci --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

$(STATIC): $(MODULES) $(VIEWER)
	@echo "Building the viewer ..."
	@cd viewer && npm run --silent build -- --logLevel=warn
	@touch $@

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	# It asks for a package "tensorflow", which the CPU build is not.
	$(BIN)/python -m pip install --quiet --no-deps 'tf_keras==2.21.*'
	touch $@

clean:
	rm -rf $(VENV) .venv-* build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf viewer/node_modules viewer/licenses viewer/gradwatch.cdx.json src/gradwatch/view/static dist
