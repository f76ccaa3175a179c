# `make demo` and `make test` each work as the first command after a clone.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help setup demo test soak check docs supported format bench wasm clean
help:            ## show this list
	@grep -hE '^[a-z]+: .*##|^[a-z]+: +##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

setup: $(STAMP)  ## create .venv and install everything, pinned by constraints.txt

$(STAMP): pyproject.toml constraints.txt CMakeLists.txt $(wildcard csrc/*/*.[ch]* csrc/*/*/*.[ch]*)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing PyTorch and the rest (a few minutes the first time) ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt scikit-build-core nanobind cmake ninja torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $(STAMP)

demo: setup      ## see the method at work on small images
	$(BIN)/python examples/demo.py

test: setup      ## run every test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto

MINUTES ?= 60
soak: setup      ## kill, damage, serve and fuzz on purpose, MINUTES for each of eight parts; not part of the tests
	@for part in 'kills --verb train' 'kills --verb duo' 'kills --verb search' 'kills --verb reproduce' \
	  'damage --verb train' 'damage --verb duo' service fuzz; do \
	  OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak $$part --minutes $(MINUTES) || exit 1; done

check: setup     ## lint, types, import rules, C++ format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@files=$$(git ls-files 'csrc/*.cpp' 'csrc/*.h' 'csrc/*.hpp'); \
	  if [ -n "$$files" ]; then $(BIN)/clang-format --dry-run --Werror $$files; fi

docs: setup      ## build the documentation into ./site; a warning fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "open site/index.html"

supported: setup ## write docs/supported.md again, from the table of operations and by running every architecture
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.architectures

format: setup    ## rewrite the code as `check` wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@files=$$(git ls-files 'csrc/*.cpp' 'csrc/*.h' 'csrc/*.hpp'); if [ -n "$$files" ]; then $(BIN)/clang-format -i $$files; fi

bench: setup     ## measure speed against named peers
	$(BIN)/binaryduo bench --help

wasm:            ## compile the engine for browsers again, after a change in csrc (needs emscripten)
	csrc/web/build

clean:           ## remove the virtual environment and what was built
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
