# Every target makes its own virtual environment: a fresh machine needs only Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check --quiet
DATA   ?= $(PRIORY_DATA)
export PRIORY_DATA := $(DATA)

# The versions everything was tested with. CONSTRAINTS= (empty) takes the newest that pyproject.toml allows.
CONSTRAINTS ?= constraints.txt
INSTALL     := $(PIP) install $(addprefix --constraint ,$(CONSTRAINTS))

# Tests start the library in other processes, and each of them would compile it anew.
unexport PYTHONDONTWRITEBYTECODE

# Every dependency group, and the tests that run on the base install: what needs an extra skips itself.
GROUPS_ALL := check coverage docs hooks release test
BARE_TESTS := tests/test_accounting.py tests/test_cli.py tests/test_codec.py tests/test_gpu.py tests/test_release.py \
              tests/test_report.py tests/test_sources.py tests/test_surface.py tests/test_table.py tests/test_tape.py

.PHONY: demo test axe bare coverage check format hooks bench experiments audit docs town walk newest constraints release \
        clean help

help:            ## Show this list.
	@grep -E '^[a-z]+: .*##|^[a-z]+:  +##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.base: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "priory needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Say which to use: make PYTHON=python3.12 …")'
	@echo "Setting up $(VENV) (a minute or two the first time) …" >&2
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'
	$(INSTALL) --editable '.[report]'
	@touch $@

$(VENV)/.%: $(VENV)/.base
	$(INSTALL) --group $*
	@touch $@

demo: $(VENV)/.base                ## Run the main job on the embedded data.
	$(BIN)/priory demo

test: $(VENV)/.test                ## Run the tests (under 10 minutes on 2 cores).
	$(BIN)/pytest -n 2 --dist loadfile

axe:                               ## Get axe-core by npm, for the tests that look at pages for barriers.
	npm install --prefix .axe --silent --no-audit --no-fund --no-save axe-core@4.14.0

bare:                              ## Run the tests that matter on the base install, without any extra.
	$(PYTHON) -m venv --clear .venv-bare
	.venv-bare/bin/pip --disable-pip-version-check --quiet install --upgrade 'pip>=25.1'
	.venv-bare/bin/pip --disable-pip-version-check --quiet install --constraint constraints.txt . --group bare
	.venv-bare/bin/pytest $(BARE_TESTS)
	.venv-bare/bin/priory demo

coverage: $(VENV)/.test $(VENV)/.coverage ## Run the tests and show which lines they reach (pages in htmlcov/).
	$(BIN)/pytest -n 2 --dist loadfile --cov --cov-report=term:skip-covered --cov-report=html

check: $(VENV)/.check $(VENV)/.test ## Format, lint, types, layers.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.check             ## Rewrite files in the project's format.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

hooks: $(VENV)/.hooks $(VENV)/.check $(VENV)/.test ## Check what is committed, before each commit.
	$(BIN)/pre-commit install

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

walk: $(VENV)/.base                ## Show which rooms of the code one fit visits, in order; docs/architecture.md has them.
	$(BIN)/python tools/walk.py --write

newest:                            ## Run tests and docs with the newest version of everything, in .venv-newest.
	rm -rf .venv-newest
	$(MAKE) VENV=.venv-newest CONSTRAINTS= $(GROUPS_ALL:%=.venv-newest/.%)
	$(MAKE) VENV=.venv-newest CONSTRAINTS= test docs

constraints:                       ## Write down the versions of .venv-newest as the tested ones.
	.venv-newest/bin/python tools/write_constraints.py

release: $(VENV)/.release          ## Build wheel and sdist into dist/ and check them. Nothing is uploaded.
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tools/check_release.py dist

clean:                             ## Remove what the targets made.
	rm -rf $(VENV) .venv-bare .venv-newest site dist htmlcov .axe .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
