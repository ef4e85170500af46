# `make demo` and `make test` are all that a newcomer needs; each makes its own virtual environment.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
INPUTS ?= 34000
SEED ?= 1
# A Python beside PyTorch, for `make test-torch`.
TORCH_PYTHON ?= $(BIN)/python

.PHONY: help demo test test-all test-lowest test-browser test-torch fuzz check format docs accuracy golden benchmark site coverage clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

$(VENV)/.test: $(VENV)/.run evidence/pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[test]' -e evidence
	@touch $@

demo: $(VENV)/.run  ## answer the example scenario
	$(BIN)/roofsim run gpt.yaml --gpu a100

test: $(VENV)/.test  ## run lint, types of the package and of the tests, import rules and the test suite
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -n auto
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-all: $(VENV)/.test  ## run everything, long suites too
	$(BIN)/python -m pytest

test-lowest:  ## run a part of the test suite with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-lowest/bin/python tests/packaging/lowest.py > $(VENV)-lowest/lowest.txt
	$(VENV)-lowest/bin/python -m pip install --quiet -r $(VENV)-lowest/lowest.txt
	$(VENV)-lowest/bin/python -m pytest -m "not slow" tests/cli tests/spec tests/importers tests/graph tests/architecture tests/fuzz \
		tests/serve/test_serving.py tests/schedule/test_simulation.py tests/calibrate/test_kernels.py

test-browser: $(VENV)/.test  ## open reports in a Chromium that is installed (CHROMIUM=/usr/bin/chromium names it)
	$(BIN)/python -m pip install --quiet -e '.[browser]'
	$(BIN)/python -m pytest -m browser tests/browser

test-torch:  ## capture and export models anew and compare with the kept files (TORCH_PYTHON=/path/to/torch-env/bin/python names the Python)
	$(TORCH_PYTHON) -m pytest -m torch tests/with_torch tests/calibrate

fuzz: $(VENV)/.test  ## throw 34,000 inputs at every door (half an hour; INPUTS=1000 SEED=2 for others)
	$(BIN)/python -m tests.fuzz --inputs $(INPUTS) --seed $(SEED)

check: $(VENV)/.test  ## the fast half of `make test`: lint, format, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -n auto
	$(BIN)/lint-imports

format: $(VENV)/.test  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.test  ## write again what is generated: outputs of the examples in README and docs, tables of ARCHITECTURE
	$(BIN)/evidence page exactness steps
	$(BIN)/python -m tests.documents --write
	$(BIN)/python -m tests.architecture.rooms --write

site: $(VENV)/.run  ## build documentation and page as one site in build/site (WHEELS=DIR: compiled packages to serve with it)
	$(BIN)/python -m pip install --quiet -e '.[docs,serve,web]'
	$(BIN)/mkdocs build --strict --site-dir build/site
	$(BIN)/python -m roofsim.web.bundle build/site/app --docs ../ --npm $(if $(WHEELS),--wheels $(WHEELS))

coverage: $(VENV)/.test  ## measure which lines the tests run; less than the floor in pyproject.toml fails
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" --cov=roofsim --cov-report=term:skip-covered

accuracy: $(VENV)/.test  ## score all published measurements again and write their pages (half an hour)
	$(BIN)/evidence page --all
	$(BIN)/evidence summary

golden: $(VENV)/.test  ## write the golden files anew; read the difference before you commit it
	$(BIN)/python -m tests.golden --write
	$(BIN)/python -m pytest tests -k golden --update-golden

benchmark: $(VENV)/.test  ## measure speed as ratios and counts
	$(BIN)/python benchmarks/run_all.py

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
