# Python 3.11 or newer and make are enough; everything else is installed into .venv.
# Set PYTHON=python3.12 if `python3` is an older one.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
LOG := $(VENV)/install.log
EXAMPLE := pipelines/examples/python-functions.yaml
ARGS ?=
# `never`: a program that is not built yet is an error instead of a build.
BUILD ?=

# Half as many processes again as there are cores, since tests wait much of their time.
WORKERS ?= $(shell cores=$$(nproc 2> /dev/null || echo 2); echo $$(((cores * 3 + 1) / 2)))
export WORKERS
PARALLEL := --numprocesses $(WORKERS)
REPORTS := .cache/reports
PRODUCTS ?= curator daft data-juicer datatrove
# These packages start no Ray and no server.
PURE := $(addprefix tests/,api engine laws ledger operator packs plan statistics)
GROUPS := tests/running/run_groups.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run quick room group lowest wheel test test-more test-all check laws coverage browser crds reference bench rivals products trainers llama agreement real-data picture picture-diff kills crash fuzz mutants soak soak-operator ray-versions clocks cluster dns s3 gcs azure policies node try e2e e2e-all e2e-spot karpenter kueue helm chart readers gitops workflow scanner scan images docs release-dry changelog constraints upgrade clean

help: ## List the targets
	@sed -nE 's/^([a-z0-9-]+):[^#]*## (.*)$$/  make \1\t\2/p' Makefile | expand -t 22

run: $(RUNTIME) ## Run the main example: the Python sources on this machine, curated
	@echo "strandline run $(EXAMPLE) $(ARGS)"
	@$(BIN)/strandline run $(EXAMPLE) $(ARGS)

quick: $(STAMP) ## Lint, types, the layout, and the short tests of the pure rooms with few examples: two minutes on two cores
	@$(lint)
	@echo "pytest tests/architecture $(PURE)"
	@$(BIN)/python -m pytest --quiet $(PARALLEL) --hypothesis-profile=quick -m "not slow" --most-seconds=1.5 tests/architecture $(PURE) $(ARGS)

room: $(STAMP) ## The same for one room, with all of its tests: R=engine
	@test -n "$(R)" && test -d "tests/$(R)" || { \
		echo "strandline: name a folder of tests, as in \`make room R=engine\`:" $$(cd tests && ls -d [a-z]*/) >&2; exit 1; }
	@$(lint)
	@echo "pytest tests/$(R)"
	@$(BIN)/python -m pytest --quiet $(PARALLEL) "tests/$(R)" $(ARGS)

group: $(STAMP) ## One or more groups of the second or third tier: G=stores, G="server chart"
	@$(BIN)/python $(GROUPS) $(G) $(ARGS)

lowest: $(STAMP) ## Tests of the pure rooms with the lowest versions that pyproject.toml allows, in .cache/lowest
	@$(BIN)/python tests/running/run_lowest.py $(ARGS)

wheel: $(STAMP) ## Build the wheel, install it in an empty environment, and run the first example from it twice
	@.ci/wheel

test: $(STAMP) ## The first tier: lint, types, and all tests that need Python only; WORKERS=N processes
	@$(BIN)/python tests/running/run_first_tier.py $(ARGS)

test-more: $(STAMP) ## The second tier: the groups that your change selects; BASE=COMMIT says since when
	@$(BIN)/python $(GROUPS) --changed $(BASE) $(ARGS)

test-all: $(STAMP) ## Every tier, some hours; writes tests/record.json and tests/durations.json; ARGS="GROUP ..." picks some
	@$(BIN)/python $(GROUPS) --all $(ARGS)

check: $(STAMP) ## Lint, format, types, import contracts, generated files, spelling
	@$(lint)
	@echo "crds/generate.py --check" && $(BIN)/python crds/generate.py --check
	@echo "pipelines/stage_index.py --check" && $(BIN)/python pipelines/stage_index.py --check
	@echo "codespell" && $(BIN)/codespell

