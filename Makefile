# Everything a newcomer needs: `make demo` shows the tool at work, `make test` proves it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test setup setup-dev lint docs clean

demo: $(VENV)/.demo
	$(BIN)/divulge audit --demo --out runs/demo --overwrite

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto

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
	$(PYTHON) -m venv $(VENV)

# A stamp a set-up: pip runs again only when what is to be installed has changed.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[demo]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) runs site dist
