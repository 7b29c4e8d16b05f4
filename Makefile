# make demo   train a small network with the monitor on
# make test   everything that must hold before a change is done
# Both set up their own virtual environment, .venv, on a bare machine with Python 3.11 or newer.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo test lint types test-core test-tensorflow test-jax test-torch test-faults benchmark clean

demo: $(READY)
	KERAS_BACKEND=$${KERAS_BACKEND:-jax} TF_ENABLE_ONEDNN_OPTS=0 $(BIN)/python examples/demo.py

test: lint types test-core test-tensorflow test-jax test-torch

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# All but the tests of capture in Keras's fit ...
test-core: $(READY)
	KERAS_BACKEND=jax $(BIN)/python -m pytest -q -n auto --ignore=tests/keras

# ... which run once on each of its backends.
test-tensorflow test-jax test-torch: test-%: $(READY)
	KERAS_BACKEND=$* $(BIN)/python -m pytest -q -n auto tests/keras

# The faults of tests/faults as often as promised, not the few of `make test`; half an hour.
test-faults: $(READY)
	GRADWATCH_FAULTS=full KERAS_BACKEND=jax $(BIN)/python -m pytest -q -n auto -rP tests/faults

benchmark: $(READY)
	$(BIN)/python benchmarks/overhead.py

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	# It asks for a package "tensorflow", which the CPU build is not.
	$(BIN)/python -m pip install --quiet --no-deps 'tf_keras==2.21.*'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