laws: $(STAMP) ## Give every law a thousand examples that nobody has seen; what fails says how to repeat it
	@echo "pytest -m hypothesis"
	@$(BIN)/python -m pytest $(PARALLEL) --hypothesis-profile=many -m hypothesis --timeout=3600 $(ARGS)

coverage: $(STAMP) ## Show which lines of the pure rooms their tests run; nothing is demanded
	@mkdir -p $(REPORTS) && COVERAGE_FILE=$(REPORTS)/coverage.db $(BIN)/python -m pytest --quiet $(PARALLEL) \
		--cov=strandline --cov=strandline_api --cov=strandline_operator \
		--cov-branch --cov-report=term-missing:skip-covered --cov-report=html:$(REPORTS)/coverage $(PURE) $(ARGS)

browser: ## Install Chromium, in which reports are tested, where there is no browser; Debian, root
	@for name in "$$STRANDLINE_CHROMIUM" chromium chromium-browser google-chrome google-chrome-stable; do \
		found=$$(command -v "$$name") && { echo "$$found"; exit 0; }; done; \
	command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ] || { \
		echo "strandline: only root can install Chromium, and here only on Debian;" \
			"or name one in STRANDLINE_CHROMIUM" >&2; exit 1; }; \
	apt-get update --quiet --quiet && \
	DEBIAN_FRONTEND=noninteractive apt-get install --quiet --quiet --yes --no-install-recommends chromium

crds: $(STAMP) ## Write the generated files anew
	@$(BIN)/python pipelines/stage_index.py && $(BIN)/python crds/generate.py

reference: $(STAMP) ## Write docs/stage-table.md anew from the code
	@$(BIN)/python docs/stage_table.py

bench: $(STAMP) ## Measure, and print tables; COMPARE=<commit> names what became worse since, ARGS=--floors what a night must hold
	@$(BIN)/python bench/run.py $(if $(COMPARE),--compare $(COMPARE)) $(ARGS)

rivals: $(STAMP) ## Install the engines that `make bench` compares with
	@$(BIN)/pip install --quiet --constraint constraints.txt --group bench

products: $(STAMP) ## Install the products that `make bench` compares commands with, each in an environment of its own: 8 GB
	@for name in $(PRODUCTS); do \
		test -x .cache/products/$$name/bin/python || $(BIN)/python -m venv .cache/products/$$name; \
		.cache/products/$$name/bin/python -m pip install --quiet 'pip>=25.1' && \
		.cache/products/$$name/bin/python -m pip install --quiet --group product-$$name || exit 1; \
	done

trainers: $(STAMP) ## Install the loaders that docs/training.md reads with, in an environment of their own: 6 GB
	@test -x .cache/trainers/bin/python || $(BIN)/python -m venv .cache/trainers
	@.cache/trainers/bin/python -m pip install --quiet 'pip>=25.1'
	@.cache/trainers/bin/python -m pip install --quiet --group trainers

llama: $(STAMP) ## Ask a real model behind llama.cpp's server, and kill it; ten minutes to compile, once
	@test -x .cache/llama/bin/python || $(BIN)/python -m venv .cache/llama
	@.cache/llama/bin/python -m pip install --quiet 'pip>=25.1'
	@CMAKE_BUILD_PARALLEL_LEVEL=1 nice -n 10 .cache/llama/bin/python -m pip install --quiet --group llama
	@STRANDLINE_TEST_LLAMA="$(CURDIR)/.cache/llama/bin/python" nice -n 10 $(BIN)/python -m pytest tests/run/test_real_model.py $(ARGS)

real-data: $(STAMP) ## Print what is made of inputs as other people's programs leave them; ARGS=lines picks a family
	@PYTHONPATH=tests/packs:pipelines/examples $(BIN)/python tests/real_data/run_real_data.py $(ARGS)

agreement: $(STAMP) ## Compare reading, filters and FineWeb's recipe with datatrove's, after `make rivals`; ARGS=--write puts the tables into the documents
	@$(call need_module,datatrove,rivals)
	@PYTHONPATH=bench:pipelines/examples $(BIN)/python -m strandline_bench.text.readers $(filter --write,$(ARGS))
	@PYTHONPATH=bench $(BIN)/python -m strandline_bench.text.comparison $(ARGS)

