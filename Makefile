# The same targets for people and CI. Everything is set up on first use: Python packages into .venv, the
# embedded cluster's programs into the user's cache directory.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpu-operator-post
PIP := $(PY) -m pip --quiet --disable-pip-version-check
# From packages in the cache, if it has them all: pip takes most of a minute to read all that an index offers. Python
# compiles a module when it is imported first.
WHEELS := $(CACHE)/wheels
unpack = $(PIP) install --require-hashes --no-compile --no-index --find-links "$(WHEELS)" -r $(1)
install = $(call unpack,$(1)) 2>/dev/null || { $(PIP) download --require-hashes --dest "$(WHEELS)" -r $(1) && $(call unpack,$(1)); }
READY := $(VENV)/.ready
SITE := $(VENV)/.site
# Tests side by side: one a core, and five at least, for most of them wait; a cluster takes a core only while it boots.
CORES := $(shell nproc 2>/dev/null || echo 2)
WORKERS ?= $(shell [ $(CORES) -gt 5 ] && echo $(CORES) || echo 5)
HELM_DOCS = $(PY) -m devcluster tool helm-docs --chart-search-root charts --sort-values-order file --log-level warning
IMAGE ?= localhost/gpu-operator-post:dev
GRYPE ?= grype
# A cluster belongs to its users: only one that is named as an argument is used, with an image that it can pull.
THEIRS = $(if $(filter command line,$(origin KUBECONFIG)),$(KUBECONFIG))
FOREIGN = $(if $(THEIRS),--kubeconfig $(THEIRS)) $(if $(filter-out file,$(origin IMAGE)),--test_extra_info image=$(IMAGE))
EXAMPLES ?= 2000
SAMPLE ?= 500
SEED ?= 1

# Tests start the program and the simulators a thousand times: compiling their sources each time takes as long as the rest.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo demo-programs try bench test test-unit test-quick quick-programs model mutants test-cluster test-simulator test-deployers test-nightly test-image test-visit lint type format sizes chart binaries node-binaries deployers \
	image image-tools scan docs samples golden site test-site site-tools site-version lock release-chart clean

##@ Set up
help: ## Show this help
	@sed -n -e 's/^##@ \(.*\)/\n\1/p' -e 's/^\([a-z-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 18

$(READY): requirements/dev.txt pyproject.toml
	@echo "Setting up Python packages in $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(call install,requirements/dev.txt)
	@touch $@

setup: $(READY) ## Set up the Python packages, which every other target does by itself

binaries: $(READY) ## Build the programs of the embedded cluster and of the tests (once; minutes), or find them
	@$(PY) -m devcluster binaries

deployers: $(READY) ## Build the deployment tools of test-deployers (once; minutes) or find them
	@$(PY) -m devcluster binaries --deployers

node-binaries: $(READY) ## Build the programs of a real node (once; minutes) or find them, where one can run
	@! $(PY) -m tools.image.check || $(PY) -m devcluster binaries --node

##@ Try and measure
# Programs are built while Python packages are installed. What is installed on the machine and fits is not built.
demo: ## Watch a driver upgrade on a real control plane; KUBECONFIG=file: on that cluster, which gets simulated nodes for a while; MODE=compute-domains: without GPUs; REAL=1: with NVIDIA's plugin on a real node (root; make image-tools)
	@$(if $(REAL),$(MAKE) --silent --no-print-directory $(READY) && $(PY) -m devcluster.demo --real --check)
	@$(MAKE) --silent --no-print-directory -j2 $(READY) demo-programs
	@$(PY) -m devcluster.demo $(if $(REAL),--real,$(if $(THEIRS),--kubeconfig $(THEIRS)) $(if $(MODE),--mode=$(MODE)))

demo-programs:
	@$(PYTHON) -m devcluster.build $(if $(THEIRS),kwok kubectl upgrade helm4)

try: $(READY) ## Watch it on a kind cluster of its own, with the image (needs Docker and kind); the cluster is deleted
	@$(PY) -m devcluster.demo --kind $(IMAGE) --check
	@$(MAKE) --no-print-directory image
	@$(PY) -m devcluster.demo --kind $(IMAGE)

