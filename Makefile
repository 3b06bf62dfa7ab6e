# `make demo` and `make test` need nothing but Python 3.11; see README.md.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
RUN := .venv/bin/python

.PHONY: help demo notebook test test-slow soak lint format docs wheel environment \
  gpu requirements clean

help: ## Show this list.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /:/' \
	  | awk -F: '{ printf "make %-14s %s\n", $$1, $$2 }'

demo: environment ## Run the main job: train on handwritten digits.
	@$(RUN) -m programs.train --flagfile=programs/configs/demo.flags

notebook: environment ## Open the tutorials in JupyterLab.
	@$(RUN) -m jupyterlab --ServerApp.root_dir=programs/tutorials \
	  --LabApp.news_url=None $(if $(filter 0,$(shell id -u)),--allow-root)

test: environment lint ## Run the linters and the tests.
	@$(RUN) -m pytest -m "not slow" -n 3 --dist loadgroup \
	  --no-loadscope-reorder --durations=10

test-slow: environment ## Run the tests that take minutes.
	@$(RUN) -m pytest -m slow

soak: environment ## Train through bad days: kills, a full disk, bad clients.
	@$(RUN) -m tests.soak

lint: environment ## Check format, style and types.
	@$(RUN) -m ruff format --check --quiet .
	@$(RUN) -m ruff check --quiet .
	@$(RUN) -m mypy

format: environment ## Format the code.
	@$(RUN) -m ruff check --fix --quiet .
	@$(RUN) -m ruff format .

docs: environment ## Make the site: pages, tutorials, API reference.
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict
	@echo 'Open site/index.html.'

wheel: environment ## Build the package into dist/.
	@$(RUN) -m pip wheel -q --no-deps --no-build-isolation --wheel-dir dist .

environment: ## Make or repair .venv.
	@command -v "$(PYTHON)" > /dev/null || { echo "Python 3.11 is needed, but \
	there is no '$(PYTHON)': name one with 'make demo PYTHON=/path/to/python3.11'." \
	>&2; exit 1; }
	@"$(PYTHON)" programs/make_venv.py

gpu: environment ## Add the CUDA libraries to .venv.
	@"$(PYTHON)" programs/make_venv.py --gpu

requirements: environment ## Resolve requirements.txt anew.
	@$(RUN) -m uv pip compile pyproject.toml --extra dev --extra ray --quiet \
	  --python-version 3.11 --python-platform x86_64-manylinux_2_31 --upgrade \
	  --no-annotate --custom-compile-command 'make requirements' \
	  --output-file requirements.txt

clean: ## Remove .venv and what the tools have cached.
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build \
	  dist site *.egg-info
