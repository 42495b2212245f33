# Everything that a developer or CI runs, from the top. Each module is built,
# tested and checked alone; go.work is for editors only.

MODULES  := pkg/receipt pkg services/auth services/verifier/interop services/verifier proxy deploy/kubernetes deploy
# Modules whose programs are in cmd/.
COMMANDS := pkg/receipt services/auth services/verifier

export GOWORK := off
BIN      := $(CURDIR)/bin
PROGRESS := $(CURDIR)/.ci/progress
VERSION   = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Static programs whose bytes depend on the source and the version only. What is
# checked is compiled the same way, so that it is compiled once. DWARF, which -s
# leaves out, is not made: a tenth of the compiler's time.
STATIC    = CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false -gcflags=all=-dwarf=false'
# The compiler collects its garbage less often, which takes a seventh off, within
# the memory that SQLite's package takes of it anyway.
COMPILER  = env $(STATIC) GOGC=400 GOMEMLIMIT=900MiB go
GOBUILD   = $(COMPILER) build -v -ldflags '-s -w -X main.version=$(VERSION)'

# The time of everything that is published: that of the commit.
SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

.DEFAULT_GOAL := help
.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z0-9]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-8s %s\n", $$1, $$2 }'

# ---- run

.PHONY: up demo
up: $(if $(filter --household,$(ARGS)),build/household,build) ## build and start everything on this machine, or the login alone (ARGS=--household); Ctrl-C stops it
	@exec $(BIN)/local -bin $(BIN) -state $(CURDIR)/.pforte $(ARGS)

demo: ## pay for a verification against the stack that `make up` runs (ARGS=--json)
	@exec $(BIN)/local -bin $(BIN) -state $(CURDIR)/.pforte demo $(ARGS)

# ---- build

.PHONY: build build/household $(COMMANDS:%=build/%) build/proxy build/deploy
# One module after the other: two at once would compile what both import twice.
build: $(COMMANDS:%=build/%) build/proxy build/deploy ## build all programs into bin/

build/household: build/services/auth build/proxy build/deploy

$(COMMANDS:%=build/%): build/%:
	@cd $* && $(PROGRESS) 'build $*' $(GOBUILD) -o $(BIN)/ ./cmd/...

# The page that checks receipts goes into the verifier.
build/services/verifier: checker/page

.PHONY: checker checker/page
CHECKER := cd pkg/receipt && $(COMPILER) run ./checker/page
checker/page:
	@echo 'build the page that checks receipts'
	@$(CHECKER) -o $(CURDIR)/services/verifier/internal/checkpage/built/check.html.gz

checker: ## write the page that checks receipts as one file, bin/receipt-checker.html
	@mkdir -p $(BIN)
	@$(CHECKER) -o $(BIN)/receipt-checker.html

# The check of receipts for JavaScript and Python, as files that install without a network.
NPM := pkg/receipt/npm
PACKAGES := $(BIN)/packages
.PHONY: packages
packages: $(NPM)/node_modules/.package-lock.json ## build the npm module and the Python wheel that check receipts into bin/packages/
	@echo 'build the packages that check receipts'
	@mkdir -p $(PACKAGES)
	@rm -f $(PACKAGES)/*
	@cd $(NPM) && node build.mjs && npm pack --silent --pack-destination $(PACKAGES)
	@python3 pkg/receipt/python/build_wheel.py $(PACKAGES)

%/node_modules/.package-lock.json: %/package-lock.json
	@echo 'install the npm packages of $*'
	@cd $* && npm ci --ignore-scripts --no-audit --no-fund

build/proxy:
	@cd proxy && $(PROGRESS) 'build proxy' $(GOBUILD) -o $(BIN)/pforte-proxy .

build/deploy:
	@cd deploy && $(PROGRESS) 'build deploy' $(GOBUILD) -o $(BIN)/ ./local ./backup ./setup

# ---- test

# PKG=services/auth/internal/session RUN=Login: the tests of one folder whose names match.
.PHONY: test test/folder $(MODULES:%=test/%) e2e
E2E  := deploy/test/e2e
test: $(if $(PKG),$(if $(filter $(E2E)%,$(PKG:./%=%)),e2e,test/folder),$(MODULES:%=test/%)) ## run the tests of every module, or of one folder (PKG=services/auth/internal/session RUN=Login)

test/folder:
	@.ci/test '$(PKG)' '$(RUN)'

# Its tests judge the same documents in Go, JavaScript and Python; without npm those of the others are skipped.
test/pkg/receipt: $(if $(CI)$(shell command -v npm),packages)

$(MODULES:%=test/%): test/%:
	@echo '== test $*'
	@.ci/test $*/... '$(RUN)'

# The official payment clients, and what drives Chromium.
CLIENTS := deploy/test/e2e/clients

