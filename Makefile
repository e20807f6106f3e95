# cannlab: everything runs in .venv, made from requirements.lock.
#   make demo      the main job, without a browser
#   make test      the tests (what CI runs)      make test-all   every gate
#   make lab       JupyterLab at the first lesson
# PYTHON=python3.12 chooses the interpreter; TORCH_INDEX=URL takes torch from another index (a CPU build, say).

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= 2
# One long test for each lesson: spread over the processes, unlike the other files.
GATES := tests/course/test_course_gates.py
export OMP_NUM_THREADS ?= 1

.PHONY: setup demo test test-all lab lint bench lock clean

setup: $(READY)

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "cannlab needs Python 3.11, 3.12 or 3.13: install one, or say make PYTHON=/path/to/python"; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON) (some minutes the first time)"
	$(PYTHON) -m venv $(VENV)
	$(if $(TORCH_INDEX),$(BIN)/python -m pip install --quiet --index-url $(TORCH_INDEX) "$$(grep '^torch==' requirements.lock)")
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

demo: $(READY)
	$(BIN)/cannlab demo

lab: $(READY)
	$(BIN)/cannlab lab

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(READY) lint
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "not slow and not browser" -p no:benchmark --ignore $(GATES) tests
	$(BIN)/python -m pytest -n $(JOBS) --dist load -m "not slow and not browser" -p no:benchmark $(GATES)

test-all: test
	$(BIN)/python -m pytest -n $(JOBS) --dist load -m "slow" -p no:benchmark $(GATES)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -p no:benchmark --nbval --nbval-cell-timeout 60 --nbval-sanitize-with tests/nbval_sanitize.cfg notebooks
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "slow or browser" -p no:benchmark --ignore $(GATES) tests

bench: $(READY)
	$(BIN)/python -m pytest benchmarks -p no:xdist --benchmark-only

lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet "torch==2.13.0"
	build/lock/bin/python -m pip install --quiet -e ".[dev]"
	{ head -2 requirements.lock; build/lock/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//'; } > requirements.lock.new
	mv requirements.lock.new requirements.lock

clean:
	rm -rf $(VENV) build dist demo-out
