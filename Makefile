# `make` alone lists what there is. Everything starts from a bare machine: setup installs what is missing.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup node lint test unit faults soak search bench demo dev docs lock clean

PYTHON := .venv/bin/python
CODE := shared services examples tests benchmarks docs/site
ORDERS ?=
SEED ?=
DURATION ?= 600
WORKERS ?= 3
TRANSPORT ?=

# Every process that a target starts has it from there.
ifneq ($(TRANSPORT),)
export TRIUMVIR_TRANSPORT := $(TRANSPORT)
endif

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing (apt for RabbitMQ, Postgres, Python; packages into .venv)
	@.ci/setup

node: setup
	@.ci/setup --node

lint: setup ## style, strict types, import rules
	$(PYTHON) -m ruff check $(CODE)
	$(PYTHON) -m ruff format --check $(CODE)
	$(PYTHON) -m mypy $(CODE)
	.venv/bin/lint-imports --no-logo

# Most tests wait for servers and deadlines, so there are more workers than cores. Each has servers of its own, and a
# file is run by one of them; the folders that wait most come first, so that none is left to run alone in the end.
test: node lint ## everything but the slow faults, on real servers; WORKERS=N files at once
	$(PYTHON) -m pytest -m "not slow" -n $(WORKERS) --dist loadfile --no-loadscope-reorder

unit: setup ## tests that need no server
	$(PYTHON) -m pytest tests/unit tests/property tests/house -m "not slow"

faults: setup ## every fault: kills, crashes, restarts, doubled messages; on private servers; TRANSPORT=stock
	$(PYTHON) -m pytest tests/faults -m faults

soak: setup ## a random mix of all faults, then the audit; DURATION=600 seconds, SEED=N for the same mix, TRANSPORT=stock
	@$(PYTHON) -m tests.soak --seconds $(DURATION) $(if $(SEED),--seed $(SEED))

search: setup ## every state that a small world can reach with three faults in it; prints how many
	$(PYTHON) -m pytest tests/property -m slow

bench: setup ## orders per second, latency and cost, beside the bare client library
	$(PYTHON) -m benchmarks.orders

demo: setup ## a shop on private servers, with kills in the middle; ORDERS=FILE (NDJSON), SEED=N as you like
	@PYTHONPATH=examples $(PYTHON) -m shop.demo $(if $(SEED),--seed $(SEED)) $(if $(ORDERS),"$(ORDERS)")

dev: setup ## private servers and all services until Ctrl-C
	.venv/bin/triumvir dev

docs: setup ## the documentation as a site, in build/site; a warning is an error
	$(PYTHON) -m sphinx -W --keep-going -n -q -c docs/site . build/site
	@echo "docs: build/site/index.html"

lock: setup ## pin the newest versions that pyproject.toml allows
	$(PYTHON) -m pip install --quiet uv
	$(PYTHON) -m uv pip compile --quiet --universal --python-version 3.11 --upgrade \
		--generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
		--group dev --group docs pyproject.toml --output-file requirements.lock
	! grep -nE '://|index-url|find-links' requirements.lock

clean: ## remove .venv, caches and private servers' folders of this checkout
	rm -rf .venv .run .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