bench: binaries ## Measure what docs/performance.md shows into build/bench (half an hour); BENCH=no-op-15000: one measurement
	@$(call install,requirements/bench.txt)
	@$(PY) -m devcluster.bench $(BENCH)
	@$(PY) -m devcluster.bench.picture

##@ Test
# tools/test.sh says what is built while what runs. CHECKS: what needs no program.
test: CHECKS ?= test-unit
test: $(READY) ## Build what the tests need (once; minutes), then run all but those below that few changes touch; DEPLOYERS=1: also test-deployers
	@CHECKS="$(CHECKS)" DEPLOYERS="$(DEPLOYERS)" WORKERS="$(WORKERS)" bash tools/test.sh

test-unit: $(READY) ## Run the unit tests, and check that they cover the core
	$(PY) -m pytest -q -n $(CORES) tests/unit --cov=hook.decide --cov=hook.objects --cov=hook.settings --cov=hook.format --cov=ctl.plan --cov-branch --cov-fail-under=100 --cov-report=term:skip-covered

# Elsewhere they are skipped where the simulator did not change: tests/simulator/conftest.py.
test-simulator: binaries ## Run the tests of the simulated cluster and fleet, changed or not
	SIMULATOR=1 $(PY) -m pytest -n $(WORKERS) --durations=10 tests/simulator

test-deployers: binaries deployers ## Run the tests with real Flux, Argo CD, helmfile and Helm
	$(PY) -m pytest -n $(WORKERS) --durations=10 -m "not nightly" tests/deployers

test-nightly: binaries node-binaries deployers ## Run what takes minutes and few changes touch: the soak, gates of Flux and Argo CD
	$(PY) -m pytest -n $(WORKERS) --durations=10 -m nightly tests

# Programs are built while Python packages are installed.
test-quick: ## Run the tests that need no cluster, properties with a few examples (a minute; the first time, some more to build two versions of Helm and promtool)
	@$(MAKE) --silent --no-print-directory -j2 $(READY) quick-programs
	MODEL_EXAMPLES=3 $(PY) -m pytest -n $(CORES) --ignore=tests/chart/cluster tests/unit tests/properties tests/chart

quick-programs:
	@$(PYTHON) -m devcluster.build helm3 helm4 promtool

model: $(READY) ## Run the model test on many new histories: EXAMPLES=2000 of each family
	MODEL_EXAMPLES=$(EXAMPLES) $(PY) -m pytest -n $(CORES) --durations=3 tests/properties/test_promises.py

mutants: $(READY) ## Break hook/decide, kube and run in SAMPLE=500 places drawn from SEED=1; fails where no test notices (half an hour)
	@$(call install,requirements/mutation.txt)
	$(PY) -m tools.mutants --sample $(SAMPLE) --seed $(SEED)

# An embedded cluster takes all programs; another one only those of its user, and ours in the place of missing ones.
test-cluster: $(if $(THEIRS),$(READY),binaries) ## Certify the cluster of KUBECONFIG=file with the image IMAGE, in a namespace of its own
	@{ command -v helm && command -v kubectl; } >/dev/null || $(PY) -m devcluster binaries helm4 kubectl
	$(PY) -m pytest tests/certify $(FOREIGN)

##@ Check
lint: $(READY) ## Check style, imports and workflows
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	PYTHONPATH=. $(VENV)/bin/lint-imports --no-logo
	$(PY) -m devcluster tool actionlint -oneline -shellcheck= -pyflakes=
	$(VENV)/bin/zizmor --offline --quiet --persona pedantic .github

type: $(READY) ## Check types
	$(PY) -m mypy --cache-dir "$(CACHE)/mypy"

sizes: ## Show how many lines of Python each package has, for information
	@for part in hook ctl bundler devcluster tests tools; do \
	  printf '%-12s%8d\n' $$part $$(git ls-files "$$part/*.py" | xargs cat | wc -l); done

format: $(READY) ## Format the sources
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

chart: $(READY) ## Check the Helm chart and its generated documents
	$(HELM_DOCS) --dry-run | diff charts/gpu-operator-post/README.md -
	$(PY) -m tools.reasons --check
	$(PY) -m tools.reference --check
	$(PY) -m devcluster.bench.tables --check
	$(PY) -m yamllint --strict -c tools/ct/lintconf.yaml charts/gpu-operator-post/Chart.yaml charts/gpu-operator-post/values.yaml charts/gpu-operator-post/ci

