# Works with GNU make 3.81 (macOS) and later, and with BSD make. scripts/setup does the set-up.

PROFILE ?= quick
DEVICE ?= auto
PYTHON ?=
TORCH_INDEX ?=
ARGS ?=
COVERAGE_AT_LEAST = 95

VENV_PYTHON = .venv/bin/python
INFERLAB = INFERLAB_PROFILE="$(PROFILE)" INFERLAB_DEVICE="$(DEVICE)" $(VENV_PYTHON) -m inferlab

.PHONY: help site test serve lab check setup dist clean distclean

help: ## list what there is to make
	@echo "inferlab: measure LLM inference on this machine, and build the site that shows it."
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  PROFILE=quick|full          how much to measure (quick: minutes on two cores)"
	@echo "  DEVICE=auto|cpu|cuda|mps    what to measure on"
	@echo "  PYTHON=python3.12           the Python (3.11 or newer) that makes .venv"
	@echo "  TORCH_INDEX=URL             where another build of PyTorch is, for instance with CUDA"
	@echo "  ARGS='tests/lab -x'         make test: what to give pytest (then without coverage)"

site: setup ## measure what is missing on this machine, build site/, check it
	@$(INFERLAB) site build

test: setup ## run the whole test suite, with coverage
	@if [ -n "$(ARGS)" ]; then \
	    exec $(VENV_PYTHON) -m pytest $(ARGS); \
	else \
	    exec $(VENV_PYTHON) -m pytest --cov --cov-report=term \
	        --cov-fail-under=$(COVERAGE_AT_LEAST); \
	fi

serve: setup ## show the site at http://127.0.0.1:8000 and follow edits
	@$(INFERLAB) site serve

lab: setup ## measure only what is missing or stale
	@$(INFERLAB) lab run

check: setup ## lint, types, and the built pages
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m ruff format --check .
	@$(VENV_PYTHON) -m mypy
	@$(INFERLAB) site build

setup: ## only .venv and the embedded model (the others do it as well)
	@PYTHON="$(PYTHON)" TORCH_INDEX="$(TORCH_INDEX)" DEVICE="$(DEVICE)" \
	    PROFILE="$(PROFILE)" sh scripts/setup

dist: setup ## build a wheel into dist/
	@$(VENV_PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean: ## remove what was built; records, models and .venv stay
	rm -rf site dist build htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache \
	    .hypothesis .cache

distclean: clean ## also remove .venv
	rm -rf .venv