picture: $(STAMP) ## Draw the pictures of README and docs/trace.md from real runs; Chromium
	@$(BIN)/python docs/pictures/draw_trace.py
	@PYTHONPATH=tests/report $(BIN)/python docs/pictures/draw.py

picture-diff: $(STAMP) ## Draw the picture of docs/diff.md, from its own blocks; Chromium
	@PYTHONPATH=tests/report:tests/docs:tests/support $(BIN)/python docs/pictures/draw_diff.py

kills: $(STAMP) ## Kill every kind of process twenty times in the main job, and tell what was lost
	@PYTHONPATH=tests/support:pipelines/examples $(BIN)/python tests/runtime/run_kills.py $(ARGS)

crash: $(STAMP) ## Fail at every named step in every way, with each engine, and run again
	@PYTHONPATH=tests/runtime:tests/support $(BIN)/python tests/runtime/crash/run_matrix.py $(ARGS)

fuzz: $(STAMP) ## Draw pipelines and kills for SECONDS_TO_RUN seconds (60), and compare; SEED=... repeats
	@PYTHONPATH=tests/runtime:tests/support:tests/packs:tests/stores:tests/apiserver $(BIN)/python tests/fuzz/run_fuzz.py

mutants: $(STAMP) ## Plant faults where things are decided, SECONDS_TO_RUN seconds (600); tests must fail
	@$(BIN)/python tests/mutants/run_mutants.py

soak: $(STAMP) ## Disturb running jobs at random for SECONDS_TO_RUN seconds (600), then verify them
	@PYTHONPATH=tests/support $(BIN)/python tests/runtime/run_soak.py

soak-operator: $(STAMP) ## Kill the operator in KILLS schedules (100) on a real API server; SEED=... repeats
	@PYTHONPATH=tests/apiserver $(BIN)/python tests/apiserver/run_operator_soak.py $(ARGS)

ray-versions: $(STAMP) ## Run on the oldest and the newest Ray that pyproject.toml allows, each installed; ARGS="2.55.1 ..." picks some
	@$(BIN)/python tests/runtime/run_ray_versions.py $(ARGS)

clocks: $(STAMP) ## Play all clocks that are off or are set, on a real API server; ten minutes
	@STRANDLINE_ALL_CLOCKS=1 $(BIN)/python -m pytest --quiet tests/apiserver/test_clocks_on_a_server.py $(ARGS)

cluster: ## Build the control plane for tests, once: Go and five minutes; prints where it is
	@$(call build_go,cluster,strandline-cluster,1.24,five minutes)

dns: ## Build the DNS server and the pause program of a node for tests, once: Go and a minute or two
	@$(call build_go,dns,strandline-dns,1.26,a minute or two)

s3: ## Build the S3 server for tests, once: Go and three minutes; prints where it is
	@$(call build_go,s3,versitygw,1.25,three minutes)

gcs: ## Build the server for tests that plays Google's stores, once: Go and three minutes; prints where it is
	@$(call build_go,gcs,fake-gcs-server,1.26,three minutes)

azure: ## Install the server for tests that plays Azure's stores, once: npm and a minute; prints where it is
	@$(call provide,azure,cat package.json package-lock.json,server/node_modules/.bin/azurite-blob,npm,Node.js 20,installing,a minute,$(install_azure))

policies: ## Build what enforces NetworkPolicies on a node for tests, once: Go and two minutes; prints where it is
	@$(call build_go,policies,kube-router,1.26,two minutes)

node: $(STAMP) ## Bring up a real Kubernetes node in namespaces of its own until Ctrl-C; ARGS=--trial tries it
	@PYTHONPATH=e2e $(BIN)/python -m real_node up $(ARGS)

