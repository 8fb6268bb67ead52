# `make console` and `make check` do everything on a fresh machine with Python 3.11 or newer.
# Each recipe stops at the first failure; nothing here needs a package that was installed by hand.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Most tests wait for processes that they have started.
JOBS ?= 6
PIP_TOOLS := pip-tools==7.6.2
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
COMPILE = build/lock/bin/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe \
	--no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
	--build-deps-for editable

.PHONY: help console check format-check lint types contracts test check-long bench scan scale recorder week profile orphans model chaos format lock clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##/\1\t/p' $(MAKEFILE_LIST) | expand -t 16

console: $(VENV)/.runtime  ## open the console; the embedded demo where there is nothing to watch
	@$(BIN)/holdtop demo --if-empty

check: system format-check lint types contracts test  ## what CI runs; ends with the tests' closing line

.PHONY: system
system:
	@scripts/system-packages

format-check: $(VENV)/.test
	$(BIN)/ruff format --check --quiet .

lint: $(VENV)/.test
	$(BIN)/ruff check --quiet .

types: $(VENV)/.test
	$(BIN)/mypy --no-error-summary

contracts: $(VENV)/.test
	$(BIN)/lint-imports --no-cache

test: $(VENV)/.test  ## the tests alone
	@$(BIN)/pytest -m "not long" -n $(JOBS)

check-long: $(VENV)/.test  ## soaks and sweeps; keeps the result with its seed in bench/results/
	@scripts/system-packages long
	@BIN=$(BIN) scripts/check-long

bench: $(VENV)/.test  ## start, hand-over, waiting and KILL as ratios, and the console's cost, into bench/results/
	@$(BIN)/python -m bench.speed
	@$(BIN)/python -m bench.console

scan: $(VENV)/.test  ## a look at all descriptors of 1,000 processes, beside C programs, into bench/results/
	@$(BIN)/python -m bench.scan

recorder: $(VENV)/.test  ## what the flight recorder costs on a busy demo box, into bench/results/
	@$(BIN)/python -m bench.recorder

scale: $(VENV)/.test  ## what grows with tickets, processes and logs, as curves, into bench/results/ and docs/pictures/
	@$(BIN)/python -m bench.scale

week: $(VENV)/.test  ## what grows with a recording of an hour, a day and a week, into bench/results/ and docs/pictures/
	@$(BIN)/python -m bench.week

profile: $(VENV)/.test  ## where the time of console, sampler and hold goes, into bench/results/
	@$(BIN)/python -m bench.profiled

orphans: $(VENV)/.test  ## what outlives its job, here and under other tools, into bench/results/
	@$(BIN)/python -m bench.orphans

model: system $(VENV)/.test  ## the model of the protocol, searched exhaustively, and its mutations; into bench/results/
	@$(BIN)/python -m bench.model

chaos: $(VENV)/.test  ## 10,000 episodes of lanes on a bad day, into bench/results/
	@$(BIN)/python -m bench.chaos

format: $(VENV)/.test  ## rewrite the sources in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet .

lock:  ## choose the newest allowed versions again
	@$(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --quiet $(PIP_TOOLS)
	$(COMPILE) --upgrade --output-file requirements.lock pyproject.toml
	$(COMPILE) --upgrade --extra test --constraint requirements.lock \
		--output-file requirements-test.lock pyproject.toml

$(VENV)/bin/python:
	@PYTHON="$(PYTHON)" scripts/make-venv $(VENV)

# The package itself is installed last and without its requirements: only locked, hashed files are fetched.
$(VENV)/.runtime: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing what requirements.lock names into $(VENV)" >&2
	@$(INSTALL) --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.test: requirements-test.lock $(VENV)/.runtime
	@echo "installing what requirements-test.lock names into $(VENV)" >&2
	@$(INSTALL) --require-hashes -r requirements-test.lock
	@touch $@

clean:  ## remove what these recipes made, results excepted
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
