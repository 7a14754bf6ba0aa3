# Each target sets itself up: on a fresh clone the first call makes .venv, later calls find it ready.
#   make bench PYTHON=python3.12     another interpreter
#   UV_TORCH_BACKEND=cu128 make venv a particular build of torch

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
SUITE ?= quick
OUT ?= results/$(SUITE)
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
export PYTHON
# Compiled modules are worth keeping even where the shell says otherwise.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help bench kernel test lint format perf docs venv clean
help:
	@echo 'make bench   train, compare and report: suite "quick", a few minutes, ends in an HTML page'
	@echo 'make kernel  cubic, dctcp, a learned law and a trained policy on the Linux kernel, two minutes; needs root or sudo'
	@echo 'make test    linter, formatter, type checker, tests'
	@echo 'make lint    the first three of these'
	@echo 'make format  let the formatter and the linter mend what they can'
	@echo 'make perf    speed figures of this machine'
	@echo 'make docs    the documentation site, built and checked offline: build/docs/html'
	@echo 'make venv    only the set-up; make clean removes it and everything built (results stay)'

$(READY): pyproject.toml setup.py constraints.txt scripts/make_venv.sh
	@bash scripts/make_venv.sh

venv: $(READY)
	@echo "$(VENV) is ready"

bench: $(READY)
	@$(BIN)/sysgym bench $(SUITE) --out $(OUT)
	@$(BIN)/sysgym report $(OUT)

# Root is for the kernel's part: the system's packages, and the networks that are built.
kernel: $(READY)
	@$(SUDO) bash scripts/install_emulator.sh
	@$(SUDO) $(BIN)/sysgym bench linux-quick

perf: $(READY)
	@$(BIN)/sysgym perf

docs: $(READY)
	@$(BIN)/python -m docs.website

lint: $(READY)
	@echo '[lint] ruff check'
	@$(BIN)/ruff check --quiet .
	@echo '[lint] ruff format --check'
	@$(BIN)/ruff format --check --quiet . || { echo "run 'make format'" >&2; exit 1; }
	@echo '[lint] mypy --strict'
	@$(BIN)/python scripts/link_package.py
	@$(BIN)/mypy

format: $(READY)
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

# The simulator compiles on one core while the type checker has the other: the tests find it in the cache.
# They find their own modules compiled, too, which else each process of pytest would do for itself.
test: $(READY)
	@$(BIN)/python scripts/compile_simulator.py >/dev/null & \
	$(MAKE) --no-print-directory lint && \
	{ $(BIN)/python -m pytest -q --collect-only >/dev/null 2>&1 || true; }; linted=$$?; wait; exit $$linted
	@bash scripts/install_emulator.sh --if-root
	@bash scripts/install_browser.sh --if-ci
	@echo '[test] pytest'
	@before=$$(mktemp) && trap "rm -f $$before" EXIT && $(BIN)/python scripts/machine_state.py >"$$before" && \
	{ $(BIN)/python -m pytest -q -n auto --dist loadgroup; failed=$$?; \
	$(BIN)/python scripts/machine_state.py --compare "$$before" && exit $$failed; }

clean:
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