##@ Documents
docs: $(READY) ## Write the generated documents: chart README, reasons, command line, examples, performance
	$(HELM_DOCS)
	$(PY) -m tools.reasons
	$(PY) -m tests.bundler.test_examples
	$(PY) -m tools.reference
	$(PY) -m devcluster.bench.tables

samples: binaries ## Write the samples of output into the documents: what a run on a cluster prints (a minute)
	$(PY) -m tools.samples

$(SITE): requirements/docs.txt $(READY)
	@$(call install,requirements/docs.txt)
	@touch $@

site: $(SITE) ## Build the web site into build/site (needs npm); a broken link is an error
	@$(PY) -m tools.site

# The browser works on the built site and leaves pictures in build/screenshots. Without npm or Chromium, a test is skipped
# with a reason; with REQUIRE_SITE=1 it fails.
test-site: $(SITE) ## Test the web site and the page of `report` in a headless Chromium (make site-tools)
	@! command -v npm >/dev/null || $(PY) -c 'from tools.site import mermaid; mermaid()'
	$(PY) -m pytest -q tests/release/test_site.py tests/process/test_page.py

# Node.js of another source brings npm, and conflicts with Debian's.
site-tools: ## Install what `test-site` needs on Debian (as root)
	apt-get update -qq
	apt-get install --yes --no-install-recommends $$(for tool in chromium npm; do command -v $$tool >/dev/null || echo $$tool; done)

# mike commits the site of this version to the branch gh-pages, and pushes nothing.
site-version: $(SITE) ## Add the site of VERSION=1.2.3 to the local branch gh-pages, as the latest one
	export PATH="$(CURDIR)/$(VENV)/bin:$$PATH" NO_MKDOCS_2_WARNING=1; \
	  mike deploy --update-aliases $(VERSION) latest && mike set-default latest

golden: $(READY) ## Write what the chart renders: docs/reference/installed.md and tests/chart/golden
	$(PY) -m tests.chart.test_golden

##@ Image
image: ## Build the image with Docker or buildah
	@$(PYTHON) -m tools.image --tag $(IMAGE)

image-tools: ## Install what `test-image` needs on Debian (as root)
	apt-get update -qq
	apt-get install --yes --no-install-recommends buildah debootstrap containernetworking-plugins gcc iproute2 libc6-dev \
	  libseccomp-dev pkg-config

# The second: what takes minutes of a whole machine (the image built twice, a fleet of a thousand nodes).
test-image: binaries node-binaries ## Test the image on a real kubelet, or show why it cannot
	$(PY) -m pytest -n $(WORKERS) --durations=10 -m "not large" tests/image
	$(PY) -m pytest --durations=10 -m large tests/image

test-visit: $(READY) ## Run the main scenarios with the image IMAGE in the throw-away cluster of KUBECONFIG=file (kind)
	@$(PY) -m devcluster binaries kwok kubectl upgrade helm4
	$(PY) -m pytest tests/image/test_visit.py $(FOREIGN)

##@ Release
# Options that keep a machine's own package index and paths out of the lock.
lock: ## Lock the Python requirements anew after an edit of requirements/*.in (needs pip-tools)
	cd requirements && for name in runtime dev mutation bench docs; do \
	  pip-compile --quiet --generate-hashes --allow-unsafe --no-strip-extras \
	    --no-header --no-emit-find-links --no-emit-index-url $$name.in || exit 1; done

scan: ## Fail where the image has a severe vulnerability that has a fix (needs grype)
	$(GRYPE) --only-fixed --fail-on high $(if $(PLATFORM),--platform $(PLATFORM)) $(IMAGE)

release-chart: $(READY) ## Package the chart as a release of REPOSITORY=owner/name with its IMAGE_DIGEST, into build/
	$(PY) -m tools.release $(REPOSITORY) $(if $(IMAGE_DIGEST),--image-digest $(IMAGE_DIGEST))
	$(PY) -m devcluster tool helm4 package build/release/gpu-operator-post --destination build

clean: ## Remove what was set up in this directory
	rm -rf $(VENV) .devcluster build *.egg-info
