# The whole project from a fresh clone: `make demo` runs it, `make test` tests it.
PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo test lint types bench lock clean

help:  ## List what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 14

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

setup: $(VENV)/.runtime  ## Prepare .venv with everything Chamber runs on

setup-dev: $(VENV)/.dev  ## The same, with what tests and linters need

demo: setup  ## Run Chamber with an example organisation (PORT=8000, RESET=1 starts afresh)
	@$(BIN)/chamber demo --port $(PORT) $(if $(RESET),--reset)

test: setup-dev  ## Run all tests; what the machine lacks is skipped by name
	$(BIN)/python -m pytest $(ARGS)

lint: setup-dev  ## ruff, import rules, missing migrations
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	CHAMBER_DATA=$$(mktemp -d) $(BIN)/python manage.py makemigrations --check --dry-run

types: setup-dev  ## mypy --strict
	$(BIN)/mypy .

bench: setup  ## Figures of a demo that runs on PORT without its stream, as JSON (NODES= and PODS= add the openb trace)
	@$(BIN)/python -m bench.latency --url http://127.0.0.1:$(PORT)
	@$(if $(NODES),$(BIN)/python -m bench.openb --url http://127.0.0.1:$(PORT) --nodes $(NODES) --pods $(PODS),true)

lock: setup-dev  ## Rewrite the lock files from requirements*.in
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command "make lock" requirements.in -o requirements.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command "make lock" requirements-dev.in -o requirements-dev.txt

clean:  ## Remove what the other targets made
	rm -rf $(VENV) .demo .cache build *.egg-info
