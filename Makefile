# Two commands, each enough on a fresh machine with Python 3.11 or newer: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check format results docs build clean

demo: $(READY)
	$(BIN)/ratiorec demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

results: $(READY)
	$(BIN)/python -m ratiorec_lab.results

# the site, in site/, after its commands, code blocks and notebooks have been run
docs: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# both distributions in dist/, and what PyPI would refuse
build: $(READY)
	$(BIN)/python -m pip install --quiet --group release
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir dist lab
	$(BIN)/python -m twine check --strict dist/*

$(READY): pyproject.toml lab/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt --group dev --group docs -e '.[torch,arrow,serve,sql,plots,ann,onnx,postgres,tensorboard,mlflow,tune,ray]' -e lab
	# implicit has no wheel for Python 3.12 and newer; its tests skip by name without it
	-$(BIN)/python -m pip install --quiet -c constraints.txt --only-binary implicit -e '.[rivals]'
	touch $(READY)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
