.DEFAULT_GOAL := help
.PHONY: help setup venv demo test lint format bench docs screenshots soak lock clean

PYTEST_ARGS ?=
# One more than there are cores: tests wait for servers and processes a third of the time.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
BENCH ?=

PY := .venv/bin/python
READY := .venv/.ready

# A .venv that was moved or copied here points at the folder it came from: make it anew.
ifneq ($(shell cat $(READY) 2>/dev/null),$(CURDIR))
.PHONY: $(READY)
endif

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: venv ## Make .venv with the pinned packages, and find or install PostgreSQL and Chromium for the tests
	@scripts/ensure-postgres
	@scripts/ensure-chromium

venv: $(READY)

$(READY): requirements.lock pyproject.toml
	@scripts/make-venv

demo: venv ## Run the examples, and leave the dashboard up (DEMO_EXIT=1 ends by itself with a summary)
	@.venv/bin/penstock demo

test: setup ## Run the whole suite (PYTEST_ARGS="-k lock -x" narrows it)
	@$(PY) -m pytest --numprocesses $(WORKERS) --dist worksteal $(PYTEST_ARGS)

lint: venv ## Check style, format, types and the lock
	@$(PY) -m ruff check --quiet --output-format concise
	@$(PY) -m ruff format --check --quiet
	@$(PY) -m mypy src
	@scripts/check-lock

format: venv ## Mend style and format where that can be done by machine
	@$(PY) -m ruff check --fix-only --quiet
	@$(PY) -m ruff format --quiet

bench: setup ## Measure Penstock and its peers side by side (BENCH=engine runs one)
	@$(PY) -m bench $(BENCH)

docs: venv ## Build the documentation into site/, strictly
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

screenshots: setup ## Take the pictures of the dashboard anew, into docs/images
	@$(PY) scripts/screenshots

soak: venv ## Simulate for long (MINUTES=30)
	@$(PY) -m penstock.simulation --minutes $${MINUTES:-30}

lock: ## Write requirements.lock anew from pyproject.toml (UPGRADE=1 takes the newest releases)
	@scripts/lock

clean: ## Remove .venv, caches and build output; .penstock stays
	@rm -rf .venv build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
