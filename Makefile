# Every target makes its own virtual environment: a fresh machine needs only Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check --quiet
DATA   ?= $(PRIORY_DATA)
export PRIORY_DATA := $(DATA)

.PHONY: demo test check format bench experiments audit docs town clean help

help:            ## Show this list.
	@grep -E '^[a-z]+: .*##|^[a-z]+:  +##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.base: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "priory needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Say which to use: make PYTHON=python3.12 …")'
	@echo "Setting up $(VENV) (a minute or two the first time) …" >&2
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'
	$(PIP) install --editable '.[report]'
	@touch $@

$(VENV)/.%: $(VENV)/.base
	$(PIP) install --group $*
	@touch $@

demo: $(VENV)/.base                ## Run the main job on the embedded data.
	$(BIN)/priory demo

test: $(VENV)/.test                ## Run the tests (under 10 minutes on 2 cores).
	$(BIN)/pytest -n 2 --dist loadfile

check: $(VENV)/.check $(VENV)/.test ## Format, lint, types, layers.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.check             ## Rewrite files in the project's format.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test               ## Speed and memory, beside the peers where there are any.
	$(BIN)/python -m bench

experiments: $(VENV)/.test         ## The papers' figures and our own (hours; resumable).
	$(BIN)/python -m experiments

audit: $(VENV)/.test               ## The whole privacy battery.
	$(BIN)/priory audit

docs: $(VENV)/.docs                ## Build the documentation into site/.
	$(BIN)/mkdocs build --strict

town: $(VENV)/.base                ## Make the embedded data again from its script.
	$(BIN)/python tools/make_town.py

clean:                             ## Remove what the targets made.
	rm -rf $(VENV) site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
