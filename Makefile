# Each target is enough by itself on a fresh clone: it makes .venv from the locked versions first.
# PYTHON=…  the interpreter to make .venv with (3.11 or newer); ARGS=…  further arguments of the tool that is run.
# HELM=…, DOCKER=…  the programs that pack the chart and build the image; IMAGE=…  the name of the image.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

READY := .venv/ready
RUN := .venv/bin/python
# Not --quiet: what is not shown does not count as a warning, and nothing would be strict.
SITE := NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict
VERSION_OF_CHART := $(shell sed -n 's/^version: //p' charts/ebbtide/Chart.yaml)
HELM ?= helm
DOCKER ?= docker
IMAGE ?= ebbtide:$(VERSION_OF_CHART)
export PYTHON

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

$(READY): requirements/dev.txt pyproject.toml requirements/install
	@requirements/install
	@touch $@

.PHONY: demo
demo: $(READY) ## the whole system on an embedded cluster, in this terminal
	@$(RUN) -m ebbtide demo $(ARGS)

.PHONY: test
test: $(READY) ## every test, with a real Kubernetes control plane
	$(RUN) -m tests.controlplane.build >/dev/null
	$(RUN) -m pytest --numprocesses=2 --dist=loadfile $(ARGS)

.PHONY: simulate
simulate: $(READY) ## random histories on simulated time, OF=nodes or loads, SEEDS=0-999; one number replays that one
	$(RUN) -m tests.simulation.replay --of $(or $(OF),nodes) $(or $(SEEDS),0-999)

.PHONY: fuzz
fuzz: $(READY) ## a million broken admission reviews
	EBBTIDE_FUZZ=1000000 $(RUN) -m pytest -o ceiling=0 tests/webhook/test_fuzz.py $(ARGS)

.PHONY: burst
burst: $(READY) ## ten thousand messages of the queue of spot notices: kept filled, deep, and about few nodes
	EBBTIDE_BURST=10000 $(RUN) -m pytest -o ceiling=0 tests/reconciler/signals/test_burst.py $(ARGS)

.PHONY: soak
soak: $(READY) ## a minute of pod creations while everything happens to the webhook
	EBBTIDE_SOAK=60 $(RUN) -m pytest tests/controlplane/test_webhook_service.py -k no_creation $(ARGS)

.PHONY: check check-format check-lint check-types check-layers check-docs
check: check-format check-lint check-types check-layers check-docs ## format, lint, types, import layers, documentation

check-format: $(READY)
	$(RUN) -m ruff format --check .

check-lint: $(READY)
	$(RUN) -m ruff check .

check-types: $(READY)
	$(RUN) -m mypy

check-layers: $(READY)
	.venv/bin/lint-imports

check-docs: $(READY)
	$(RUN) -m docs.pages check
	@site=$$(mktemp -d) && trap 'rm -rf "$$site"' EXIT && $(SITE) --site-dir "$$site"

.PHONY: format
format: $(READY) ## format the code, sort its imports
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

.PHONY: bench
bench: $(READY) ## the published figures, measured on this machine (half an hour); ARGS="--kopf --go" compares with peers too
	$(RUN) -m bench $(ARGS)

.PHONY: docs
docs: $(READY) ## write the generated pages, build the documentation into site/
	$(RUN) -m docs.pages write
	$(SITE)

.PHONY: wheel
wheel: $(READY) ## dist/ebbtide-….whl, which runs without the repository; the same source gives the same bytes
	@rm -f dist/*.whl
	SOURCE_DATE_EPOCH=315532800 $(RUN) -m pip wheel --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

.PHONY: image
image: ## the container image ebbtide:VERSION, IMAGE=… for another name; takes docker
	$(DOCKER) build --tag "$(IMAGE)" .

.PHONY: chart
chart: $(READY) ## dist/ebbtide-….tgz, the packed chart; takes helm; the same source gives the same bytes
	@rm -f dist/*.tgz
	$(HELM) package charts/ebbtide --destination dist
	$(RUN) -m docs.package dist/ebbtide-$(VERSION_OF_CHART).tgz

.PHONY: sbom
sbom: $(READY) ## dist/ebbtide.cdx.json: what is in the image, in CycloneDX form, from its lock
	@mkdir -p dist
	@# It warns that a lock is a list and no graph.
	PYTHONWARNINGS=ignore::UserWarning .venv/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --output-file dist/ebbtide.cdx.json requirements/image.txt

.PHONY: notes
notes: $(READY) ## dist/release-notes.md: what the changelog says of VERSION, which must be the one that is built
	@mkdir -p dist
	$(RUN) -m docs.changelog "$(VERSION)" > dist/release-notes.md

.PHONY: lock
lock: ## lock the newest versions that pyproject.toml allows
	requirements/lock --upgrade

.PHONY: clean
clean: ## remove everything that the other targets made here
	rm -rf .venv site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
