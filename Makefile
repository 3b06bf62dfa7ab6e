# `make demo` and `make test` need nothing but Python 3.11; see README.md.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
RUN := .venv/bin/python

.PHONY: help demo test test-slow lint format environment gpu requirements clean

help: ## Show this list.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /:/' \
	  | awk -F: '{ printf "make %-14s %s\n", $$1, $$2 }'

demo: environment ## Run the main job: train on handwritten digits.
	@$(RUN) -m programs.train --flagfile=programs/configs/demo.flags

test: environment lint ## Run the linters and the tests.
	@$(RUN) -m pytest -m "not slow" -n 3 \
	  --dist loadgroup

test-slow: environment ## Run the tests that take minutes.
	@$(RUN) -m pytest -m slow

lint: environment ## Check format, style and types.
	@$(RUN) -m ruff format --check --quiet .
	@$(RUN) -m ruff check --quiet .
	@$(RUN) -m mypy

format: environment ## Format the code.
	@$(RUN) -m ruff check --fix --quiet .
	@$(RUN) -m ruff format .

environment: ## Make or repair .venv.
	@command -v "$(PYTHON)" > /dev/null || { echo "Python 3.11 is needed, but \
	there is no '$(PYTHON)': name one with 'make demo PYTHON=/path/to/python3.11'." \
	>&2; exit 1; }
	@"$(PYTHON)" programs/environment.py

gpu: environment ## Add the CUDA libraries to .venv.
	@"$(PYTHON)" programs/environment.py --gpu

requirements: environment ## Resolve requirements.txt anew.
	@$(RUN) -m uv pip compile pyproject.toml --extra dev --extra ray --quiet \
	  --python-version 3.11 --python-platform x86_64-manylinux_2_31 --upgrade \
	  --no-annotate --custom-compile-command 'make requirements' \
	  --output-file requirements.txt

clean: ## Remove .venv and what the tools have cached.
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
