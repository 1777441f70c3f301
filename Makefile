# Everything a fresh machine needs is python3 (3.10 or newer, with venv) and make.
#
#   make demo      see a real function go through every stage, and run
#   make test      the tests
#   make lint      ruff and mypy
#   make test-versions   every public name and all documentation on torch 2.14.1 too; the wheel as users install it
#   make bench     compile time, run time and first calls beside torch.jit and eager
#   make docs      write the generated pages of docs/ anew
#   make site      README, docs and the book as a site, in build/site, with every link checked
#   make explore   random programs of two kinds, for BUDGET=600 seconds each
#   make mutants   20,000 damaged archives, shown, loaded, converted and called: an hour
#   make passes    each pass alone and 20 random orders on all graphs of tests/support/specimens.py: an hour
#   make clients  public models and functions of torchvision, timm, kornia and others, as far as they are installed

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
BUDGET ?= 600

PY    := $(VENV)/bin/python
READY := $(VENV)/.ready

# The second version of torch. It has an environment of its own, which only `make test-versions` uses.
OTHER_TORCH ?= 2.14.1
OTHER_VENV  ?= .venv-torch-$(OTHER_TORCH)
OTHER_PY    := $(OTHER_VENV)/bin/python
ON_VERSIONS := tests/api/test_entry_points.py tests/test_docs.py tests/test_examples.py tests/base/test_torch_internals.py \
               tests/cli/test_doctor.py tests/api/test_trace.py tests/objects/test_script_module.py tests/archive/test_archive_save.py

# Workers that each start a thread per core only get in one another's way.
export OMP_NUM_THREADS ?= 1
# Tests start many processes that import jitlite. Each would compile all of it anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-versions lint bench docs site explore mutants passes clients setup clean

help:
	@sed -n 's/^#   //p' Makefile

demo: setup
	@$(PY) -m jitlite demo

test: setup
	$(PY) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-versions: setup $(OTHER_VENV)/.ready
	$(OTHER_PY) -m pytest -n $(JOBS) --dist worksteal $(or $(ARGS),$(ON_VERSIONS))
	$(OTHER_PY) tests/tools/check_wheel.py
	$(PY) tests/tools/check_wheel.py

lint: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: setup
	$(PY) benchmarks/compile_time.py
	$(PY) benchmarks/run_time.py
	$(PY) benchmarks/first_call.py

docs: setup
	$(PY) tests/tools/write_docs.py

site: setup
	PIP_CONSTRAINT=constraints.txt $(PY) -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[docs]'
	$(PY) -m mkdocs build --strict --quiet --site-dir build/site
	@echo "build/site/index.html"

explore: setup
	EXPLORE_SECONDS=$(BUDGET) $(PY) -m pytest tests/test_properties.py tests/test_object_programs.py -k explore -s $(ARGS)

mutants: setup
	$(PY) -m pytest -m sweep tests/loading/test_archive_mutations.py -s $(ARGS)

passes: setup
	$(PY) -m pytest -n $(JOBS) --dist worksteal -m sweep tests/passes/test_pass_orders.py $(ARGS)

clients: setup
	$(PY) -m pytest -m clients -s tests/clients $(ARGS)

setup: $(READY)

$(READY): setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "jitlite needs Python 3.10 or newer; say which with make PYTHON=python3.12 ..." >&2; exit 2; }
	@echo "setting up $(VENV): once, a minute or two, most of it torch" >&2
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(PY) -m pip install -q --disable-pip-version-check 'pip>=22.3' setuptools
	PIP_CONSTRAINT=constraints.txt $(PY) -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[test]'
	@touch $@

$(OTHER_VENV)/.ready: setup.cfg pyproject.toml constraints.txt
	@echo "setting up $(OTHER_VENV) with torch $(OTHER_TORCH): once, a minute or two" >&2
	$(PYTHON) -m venv $(OTHER_VENV)
	grep -v '^torch==' constraints.txt > $(OTHER_VENV)/constraints.txt
	PIP_CONSTRAINT=$(OTHER_VENV)/constraints.txt $(OTHER_PY) -m pip install -q --disable-pip-version-check \
	  'pip>=22.3' setuptools torch==$(OTHER_TORCH)
	PIP_CONSTRAINT=$(OTHER_VENV)/constraints.txt $(OTHER_PY) -m pip install -q --disable-pip-version-check \
	  --no-build-isolation -e '.[test]' torch==$(OTHER_TORCH)
	@touch $@

clean:
	rm -rf $(VENV) .venv-torch-* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
