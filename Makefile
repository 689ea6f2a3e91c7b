# Commands for developers and CI. Each target first creates the virtual environments that it needs in this folder.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
ADDRESS ?= 127.0.0.1:50051
METRICS_ADDRESS ?= 127.0.0.1:9464
WEB_ADDRESS ?= 127.0.0.1:8080
# For pytest: make test ARGS="tests/unit -k search"
ARGS ?=

ROOMS := proto kernels model export server client gateway
PYPROJECTS := $(ROOMS:%=%/pyproject.toml)
KERNELS := kernels/setup.py $(wildcard $(addprefix kernels/src/xuanzang/kernels/,*.cc *.h *.inc))
BIN := .venv/bin
INSTALL := -m pip install --quiet --constraint constraints.txt

# Names a newer Python if PYTHON is missing or too old.
require-python = @$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo "xuanzang needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1 || true)." >&2; \
	newer=$$(command -v python3.13 python3.12 python3.11 | head -n 1 || true); \
	echo "Install one, such as python3.12 and python3.12-venv, and name it: make $(or $(MAKECMDGOALS),$@) PYTHON=$${newer:-python3.12}" >&2; exit 1; }

.PHONY: help setup demo serve web test slow e2e check bench proto wheels clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "%-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/ready ## Install every room and tool into .venv, torch included (about 2 GB)

demo: .venv-demo/ready ## Serve the default bundles, translate some sentences, show metrics (no torch)
	@.venv-demo/bin/python client/examples/demo.py

serve: .venv-demo/ready ## Serve server/models on ADDRESS, with metrics on METRICS_ADDRESS
	exec .venv-demo/bin/python -m xuanzang.server --models server/models \
		--address $(ADDRESS) --metrics-address $(METRICS_ADDRESS)

web: .venv-demo/ready ## Serve the default bundles on ADDRESS, and the page on WEB_ADDRESS in a browser (no torch)
	@.venv-demo/bin/python client/examples/web.py $(WEB_ADDRESS) $(ADDRESS)

# Two processes of one thread for each core, because half of the time they wait for servers. A file's tests share one
# process. A process that hangs ends with its stacks in the log. The others finish their files, and the run fails: if
# pytest-xdist 3.8 replaces a process, it also gives finished files to the others, which then wait forever.
ENDS_HANGS := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true --max-worker-restart 0
TEST_PROCESSES = $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
test: .venv/ready ## Run the tests on all cores
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(TEST_PROCESSES) --dist loadfile $(ENDS_HANGS) -m "not e2e and not slow" $(ARGS)

slow: .venv/ready ## Run the tests that `make test` leaves out because they take long (some minutes)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto $(ENDS_HANGS) -m slow $(ARGS)

# -rs names what was skipped, and why.
e2e: .venv/ready ## Run what deploys the server: manifests, Envoy, failover, containers, Ray; and the page, in Chromium
	$(BIN)/python $(INSTALL) --group browser
	PYTHON=$(PYTHON) .ci/peers kubernetes envoy ray triton kserve libretranslate
	@command -v chromium chromium-browser google-chrome >/dev/null || \
		echo "THE PAGE WILL NOT BE OPENED: there is no Chromium: apt-get install chromium" >&2
	$(BIN)/pytest -m e2e -rs $(ARGS)

check: .venv/ready .venv-proto/ready ## Check style, types, import rules, protos, C++ format, Dockerfile, compose file, alert rules and docs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	.ci/protos --check
	$(BIN)/clang-format --dry-run --Werror $(filter-out %.py,$(KERNELS)) tests/unit/kernels/arithmetic.cc
	$(BIN)/python docs/site/settings_reference.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/hadolint server/Dockerfile gateway/Dockerfile
	$(BIN)/docker-compose config --quiet
	$(call schema,github-workflows,.github/workflows/*.yml)
	$(BIN)/zizmor --offline --quiet --min-severity medium .github/workflows
	$(call schema,github-issue-forms,.github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml)
	$(call schema,dependabot,.github/dependabot.yml)
	$(call schema,citation-file-format,CITATION.cff)
	.ci/release --check
	$(call where-found,promtool,prometheus,check config deploy/prometheus/prometheus.yml)
	$(call where-found,promtool,prometheus,test rules deploy/prometheus/tests/*.yml)
	$(call where-found,amtool,prometheus-alertmanager,check-config deploy/alertmanager/alertmanager.yml)

schema = $(BIN)/check-jsonschema --quiet --builtin-schema vendor.$(1) $(2)

# Runs $(1) $(3), or says that it did not.
where-found = if command -v $(1) >/dev/null; then $(1) $(3); else \
	echo "NOT CHECKED: $(1) $(3), because there is no $(1): apt-get install $(2)" >&2; fi

bench: .venv/ready ## Time the engine against CTranslate2 on the same weights (QUICK=1: some minutes; ARGS="--model bundled")
	$(BIN)/python -m benchmarks.engines.bench $(if $(QUICK),--quick) $(ARGS)

proto: .venv-proto/ready .venv/ready ## Generate proto/src from the .proto files, Envoy's descriptors and the baseline
	.ci/protos
	$(BIN)/python deploy/envoy/describe.py

wheels: ## Build all wheels; check that those of client, server and gateway each work alone
	.ci/wheels

clean: ## Remove build outputs, caches, and every environment but .venv
	rm -rf build dist $(ROOMS:%=%/build) .venv-* .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

.venv/ready: pyproject.toml constraints.txt $(PYPROJECTS) $(KERNELS)
	$(require-python)
	$(PYTHON) -m venv .venv
	$(BIN)/python $(INSTALL) --upgrade pip
	$(BIN)/python $(INSTALL) -e proto -e kernels -e 'model[training,plots,moses,shortlist]' -e 'export[checkpoints]' -e 'client[catalogues,documents,parquet,loadtest]' -e 'server[cpu,detection,traditional,moses,otel,hub,pull,batch]' -e 'gateway[grpc,google]' --group dev
	touch $@

# One line per step of pip.
PROGRESS := .venv-demo/bin/python -uc 'import re, sys; [print("  " + step[1], flush=True) for line in sys.stdin \
	if (step := re.match(r" *(Obtaining \S+|Collecting \S+|Building editable for \S+(?=.* started)|Installing collected packages)", line))]'
DEMO := PYTHONUNBUFFERED=1 .venv-demo/bin/python -m pip install --constraint constraints.txt --disable-pip-version-check --no-compile --progress-bar off
.venv-demo/ready: constraints.txt $(filter-out model/% export/%,$(PYPROJECTS)) $(KERNELS)
	$(require-python)
	@echo "Installing server, page and commands into .venv-demo: 300 MB, a minute or two, once."
	@echo "  Creating an environment of $$($(PYTHON) --version)" && $(PYTHON) -m venv .venv-demo
	@$(DEMO) 'setuptools>=80' | $(PROGRESS)
	@$(DEMO) --no-build-isolation -e proto -e kernels -e 'client[documents]' -e 'server[cpu,detection]' -e gateway | $(PROGRESS)
	@touch $@

# Newer generators would force a newer grpcio on every user of the client.
.venv-proto/ready: Makefile
	$(PYTHON) -m venv --clear .venv-proto
	.venv-proto/bin/python -m pip install --quiet grpcio-tools==1.76.0 mypy-protobuf==3.6.0 'setuptools<81'
	touch $@