try: $(STAMP) ## Show the main example on a real node, a worker that is killed, and the second attempt; root, no Docker
	@[ "$$(id -u)" = 0 ] || { \
		echo "strandline: a node is brought up by root only; docs/try.md has the same on kind and k3d" >&2; exit 1; }; \
	echo "try: the first call builds what a node runs, in about twenty minutes on two cores; later ones take about four"; \
	unset KUBECONFIG KUBERAY; export PYTHONPATH=e2e; \
	$(call need_helm); $(call need_images); \
	exec $(call on_node,try-node) $(BIN)/python -m proving_ground.first_look

e2e: $(STAMP) ## Play the short scenarios on a real node, or in the cluster of KUBECONFIG; KUBERAY=CHECKOUT
	@$(call play,not extended)

e2e-all: $(STAMP) ## Play all scenarios, the same ways; writes the result of each to docs/scenarios.md
	@$(call play,extended or not extended,--record-results)

helm: ## Build Helm for tests, once: Go and four minutes; prints where it is
	@$(call build_go,helm,helm,1.26,four minutes)

chart: $(STAMP) ## Lint and render the chart, install it in a real API server, try what docs/install.md says
	@helm=$$($(MAKE) --silent --no-print-directory helm) || exit 1; \
	for values in charts/strandline/ci/*-values.yaml; do \
		echo "helm lint --strict --values $$values" && \
		"$$helm" lint --strict --quiet charts/strandline --values "$$values" || exit 1; done
	@echo "pytest tests/chart"
	@STRANDLINE_NEEDS_HELM=1 $(BIN)/python -m pytest tests/chart $(ARGS)

readers: ## Build what reads statuses as Flux and Argo CD do, once: Go and three minutes; prints where it is
	@$(call build_go,gitops,strandline-gitops,1.24,three minutes)

gitops: $(STAMP) ## Read all recorded statuses as Flux and Argo CD do, with the libraries of both
	@program=$$($(MAKE) --silent --no-print-directory readers) || exit 1; \
	echo "pytest tests/gitops" && STRANDLINE_NEEDS_GITOPS=1 STRANDLINE_GITOPS="$$program" \
		$(BIN)/python -m pytest tests/gitops $(ARGS)

workflow: ## Check what GitHub would run, without running it; Go, a minute once
	@program=$$($(call build_go,actionlint,actionlint,1.24,a minute)) || exit 1; \
	echo "actionlint" && "$$program" .github/workflows/*.yaml

e2e-spot: $(STAMP) ## Play what befalls spot nodes, the same ways
	@$(call play,spot)

karpenter: $(STAMP) ## Record anew what Karpenter writes, on a real API server; Go, five minutes; STORIES=a,b picks some
	@program=$$($(call build_go,karpenter,karpenter,1.21,three minutes)) || exit 1; \
	module=$$(GOTOOLCHAIN=auto go -C e2e/karpenter list -m -f '{{.Dir}}' sigs.k8s.io/karpenter) && \
	PYTHONPATH=tests/apiserver $(BIN)/python tests/apiserver/record_karpenter.py \
		"$$program" "$$module/pkg/apis/crds" "$$module/kwok/apis/crds"

kueue: $(STAMP) ## Record anew what Kueue does to RayJobs, on a real API server; Go, five minutes once; STORIES=a,b picks some
	@program=$$($(call build_go,kueue,kueue,1.25,five minutes)) || exit 1; \
	module=$$(GOTOOLCHAIN=auto go -C e2e/kueue list -m -f '{{.Dir}}' sigs.k8s.io/kueue) && \
	PYTHONPATH=tests/apiserver:e2e $(BIN)/python tests/apiserver/record_kueue.py \
		"$$program" "$$module/config/components"

scanner: ## Build the scanner of images, once: Go and three minutes; prints where it is
	@$(call build_go,scanner,osv-scanner,1.26,three minutes)

scan: ## Look for known vulnerabilities in the parts of images, listed in ARGS="FILE.spdx.json ..."; asks osv.dev
	@test -n "$(ARGS)" || { \
		echo "strandline: name the lists of parts; \`make images\` writes them, see docs/container-images.md" >&2; exit 1; }
	@program=$$($(MAKE) --silent --no-print-directory scanner) || exit 1; \
	PYTHONPATH=e2e "$(PYTHON)" -m scanning --scanner "$$program" $(ARGS)

images: $(STAMP) ## Build both images once; prints names and archives. BASE=local where no registry is reached
	@PYTHONPATH=e2e $(BIN)/python -m images $(or $(ARGS),build) --base "$(BASE)"

docs: $(STAMP) ## Build the site of the documents into .cache/site; a broken link is an error
	@echo "mkdocs build --strict"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict > $(VENV)/docs.log 2>&1 || { cat $(VENV)/docs.log; exit 1; }

release-dry: $(STAMP) ## Do what a release does before it is published: build, install, run, list the parts
	@.ci/release-dry

changelog: $(STAMP) ## Show what the fragments in changelog.d would add to CHANGELOG.md
	@$(BIN)/towncrier build --draft --version next 2> /dev/null

constraints: $(STAMP) ## Write constraints.txt from what .venv holds
	@$(call freeze,constraints.txt)
	@touch $(STAMP)

upgrade: ## Move .venv to the newest versions that pyproject.toml allows, and pin them
	@PYTHON="$(PYTHON)" .ci/install everything --upgrade
	@$(call freeze,/dev/null)
	@touch $(STAMP)

clean: ## Remove .venv and caches; what runs have written stays
	@rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find bench charts crds e2e operator pipelines tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME): pyproject.toml constraints.txt
	@PYTHON="$(PYTHON)" .ci/install runtime

$(STAMP): pyproject.toml constraints.txt
	@PYTHON="$(PYTHON)" .ci/install everything

# Status 2 of mypy is an error of its own: its workers give up after 3 seconds on a busy machine.
define lint
	echo "ruff check" && $(BIN)/ruff check --quiet && \
	echo "ruff format --check" && { $(BIN)/ruff format --check --quiet \
		|| { echo "these files are not formatted; run: $(BIN)/ruff format"; \
			$(BIN)/ruff format --check; exit 1; }; } && \
	echo "mypy" && { $(BIN)/mypy --num-workers 2 --no-error-summary || { \
		test $$? = 2 && $(BIN)/mypy --no-error-summary; }; } && \
	echo "lint-imports" && { PYTHONPATH=bench:e2e $(BIN)/lint-imports --no-logo > $(VENV)/imports.log 2>&1 \
		|| { cat $(VENV)/imports.log; exit 1; }; }
endef

define need_helm
	STRANDLINE_HELM=$$($(MAKE) --silent --no-print-directory helm) || exit 1; export STRANDLINE_HELM
endef

define need_images
	export STRANDLINE_IMAGE_BASE="$(or $(BASE),local)"; echo "images on $$STRANDLINE_IMAGE_BASE" && \
		$(BIN)/python -m images build --base "$$STRANDLINE_IMAGE_BASE" || exit 1
endef

# 1: a folder in the cache; the command that runs on the node follows
define on_node
	$(BIN)/python -m real_node up --folder "$${XDG_CACHE_HOME:-$$HOME/.cache}/strandline/$(1)" --
endef

# A node needs images in the cache; a cluster that is there needs them in its registry, or loaded.
# KUBERAY, the folder of a checkout in which KubeRay was built, takes the place of the stand-in.
# 1: which scenarios, as pytest's marks say it, 2: more options of pytest
define play
	if [ -z "$$KUBECONFIG" ] && [ "$$(id -u)" != 0 ]; then \
		echo "strandline: a node is brought up by root only; or name a cluster by KUBECONFIG" >&2; exit 1; fi; \
	export PYTHONPATH=e2e; \
	if [ -n "$$KUBERAY" ]; then \
		[ -z "$$KUBECONFIG" ] || { \
			echo "strandline: KUBERAY is for a node that is brought up here; the cluster of KUBECONFIG" \
				"keeps the KubeRay that it has: say one or the other" >&2; exit 1; }; \
		KUBERAY=$$($(BIN)/python -m proving_ground.installation.kuberay "$$KUBERAY") || exit 1; export KUBERAY; \
	fi; \
	$(call need_helm); \
	$(MAKE) --silent --no-print-directory s3 > /dev/null || exit 1; \
	[ "$(1)" != "extended or not extended" ] || $(MAKE) --silent --no-print-directory policies > /dev/null || exit 1; \
	set -- $(BIN)/python -m proving_ground.results.playing "$(1)" $(2) $(ARGS); \
	if [ -z "$$KUBECONFIG" ]; then \
		$(call need_images); \
		[ "$(1)" != "extended or not extended" ] || { \
			$(BIN)/python -m images build --last-release --base "$$STRANDLINE_IMAGE_BASE" \
				|| [ -z "$$CI" ] || exit 1; }; \
		set -- $(call on_node,e2e-node) "$$@"; \
	fi; \
	echo "pytest e2e/scenarios" && "$$@"
endef

# 1: a Python module, 2: the target that installs it
define need_module
	$(BIN)/python -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("$(1)") is None)' || { \
		echo "strandline: $(1) is not installed; run: make $(2)" >&2; exit 1; }
endef

# What only the images hold is asked of pip, which moves it from the pins in $(1) only where it must.
define freeze
	$(BIN)/python -m pip freeze --all --exclude-editable --exclude setuptools --exclude wheel 2> /dev/null \
		| grep -E '^[A-Za-z0-9._-]+==[^ ]+$$' > $(VENV)/frozen.txt; \
	awk -F == '/==/ && !seen[tolower($$1)]++' $(VENV)/frozen.txt $(1) > $(VENV)/pins.txt; \
	$(BIN)/python -m pip install --dry-run --quiet --report $(VENV)/cluster.json \
		--constraint $(VENV)/pins.txt '.[cluster,stores,fields,perplexity]' > $(LOG) 2>&1 || { \
		echo "strandline: pip found no versions for the images; all that it said is in $(LOG)" >&2; exit 1; }; \
	{ echo "# The versions that are tested together. Made by: make constraints"; \
		{ cat $(VENV)/frozen.txt; $(BIN)/python -c 'import json, sys; \
			found = [entry["metadata"] for entry in json.load(sys.stdin)["install"]]; \
			print(*(one["name"] + "==" + one["version"] for one in found if one["name"] != "strandline"), sep="\n")' \
			< $(VENV)/cluster.json; } | grep == | LC_ALL=C sort -f; } > constraints.new; \
	mv constraints.new constraints.txt; \
	echo "constraints.txt: $$(grep -c == constraints.txt) versions"
endef

# What was made from the same files serves every checkout; whoever comes at the same time waits.
# 1: a folder in e2e, 2: prints the files that it is made from, 3: the program, 4: the command that makes it,
# 5: what has that command, 6: what is done, 7: how long it takes, 8: how
define provide
	name=$(1)-$$(cd e2e/$(1) && $(2) | sha256sum | cut -c 1-16); \
	folder="$${XDG_CACHE_HOME:-$$HOME/.cache}/strandline/$$name"; \
	binary="$$folder/$(3)"; \
	test -x "$$binary" || { \
		test "$(BUILD)" != never || exit 1; \
		command -v $(4) > /dev/null || { \
			echo "strandline: there is no $(4); install $(5) or newer" >&2; exit 1; }; \
		mkdir -p "$$folder" && exec 9> "$$folder/lock" && flock 9 && { test -x "$$binary" || { \
			echo "$(6) $$name; this takes $(7) the first time" >&2; \
			$(8); }; }; \
	} || exit 1; \
	echo "$$binary"
endef

# 1: a Go module in e2e, 2: the name of its program, 3: the oldest Go that builds it, 4: how long it takes
define build_go
	$(call provide,$(1),find . -name '*.go' | LC_ALL=C sort | xargs cat go.mod go.sum,$(2),go,Go $(3),building,$(4),$(compile_$(1)) && mv "$$binary.new" "$$binary")
endef

define install_azure
	rm -rf "$$folder/new" && mkdir "$$folder/new" && cp e2e/azure/package*.json "$$folder/new" && \
	npm ci --prefix "$$folder/new" --silent --omit=dev --ignore-scripts --no-audit --no-fund >&2 && \
	rm -rf "$$folder/server" && mv "$$folder/new" "$$folder/server"
endef

# A compiler that collects no garbage takes a third less of the processor; the limit bounds its memory.
GO_BUILD := CGO_ENABLED=0 GOGC=off GOMEMLIMIT=2GiB nice -n 10 go build

# Kubernetes' servers tell each other their versions, and know them by linker flags only.
define compile_cluster
	version=$$(sed -nE 's|^\tk8s.io/kubernetes (v[0-9.]+)$$|\1|p' e2e/cluster/go.mod) && \
	major=$${version%%.*} && minor=$${version#*.} && stamp=k8s.io/component-base/version && \
	$(GO_BUILD) -C e2e/cluster -trimpath -buildvcs=false \
		-ldflags "-s -w -X $$stamp.gitVersion=$$version \
			-X $$stamp.gitMajor=$${major#v} -X $$stamp.gitMinor=$${minor%%.*}" \
		-o "$$binary.new" .
endef

define compile_gitops
	$(GO_BUILD) -C e2e/gitops -trimpath -buildvcs=false -ldflags "-s -w" \
		-o "$$binary.new" .
endef

# Helm has no source of ours: go.mod names its program as a tool.
define compile_helm
	version=$$(sed -nE 's|^\thelm.sh/helm/v4 (v[0-9.]+).*$$|\1|p' e2e/helm/go.mod) && \
	$(GO_BUILD) -C e2e/helm -trimpath -buildvcs=false \
		-ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$$version" \
		-o "$$binary.new" helm.sh/helm/v4/cmd/helm
endef

define compile_s3
	$(GO_BUILD) -C e2e/s3 -trimpath -buildvcs=false -ldflags "-s -w" \
		-o "$$binary.new" github.com/versity/versitygw/cmd/versitygw
endef

define compile_gcs
	$(GO_BUILD) -C e2e/gcs -trimpath -buildvcs=false -ldflags "-s -w" \
		-o "$$binary.new" github.com/fsouza/fake-gcs-server
endef

define compile_policies
	$(GO_BUILD) -C e2e/policies -trimpath -buildvcs=false -ldflags "-s -w" \
		-o "$$binary.new" github.com/cloudnativelabs/kube-router/v2/cmd/kube-router
endef

define compile_actionlint
	$(GO_BUILD) -C e2e/actionlint -trimpath -buildvcs=false -ldflags "-s -w" \
		-o "$$binary.new" github.com/rhysd/actionlint/cmd/actionlint
endef

define compile_scanner
	$(GO_BUILD) -C e2e/scanner -trimpath -buildvcs=false -ldflags "-s -w" \
		-o "$$binary.new" github.com/google/osv-scanner/v2/cmd/osv-scanner
endef

# It wants a newer Go than the others, which Go fetches by itself.
define compile_karpenter
	GOTOOLCHAIN=auto $(GO_BUILD) -C e2e/karpenter -trimpath -buildvcs=false -ldflags "-s -w" \
		-o "$$binary.new" sigs.k8s.io/karpenter/kwok
endef

define compile_kueue
	GOTOOLCHAIN=auto $(GO_BUILD) -C e2e/kueue -trimpath -buildvcs=false -ldflags "-s -w" \
		-o "$$binary.new" sigs.k8s.io/kueue/cmd/kueue
endef

define compile_dns
	$(GO_BUILD) -C e2e/dns -trimpath -buildvcs=false -ldflags "-s -w" \
		-o "$$folder/strandline-pause" ./pause && \
	$(GO_BUILD) -C e2e/dns -trimpath -buildvcs=false -ldflags "-s -w" \
		-o "$$binary.new" .
endef
