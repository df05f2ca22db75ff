# Everything a newcomer needs: `make demo` shows the tool at work, `make test` proves it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install -qq -c constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test test-light wheel wheel-demo setup setup-dev lint docs clean

demo: $(VENV)/.demo
	@$(BIN)/divulge audit --demo --out runs/demo --overwrite

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal

# The parts that need no torch, on another Python: make test-light PYTHON=python3.13
LIGHT := .venv-light
LIGHT_TESTS := attacks decisions run_directory evaluation labels reconstruction tables test_foundation.py test_web.py
test-light:
	rm -rf $(LIGHT)
	$(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/python -m pip install -qq -c constraints.txt -e '.[light-test]'
	$(LIGHT)/bin/python -m pytest -n auto --dist worksteal $(addprefix tests/,$(LIGHT_TESTS))

# What others install: dist/divulge-….whl.
wheel: $(VENV)/.demo
	rm -rf dist
	$(BIN)/python -m pip wheel -qq --no-deps -w dist .

# The demo from that wheel, in an environment where nothing of this clone can be imported.
WHEEL := .venv-wheel
wheel-demo: wheel
	rm -rf $(WHEEL)
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install -qq -c constraints.txt "$$(ls dist/*.whl)[demo]"
	cd $(WHEEL) && bin/divulge audit --demo --quick

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check
	$(BIN)/lint-imports

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

setup: $(VENV)/.demo
setup-dev: $(VENV)/.dev

$(BIN)/python:
	@$(PYTHON) -m venv $(VENV)

# A stamp a set-up: pip runs again only when what is to be installed has changed.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV), once; this takes some minutes."
	@$(PIP) -e '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV), once; this takes some minutes."
	@$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) $(LIGHT) $(WHEEL) runs site dist