APPLICATIONS := deploy/test/e2e/applications
$(APPLICATIONS)/node_modules/.package-lock.json: $(APPLICATIONS)/package-lock.json $(APPLICATIONS)/install
	@echo 'install the applications that sign in with the household'
	@$(APPLICATIONS)/install

.PHONY: build/miniflux
build/miniflux:
	@cd deploy/test/e2e/miniflux && $(PROGRESS) 'build miniflux' $(GOBUILD) -o $(BIN)/miniflux miniflux.app/v2

# Applications that sign in are for the tests of that name alone.
SIGNIN = $(if $(or $(if $(RUN),,all),$(findstring SignIn,$(RUN))),$(APPLICATIONS)/node_modules/.package-lock.json build/miniflux)

# The release before is for the test of that name alone, where git has its source.
BEFORE   := $(shell git describe --tags --abbrev=0 2>/dev/null || echo e59be54)
ROLLBACK  = $(if $(or $(if $(RUN),,all),$(findstring RollBack,$(RUN))),$(if $(shell git cat-file -t $(BEFORE) 2>/dev/null),before))

e2e: build checker $(CLIENTS)/node_modules/.package-lock.json $(SIGNIN) $(ROLLBACK) ## run the journeys through the whole stack, with the official payment clients and in Chromium (RUN=Login)
	@echo '== e2e'
	@cd deploy && env $(STATIC) PFORTE_BIN=$(BIN) go test -count=1 -v -timeout 60m \
		-parallel $$((2 * $$(getconf _NPROCESSORS_ONLN))) $(if $(RUN),-run '$(RUN)') ./test/e2e/...

.PHONY: shots
SHOTS := $(BIN)/shots
shots: build checker $(CLIENTS)/node_modules/.package-lock.json ## write a picture of every page into bin/shots/ and check it in Chromium (ONLY=login)
	@rm -rf $(SHOTS)
	@cd deploy && env $(STATIC) PFORTE_BIN=$(BIN) SHOTS=$(SHOTS) ONLY='$(ONLY)' go test -count=1 -timeout 20m -run '^Test(Pages_AreShown|CheckPage_IsShown)$$' ./test/e2e
	@ls $(SHOTS) | wc -l

# Grafana's components.
PANELS := deploy/test/e2e/panels
.PHONY: picture
picture: build $(CLIENTS)/node_modules/.package-lock.json $(PANELS)/node_modules/.package-lock.json ## take the picture of the dashboard's sales, from a stack on which agents buy (needs Chromium and Prometheus)
	@cd deploy && env $(STATIC) PFORTE_BIN=$(BIN) PICTURE=$(CURDIR)/deploy/docs/pictures/sales.png go test -count=1 -run '^TestPicture_OfSalesIsShown$$' ./test/e2e

# ---- soak

DURATION := 2h
# The tests of deploy/test/faults as a program, which shows what it does as it does it.
FAULTS := $(BIN)/faults.test
.PHONY: soak $(FAULTS)
$(FAULTS):
	@echo 'build deploy/test/faults'
	@cd deploy && $(COMPILER) test -c -o $@ ./test/faults

soak: build $(FAULTS) ## load the stack for hours and look for anything that grows (DURATION=2h)
	@$(FAULTS) -test.run '^TestSoak_NothingGrows$$' -bin $(BIN) -soak $(DURATION) $(ARGS)

# ---- fuzz

FUZZTIME := 60s
.PHONY: fuzz
fuzz: ## fuzz every parser of outside bytes, one after the other (FUZZTIME=60s each)
	@.ci/fuzz $(FUZZTIME) $(MODULES)

# ---- measure

# The servers to compare with.
PEERS := deploy/test/bench/peers

# The measurements, compiled, which show how far they are; and the programs to
# profile, which have one file more.
MEASURE  := $(BIN)/bench.test
PROFILED := $(BIN)/profiled
.PHONY: bench profile profiled before $(MEASURE)
bench: build profiled before $(MEASURE) $(CLIENTS)/node_modules/.package-lock.json $(PEERS)/node_modules/.package-lock.json ## measure beside peers, as work grows and in overload, and write deploy/docs/performance.md (BENCH=quick: shortly, and only show it; ARGS="-test.run Bench/overload": one section)
	@cd deploy/test/bench/scs && $(PROGRESS) 'build deploy/test/bench/scs' $(GOBUILD) -o $(BIN)/bench-scs .
	@$(MEASURE) -test.run '^TestBench$$' -top $(CURDIR) -bin $(BIN) $(if $(filter quick,$(BENCH)),-quick,-out deploy/docs/performance.md) $(ARGS)

