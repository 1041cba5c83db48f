# Every target sets itself up: Python 3.11+ and make are all that is needed.
PYTHON ?= $(shell for p in python3 python python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test test-all test-fast fuzz lint format bench reproduction gallery docs clean help

help:  ## What there is
	@grep -E "^[a-z-]+:.*##" $(MAKEFILE_LIST) | sed -E "s/:.*## /\t/" | expand -t 14

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

demo: $(READY)  ## Train an NP and an NDP on sines; pictures, numbers and a model go to demo/
	$(BIN)/python examples/demo.py

test: $(READY)  ## The tests
	$(BIN)/python -m pytest -m 'not long'

test-all: $(READY)  ## The tests, and those that compile for minutes to rehearse one more of something
	$(BIN)/python -m pytest

test-fast: $(READY)  ## The tests that do not take long
	$(BIN)/python -m pytest -m 'not slow and not long'

fuzz: $(READY)  ## Damaged files, hostile requests, kills, full disks, in large numbers; figures go to results/fuzz.json
	PYTHONPATH=tests $(BIN)/python -m fuzzing $(FUZZ)

lint: $(READY)  ## Style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(READY)  ## Bring the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## Measure; the figures go to results/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/streams_and_server.py
	$(BIN)/python benchmarks/playground_latency.py

reproduction: $(READY)  ## The paper's experiments; the records go to results/, the page to docs/
	$(BIN)/odeprocess reproduce all --out results
	$(BIN)/odeprocess report results --to docs

gallery: $(READY)  ## The worked examples; their pictures and figures go to docs/gallery/ and results/
	for name in theophylline chick_growth hare_lynx brusselator measles handwriting; do $(BIN)/python examples/$$name.py || exit 1; done

docs: $(READY)  ## The pages, to build/site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:  ## Remove the environment and everything made
	rm -rf $(VENV) demo .cache .pytest_cache .ruff_cache build dist
