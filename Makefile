# The two commands of the README: `make demo` and `make test`. Both make their own environment in $(VENV).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# CuPy and NVML are wanted where there is an NVIDIA driver: the CUDA 13 build for drivers 580 and newer, else CUDA 12.
DRIVER := $(shell nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | sed -n '1s/^\([0-9][0-9]*\)\..*/\1/p')
EXTRA := $(if $(DRIVER),$(shell [ "$(DRIVER)" -ge 580 ] 2>/dev/null && echo ,cuda13 || echo ,cuda12),)

.PHONY: demo test lint clean

demo: $(VENV)/.demo
	$(BIN)/perfkit demo

test: lint
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Stamps, so that the environment is made again only when the dependencies change.
$(VENV)/.demo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[parquet$(EXTRA)]"
	touch $@

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev$(EXTRA)]"
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache
