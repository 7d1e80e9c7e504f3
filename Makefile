# The whole project from a fresh clone: `make demo` runs it, `make test` tests it.
PYTHON ?= python3
PORT ?= 8000
SECONDS ?= 300
SEED ?= 1
ARGS ?= -n auto
EXAMPLES ?= 20000
COUNT ?= 10000
UPGRADE ?= --upgrade
SERVICE ?= pypi
VENV := .venv
BIN := $(VENV)/bin

# Modules are compiled once, not by each of the hundreds of processes that the tests start; images often forbid it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev hooks demo test test-production kube chaos plants fuzz fuzz-api histories lint migrations openapi types bench lock sbom vulnerabilities clean

help:  ## List what can be made
	@awk 'BEGIN { FS = ":.*## *" } /^##@ / { print "\n" substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(VENV)/.runtime: requirements.txt pyproject.toml
	@$(PYTHON) .ci/python_version.py
	@test -w . || { echo "Chamber cannot be set up here: the folder $(CURDIR) is read-only. Clone it where you may write." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@

##@ Try it

demo: setup  ## Run Chamber with an example organisation (PORT=8000, RESET=1 starts afresh)
	@$(BIN)/chamber demo --port $(PORT) $(if $(RESET),--reset)

##@ Set up

setup: $(VENV)/.runtime  ## Prepare .venv with everything Chamber runs on

setup-dev: $(VENV)/.dev  ## The same, with what tests and linters need

hooks: setup-dev  ## Have git judge each commit by what the gate runs on changed files
	@$(BIN)/pre-commit install

kube:  ## Build the Kubernetes control plane that some tests run on, into the user's cache (needs Go)
	@rig/kube/build

##@ Test it

test: setup-dev  ## Run all tests on all cores (ARGS="-k words" chooses); what the machine lacks is skipped by name
	$(BIN)/python -m pytest $(ARGS)

test-production: setup-dev  ## The tests of what is stored again on PostgreSQL and Redis, started for the run
	$(BIN)/python -m rig.servers $(BIN)/python -m pytest -m stores $(ARGS)

lint: setup-dev migrations  ## Style, import rules, missing migrations, subjects of commits
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python .ci/subjects.py

migrations: setup-dev
	@CHAMBER_DATA=$$(mktemp -d) $(BIN)/python manage.py makemigrations --check --dry-run

openapi: setup-dev  ## Write docs/openapi.yaml anew, what the API's code says of it
	@CHAMBER_DATA=$$(mktemp -d) $(BIN)/python manage.py spectacular --fail-on-warn --validate --file docs/openapi.yaml

types: setup-dev  ## Types (mypy --strict)
	$(BIN)/mypy .

##@ Try to break it

chaos: setup  ## Kill, cut and fill whatever can fail under a load, then check the truths (SECONDS=300 SEED=1 FAULTS=words)
	$(BIN)/python -m chaos --seconds $(SECONDS) --seed $(SEED) --faults "$(FAULTS)"

plants: setup  ## Plant bugs, one after the other: chaos has to catch each
	$(BIN)/python -m chaos.plants

fuzz: setup-dev  ## The agents' link and scenario files under many thousands of wrong inputs (EXAMPLES=20000)
	CHAMBER_FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest agentlink/tests/test_fuzz.py scheduling/tests/scenario/test_fuzz.py -q -o timeout=0

fuzz-api: setup-dev  ## The API as each role, asked what its document allows and what it does not (EXAMPLES=50 of each operation)
	CHAMBER_FUZZ_EXAMPLES=$(if $(filter file,$(origin EXAMPLES)),50,$(EXAMPLES)) $(BIN)/python -m pytest tests/test_fuzz_api.py -q -o timeout=0 $(ARGS)

histories: setup-dev  ## Random histories: the state kept between cycles decides as one made anew (COUNT=10000 SEED=1)
	$(BIN)/python -m scheduling.tests.proof.histories --count $(COUNT) --seed $(SEED) --check

##@ Measure it

bench: setup-dev  ## Every figure as JSON, on servers of its own (FIGURES="kueue pages" chooses; SMALL=1: do they run?)
	@$(BIN)/python -m bench $(if $(SMALL),--small) $(FIGURES)

##@ Look after it

lock: setup-dev  ## Rewrite the lock files from requirements*.in (UPGRADE= keeps the versions that they name)
	$(BIN)/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-emit-index-url --custom-compile-command "make lock" requirements.in -o requirements.txt
	$(BIN)/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-emit-index-url --custom-compile-command "make lock" requirements-dev.in -o requirements-dev.txt

sbom:  ## Print the bill of materials (CycloneDX) of what Chamber runs on
	@$(PYTHON) .ci/sbom.py

vulnerabilities: setup-dev  ## Ask for known vulnerabilities of what the lock files name (SERVICE=pypi or osv)
	@$(BIN)/python .ci/vulnerabilities.py $(SERVICE)

clean:  ## Remove what the other targets made
	rm -rf $(VENV) .demo .cache build *.egg-info
