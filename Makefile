# Two commands do everything from a bare python3: `make quickstart` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CORE_TESTS := $(addprefix tests/,io nn models tasks tables training inference export cli)
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: quickstart docs test test-browser test-botorch test-ray test-newest fuzz chaos mutants lint format clean

quickstart: $(VENV)/installed
	@echo "Training a small CNP on curves of a Gaussian process, to show how a run goes:"
	@rm -rf runs/quickstart
	@$(BIN)/mpnp train --model cnp --task rbf --recipe quick --steps 300 --out runs/quickstart
	@echo; echo "Scoring an MPANP that was trained longer, beside the exact Gaussian process:"
	@$(BIN)/mpnp evaluate mpanp-rbf --num-tasks 512 --num-samples 10 --out runs/quickstart/mpanp-scores.json
	@$(BIN)/mpnp plot mpanp-rbf --num-samples 10 --out quickstart.png

test: lint
	@$(BIN)/python -m pytest -n 2 --dist loadfile
# The suite compiles without optimisation; the laws of the models must also hold as users compile them.
	@XLA_FLAGS= $(BIN)/python -m pytest -n 2 tests/models/test_contract.py -k 'mpnp or canp'

# The documentation site, in build/site. It stops at any warning, and at links that lead nowhere.
docs: $(VENV)/installed-docs
	@$(BIN)/python docs/build.py

# Ray is an extra of 240 MB, so its test has a target of its own; 'make test' skips it.
test-ray: $(VENV)/installed-dev
	@$(PIP) install --constraint constraints.txt --editable '.[ray]'
	@$(BIN)/python -m pytest tests/reproduce/test_executor.py

test-botorch: $(VENV)/installed-botorch
	@$(BIN)/python -m pytest tests/integrations/test_botorch.py

# The page in headless Chromium, installed as Debian packages if it is missing; 'make test' skips these tests then.
test-browser: $(VENV)/installed-dev
	@command -v chromium chromedriver > /dev/null || (apt-get -qq update && apt-get -qq install -y chromium chromium-driver > /dev/null)
	@$(BIN)/python -m pytest tests/explore/test_browser.py

# Without pinned versions, in an environment of its own: what breaks first when dependencies move.
test-newest: NEWEST := .venv-newest
test-newest:
	@echo "Testing with the newest versions in $(NEWEST) ..."
	@$(PYTHON) -m venv --clear $(NEWEST)
	@$(NEWEST)/bin/python -m pip --quiet --disable-pip-version-check install --editable '.[dev]'
	@$(NEWEST)/bin/python -m pytest -n 2 --dist loadfile $(CORE_TESTS)

# These three end with a line that says how much was tried and what failed, and stop after MINUTES; that line then says where
# to go on (FIRST or SEED).

# Ten thousand random inputs. A failing case prints the seed that replays it.
fuzz: CASES := 10000
fuzz: MINUTES := 60
fuzz: FIRST := 0
fuzz: $(VENV)/installed-dev
	@$(BIN)/python benchmarks/fuzz.py --cases $(CASES) --minutes $(MINUTES) --first $(FIRST)

# A hundred kills at seeded random moments; every case must end like a run that nothing disturbed. ONLY names some workloads.
chaos: KILLS := 100
chaos: MINUTES := 60
chaos: SEED := 0
chaos: ONLY :=
chaos: $(VENV)/installed
	@$(BIN)/python benchmarks/chaos.py --kills $(KILLS) --minutes $(MINUTES) --seed $(SEED) $(if $(ONLY),--only $(ONLY))

# Seeded mistakes in a copy of the numerical core, each of which its tests must see. ONLY names some of them.
mutants: MINUTES := 60
mutants: FIRST :=
mutants: ONLY :=
mutants: $(VENV)/installed-dev
	@$(BIN)/python benchmarks/mutants.py --minutes $(MINUTES) $(if $(FIRST),--first $(FIRST)) $(if $(ONLY),--only $(ONLY))

lint: $(VENV)/installed-dev
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/basedpyright --level error
	@$(BIN)/lint-imports --no-logo > /dev/null || $(BIN)/lint-imports --no-logo

format: $(VENV)/installed-dev
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

$(VENV)/bin/python:
	@echo "Creating the environment in $(VENV) ..."
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info < (3, 14); sys.exit(None if ok else "mpnp needs Python 3.11 to 3.13, this is " + sys.version.split()[0] + "; pass PYTHON=/path/to/python")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing mpnp ..."
	@$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@echo "Installing the tools for tests ..."
	@$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(VENV)/installed-botorch: $(VENV)/installed-dev
	@echo "Installing torch and BoTorch ..."
	@$(PIP) install --constraint constraints.txt --editable '.[dev,botorch]'
	@touch $@

$(VENV)/installed-docs: $(VENV)/installed
	@echo "Installing the tools for the documentation ..."
	@$(PIP) install --constraint constraints.txt --editable '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-newest build runs quickstart.png