# The programs of the release before, a tag or a commit: to measure beside these, and to roll back to.
before:
	@rm -rf $(BIN)/before/source
	@mkdir -p $(BIN)/before/source
	@git archive $(BEFORE) services pkg proxy | tar -x -C $(BIN)/before/source
	@git log -1 --format='%h of %cs' $(BEFORE) >$(BIN)/before/version
	@for from in services/auth:./cmd/auth services/verifier:./cmd/verifier services/verifier:./cmd/recordednode proxy:.; do \
		(cd $(BIN)/before/source/$${from%%:*} && $(PROGRESS) "build $${from%%:*} of $(BEFORE)" $(GOBUILD) -o $(BIN)/before/ $${from#*:}) || exit; done
	@mv $(BIN)/before/proxy $(BIN)/before/pforte-proxy

profile: build profiled $(MEASURE) ## write profiles of the processor and of allocations under each load into bin/profiles/
	@$(MEASURE) -test.run '^TestBench$$/^profiles$$' -top $(CURDIR) -bin $(BIN) $(ARGS)

$(MEASURE):
	@echo 'build deploy/test/bench'
	@cd deploy && $(COMPILER) test -c -o $@ ./test/bench

profiled:
	@mkdir -p $(PROFILED)
	@ln -sf $(BIN)/recordednode $(PROFILED)/
	@printf '{"Replace": {%s}}' "$$(printf ',"$(CURDIR)/%s/pprof.go": "$(CURDIR)/deploy/test/bench/pprof.go.txt"' services/auth/cmd/auth services/verifier/cmd/verifier proxy | cut -c 2-)" >$(PROFILED)/overlay.json
	@cd services/auth && $(PROGRESS) 'build services/auth to profile' $(GOBUILD) -overlay $(PROFILED)/overlay.json -o $(PROFILED)/ ./cmd/auth
	@cd services/verifier && $(PROGRESS) 'build services/verifier to profile' $(GOBUILD) -overlay $(PROFILED)/overlay.json -o $(PROFILED)/ ./cmd/verifier
	@cd proxy && $(PROGRESS) 'build proxy to profile' $(GOBUILD) -overlay $(PROFILED)/overlay.json -o $(PROFILED)/pforte-proxy .

# ---- fail

RUNS  := 200
SEED  := 1
# CLOCKS=no leaves the clocks alone, which saves building both services anew.
CLOCKS := yes
CHAOS := $(BIN)/chaos
.PHONY: chaos
chaos: build $(FAULTS) ## cause faults in everything at once and judge by the chain (RUNS=200 SEED=1 CLOCKS=yes)
	@mkdir -p $(CHAOS)
	@rm -f $(CHAOS)/auth $(CHAOS)/verifier
	@ln -sf $(BIN)/devnet $(BIN)/pforte-proxy $(BIN)/receipt $(CHAOS)/
ifeq ($(CLOCKS),yes)
	@deploy/test/faults/clock/overlay $(CHAOS)/clock
	@cd services/auth && $(PROGRESS) 'build services/auth with a clock that can be set' $(GOBUILD) -overlay $(CHAOS)/clock/overlay.json -o $(CHAOS)/ ./cmd/auth
	@cd services/verifier && $(PROGRESS) 'build services/verifier with a clock that can be set' $(GOBUILD) -overlay $(CHAOS)/clock/overlay.json -o $(CHAOS)/ ./cmd/verifier
else
	@ln -sf $(BIN)/auth $(BIN)/verifier $(CHAOS)/
endif
	@cd services/verifier && env $(STATIC) go test -count=1 -run '^TestOutcome_NoFacilitatorMakesABuyerPayTwice$$' ./internal/payment/paywall -liars 300
	@$(FAULTS) -test.run '^TestPromises_HoldWhileEverythingFails$$' -bin $(CHAOS) -runs $(RUNS) -seed $(SEED) $(if $(filter yes,$(CLOCKS)),-clocks) $(ARGS)

# ---- check

LINT    := $(BIN)/tools/golangci-lint
GOFUMPT := $(BIN)/tools/gofumpt
GOVULNCHECK := $(BIN)/tools/govulncheck

.PHONY: check fmt vuln tidy $(MODULES:%=check/%)
check: $(MODULES:%=check/%) ## check format, vet, lint, tidiness and the rules of the architecture
	@echo '== check the architecture'
	@cd deploy && env $(STATIC) go test -count=1 ./test/arch

$(MODULES:%=check/%): check/%: $(LINT)
	@echo '== check $*'
	@cd $* && $(PROGRESS) 'compile $*' $(COMPILER) build -v -o /dev/null ./...
	@cd $* && $(STATIC) $(LINT) run ./...
	@cd $* && go mod tidy -diff

# Other projects import this module: it runs in a browser too.
check/pkg/receipt: check/receipt/wasm
.PHONY: check/receipt/wasm
check/receipt/wasm:
	@cd pkg/receipt && GOOS=js GOARCH=wasm go build -o /dev/null ./...

# golangci-lint runs go vet's analyzers too.
$(LINT) $(GOFUMPT) $(GOVULNCHECK): $(BIN)/tools/%: .ci/tools/go.mod .ci/tools/go.sum
	@cd .ci/tools && $(PROGRESS) 'build $*' $(COMPILER) build -v -o $(BIN)/tools/ $$(go list -f '{{.ImportPath}}' tool | grep '/$*$$')
	@touch $@

fmt: $(GOFUMPT) ## format everything
	@$(GOFUMPT) -w $(MODULES)

tidy: ## tidy every go.mod
	@for m in $(MODULES) .ci/tools; do (cd $$m && go mod tidy) || exit; done

# VULNDB=file:///path: a copy of the database, where vuln.go.dev is not reached.
vuln: $(GOVULNCHECK) ## look for known vulnerabilities (asks vuln.go.dev)
	@for m in $(MODULES); do (cd $$m && $(GOVULNCHECK) $(VULNDB:%=-db %) ./...) || exit; done

# ---- publish

.PHONY: image images release $(PLATFORMS:%=release/%)
# What the verifier's image has beside the household's.
EVIDENCE := services/verifier:-tags=purego,./cmd/verifier pkg/receipt:-tags=purego,./cmd/receipt
image: ## build the household's image for docker on this machine, without docker: localhost/pforte:devel (ARGS=--evidence: and the verifier's)
	@rm -rf $(BIN)/image
	@$(MAKE) --no-print-directory release/linux/$$(go env GOARCH) DIST=$(BIN)/image \
		RELEASED='services/auth:./cmd/auth deploy:./setup,./backup $(if $(filter --evidence,$(ARGS)),$(EVIDENCE))'
	@cd deploy && env $(STATIC) go run ./release -local -version $(VERSION) -epoch $(SOURCE_DATE_EPOCH) -top .. -built $(BIN)/image/.built -out $(BIN)/image \
		-modcache "$$(go env GOMODCACHE)" -goroot "$$(go env GOROOT)"
	@rm -rf $(BIN)/image/.built
	@for image in $(BIN)/image/*_image.tar; do docker load --input $$image || exit; done

images: ## build the images of all programs with docker (ARGS=twice: and again, the layers must be the same)
	@VERSION=$(VERSION) SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) .ci/images $(ARGS)

DIST := $(CURDIR)/dist
# What is released: module:options,packages. An assembly file of gnark-crypto, which
# checks signatures of sync committees in receipt and verifier and comes with agent and
# devnet, would leave the builder's module cache in them; without assembly (purego) they
# are the same everywhere.
RELEASED := pkg/receipt:-tags=purego,./cmd/... services/auth:./cmd/... \
	services/verifier:-tags=purego,./cmd/verifier,./cmd/agent,./cmd/devnet deploy:./local,./backup,./setup
# Where the images are published.
REGISTRY := ghcr.io/pforte
release: $(PLATFORMS:%=release/%) packages ## build archives of all platforms, images and compose files into dist/, with checksums, SBOM and licences
	@cd deploy && env $(STATIC) go run ./release -version $(VERSION) -epoch $(SOURCE_DATE_EPOCH) -top .. -built $(DIST)/.built -out $(DIST) \
		-registry $(REGISTRY) -modcache "$$(go env GOMODCACHE)" -goroot "$$(go env GOROOT)"
	@rm -rf $(DIST)/.built
	@cp $(PACKAGES)/* $(DIST)/ && cd $(PACKAGES) && sha256sum * >>$(DIST)/SHA256SUMS
	@cat $(DIST)/SHA256SUMS

$(PLATFORMS:%=release/%): release/%: checker/page
	@rm -rf $(DIST)/.built/$(subst /,_,$*)
	@mkdir -p $(DIST)/.built/$(subst /,_,$*)
	@for from in $(RELEASED); do \
		(cd $${from%%:*} && GOOS=$(*D) GOARCH=$(*F) $(PROGRESS) "build $${from%%:*} for $*" \
			$(GOBUILD) -o $(DIST)/.built/$(subst /,_,$*)/ $$(echo $${from#*:} | tr , ' ')) || exit; done
	@cd proxy && GOOS=$(*D) GOARCH=$(*F) $(PROGRESS) 'build proxy for $*' $(GOBUILD) -o $(DIST)/.built/$(subst /,_,$*)/pforte-proxy .

# ---- the rest

.PHONY: token clean
token: ## compile the development token again and fail when its bytecode differs
	@cd services/verifier/internal/devnet/contract && npm ci --no-audit --no-fund && node compile.mjs

clean: ## remove what was built (not the state in .pforte/)
	@rm -rf $(BIN) $(DIST)
