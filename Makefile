# make demo   runs the demo                    make test       passes the tests
# make lint   style                            make test-slow  the long tests as well
# make types  mypy and pyright                 make bench      benchmarks and tables
# make docs   the documentation                make test-robust  the tests as other machines would run them
# make release-check   the archives, the citation and the licences, before a release
# Each makes the virtual environment it needs. `make test ARGS="-k name"` passes ARGS on;
# `make test PYTHON=/path/to/python3` chooses the Python, VENV=folder the environment.

PYTHON =
VENV = .venv
ARGS =
BIN = $(VENV)/bin
CANDIDATES = $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python
USABLE = import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PIP = PYTHONWARNINGS=ignore $(BIN)/python -m pip install -qq --disable-pip-version-check

# Compiled loops are kept; they go by what their sources say. Two processes of one thread each are
# faster than one of two.
PYTEST = export NUMBA_CACHE_DIR="$(abspath $(VENV))/numba" OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	&& $(WARM) $(BIN)/python -m pytest
# All tests: first two processes share out what is to be compiled.
WARM = $(if $(ARGS),,$(BIN)/mmcopt warmup > /dev/null &&)

.PHONY: help demo test test-slow test-robust lint types bench docs release-check dev clean

help:
	@sed -n '1,7s/^# //p' Makefile

demo: $(VENV)/.demo
	$(BIN)/mmcopt demo $(ARGS)

test: $(VENV)/.test
	@$(PYTEST) -n 2 --dist loadfile $(ARGS)

test-slow: $(VENV)/.test
	@$(PYTEST) -n 2 --dist loadfile -m "slow or not slow" $(ARGS)

test-robust: $(VENV)/.test
	@$(BIN)/python tests/robust.py $(if $(ONLY),--only $(ONLY)) -- $(ARGS)

bench: $(VENV)/.test
	@$(PYTEST) -m "slow or not slow" tests/benchmarks $(ARGS)

release-check: $(VENV)/.dev
	$(BIN)/python tests/release.py

docs: $(VENV)/.docs
	NUMBA_CACHE_DIR="$(abspath $(VENV))/numba" OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	  $(BIN)/python -m sphinx -E -a -W --keep-going -q -b html docs docs/_build/html $(ARGS)
	@echo "docs/_build/html/index.html"

lint: $(VENV)/.dev
	$(BIN)/python -m ruff check $(ARGS) .

types: $(VENV)/.dev
	$(BIN)/python -m mypy
	$(BIN)/python -m pyright --pythonpath $(BIN)/python

dev: $(VENV)/.dev

clean:
	rm -rf $(VENV) build dist docs/_build docs/made *.egg-info .pytest_cache .mypy_cache .ruff_cache

# ---------------------------------------------------------------- environments

$(VENV)/.made:
	@for p in $(CANDIDATES); do \
	  if "$$p" -c "$(USABLE)" 2>/dev/null; then found="$$p"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "mmcopt needs Python 3.11 or later with its venv module; none was found among:" >&2; \
	  echo "  $(strip $(CANDIDATES))" >&2; \
	  echo "Install one (on Debian or Ubuntu: apt install python3 python3-venv)," >&2; \
	  echo "or name it: make PYTHON=/path/to/python3 ..." >&2; \
	  exit 1; \
	fi; \
	echo "Making $(VENV) with $$("$$found" --version)"; \
	"$$found" -m venv --clear "$(VENV)"
	@$(PIP) --upgrade pip
	@touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	@echo "Installing mmcopt and what it needs into $(VENV) (a minute or two, once)"
	@$(PIP) -e ".[plot]"
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml
	@echo "Installing mmcopt and its tests into $(VENV) (a minute or two, once)"
	@$(PIP) -e ".[plot,test]"
	@touch $(VENV)/.demo $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	@echo "Installing mmcopt, its tests and its checks into $(VENV) (a minute or two, once)"
	@$(PIP) -e ".[plot,test,dev]"
	@touch $(VENV)/.demo $(VENV)/.test $@

$(VENV)/.docs: $(VENV)/.made pyproject.toml
	@echo "Installing mmcopt and what its documentation is built with into $(VENV) (a minute, once)"
	@$(PIP) -e ".[docs]"
	@touch $@
