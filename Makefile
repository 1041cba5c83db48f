# Every target sets up its environment: only Python 3.11+ and make are needed.
PYTHON ?= $(shell for p in python3 python python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test test-all test-fast fuzz lint format bench reproduction gallery docs clean help

help:  ## List the targets
	@grep -E "^[a-z-]+:.*##" $(MAKEFILE_LIST) | sed -E "s/:.*## /\t/" | expand -t 14

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

demo: $(READY)  ## Predict simulated patients, then compare the paper's NP and NDP; results go to demo/
	$(BIN)/python examples/demo.py

test: $(READY)  ## Run the tests
	$(BIN)/python -m pytest -m 'not long'

test-all: $(READY)  ## Run all tests, including those that compile for minutes
	$(BIN)/python -m pytest

test-fast: $(READY)  ## Run the fast tests
	$(BIN)/python -m pytest -m 'not slow and not long'

fuzz: $(READY)  ## Run damaged files, hostile requests, kills and full disks in large numbers; figures go to results/fuzz.json
	PYTHONPATH=tests $(BIN)/python -m fuzzing $(FUZZ)

lint: $(READY)  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(READY)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## Run the benchmarks; the figures go to results/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/streams_and_server.py
	$(BIN)/python benchmarks/playground_latency.py

reproduction: $(READY)  ## Run the paper's experiments; the records go to results/, the page to docs/
	$(BIN)/odeprocess reproduce all --out results
	$(BIN)/odeprocess report results --to docs

gallery: $(READY)  ## Run the worked examples; their pictures and figures go to docs/gallery/ and results/
	for name in theophylline chick_growth hare_lynx brusselator measles handwriting; do $(BIN)/python examples/$$name.py || exit 1; done

docs: $(READY)  ## Build the documentation in build/site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:  ## Remove the environment and everything that was built
	rm -rf $(VENV) demo .cache .pytest_cache .ruff_cache build dist
