# What contributors run and what CI runs are the same targets.
.DEFAULT_GOAL := help
.PHONY: help demo demo-picture test integration faults deadlines proof days fuzz mutants gremlins locking matrix model model-long bench check lint words boundaries generated vulnerabilities alerts deploy-check pages \
	proxy release release-check release-published image

# All modules of the workspace, as folders.
MODULES = $(shell go list -m -f '{{.Dir}}')

# The race detector needs a C compiler.
RACE := $(if $(shell command -v gcc),-race)

# Containers run this image if it is here, and otherwise pull Redis and Valkey.
LOCAL_IMAGE := quorumlock/redis:local
export QUORUMLOCK_IMAGE ?= $(shell docker image inspect $(LOCAL_IMAGE) >/dev/null 2>&1 && echo $(LOCAL_IMAGE))

LINT_VERSION := v2.15.0
LINT_DIR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/quorumlock/golangci-lint-$(LINT_VERSION)
LINT := $(LINT_DIR)/golangci-lint

GREMLINS_DIR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/quorumlock/gremlins-v0.6.0
GREMLINS := $(GREMLINS_DIR)/gremlins

PROMTOOL := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/quorumlock/promtool

help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26

DEMO = dir=$$(mktemp -d) && trap 'rm -r "$$dir"' EXIT && go build -o "$$dir/quorumlock" ./cmd/quorumlock && go run ./examples/demo -command "$$dir/quorumlock"

demo: ## Show a lock over five nodes, of which some die (a few seconds)
	@$(DEMO)

demo-picture: ## Draw docs/demo.svg from a new run of the demo
	@$(DEMO) -record docs/demo

RUN = go run $(RACE) ./test/run $(RACE)
UNRACED = $(if $(RACE),,echo 'make: tests run WITHOUT the race detector: no gcc (install gcc)')

# Lists the packages whose tests look for servers or containers: to all others it makes no difference what is here.
served = go list -test -f '{{if .ForTest}}{{.ForTest}} {{.Deps}}{{end}}' work | grep -E '/test/redisserver|/test/integration/(server|container)' | cut -d' ' -f1 | sort -u

# CI sets LATER where no server is installed yet: one of those packages shows that their tests are passed over.
test: ## Run all tests, over whichever real servers are here (5 minutes, and 8 the first time)
	@$(UNRACED)
	$(RUN) $$(go list work $(if $(LATER),| grep -vxF "$$($(served) | grep -v integration/server)"))

integration: ## Run the tests of the packages that look for servers or containers (4 minutes)
	@$(UNRACED)
	$(RUN) $$($(served))

# Locks whose leases nobody waits for, of all kinds: nothing may be left right after the last release.
MINUTE = -lease 1m -without guard -locks all
# One key for which callers of one process contend, over nodes that are farther away, or slow, than the others.
DISTANT = -clients goredis -workers 16 -keys 1 -kinds 'farther away,slow but in time'
# New keys that many ask for at one instant, where one node has just been stopped, and another may be dead for long. Whether
# somebody has each of them is a matter of time: the race detector keeps processes waiting for half of it on two cores.
INSTANT = -clients goredis,goredis,redigo,rueidis -locks own,instant -kinds pause,die

faults: ## Take locks while faults happen, by a new seed each time (75 s)
	cd test/integration && go run $(RACE) ./fault -nodes processes -for 15s
	cd test/integration && go run $(RACE) ./fault -nodes processes -for 10s $(MINUTE)
	cd test/integration && go run $(RACE) ./fault -nodes processes -for 10s $(DISTANT)
	cd test/integration && go run ./fault -nodes processes -for 15s $(INSTANT)
	cd test/integration && go run $(RACE) ./fault -nodes containers -for 10s

# How often.
RUNS ?= 100

deadlines: ## Measure how long before its deadline a program under "run" is gone, RUNS=100 times under load (5 minutes)
	cd cmd/quorumlock && QUORUMLOCK_REQUIRE=processes QUORUMLOCK_DEADLINES=$(RUNS) go test -count=1 -v -timeout 30m -run TheLastWriteIsBeforeTheDeadline .

proof: export QUORUMLOCK_REQUIRE = processes,containers
proof: ## Take a million locks, and 300,000 of all kinds, while faults happen, and judge them (40 minutes)
	cd test/integration && go run ./fault -row 'a million' -nodes processes -acquisitions 1000000
	cd test/integration && go run ./fault -row 'all kinds' -nodes processes -locks all -keys 4096 -acquisitions 300000
	cd test/integration && go run ./fault -row 'leases of a minute' -nodes processes -for 90s $(MINUTE)
	cd test/integration && go run ./fault -row 'one key for' -nodes processes -for 1m $(DISTANT)
	cd test/integration && go run ./fault -row 'new keys for' -nodes processes -for 2m $(INSTANT)
	cd test/integration && go run ./fault -row 'containers' -nodes containers -for 1m
	cd test/integration && go run $(RACE) ./fault -row 'the race detector' -nodes processes -for 2m
	cd test/integration && go test $(RACE) -count=1 -v -timeout 1h -run WhatIsBroken ./fault -plants.all

# The days in virtual time that `make days` lives: from this seed on.
SEED ?= 1
DAYS ?= 1

days: ## Live DAYS=1 half-hour days of faults from SEED=1 on, each as its seed repeats it (1 s each)
	test/tools/days $(SEED) $(DAYS)

# How long each fuzz test runs.
FUZZTIME ?= 20s

fuzz: ## Run every fuzz test for FUZZTIME (20s) each (10 minutes)
	test/tools/fuzz $(FUZZTIME) $(MODULES)

matrix: ## Run the suite on each server that users may have (16 minutes)
	test/tools/matrix $(RACE)

model: ## Search the models of fences, lines and deadlocks (10 minutes; needs spin and gcc)
	test/model/run

model-long: ## The same, and what takes longest (15 minutes)
	test/model/run -long

mutants: ## Take out one mechanism of scripts and shells at a time, and see that a test fails (an hour)
	go run ./test/mutants

gremlins: $(GREMLINS) ## Change the conditions and sums of the pure packages, and see that a test fails (half an hour)
	test/tools/gremlins $(GREMLINS)

locking: ## See that mutexes are taken in their order, by tests of the core (3 minutes)
	go run ./test/locking

# How many rounds, which benchmarks, and beside which commit's.
ROUNDS ?= 6
BENCH ?= .
AGAINST ?=

bench: ## Measure beside redsync in ROUNDS=6 rounds (an hour); BENCH=Far nodes that differ, BENCH=Scale how cost grows; AGAINST=main beside a commit
	test/tools/bench $(ROUNDS) '$(BENCH)' $(AGAINST)

check: lint words boundaries generated ## Check format, vet, lint and what users have to carry (1 minute, and 4 the first time)

# With the tests' flag: what they have compiled is not compiled a second time, which takes as long as the linters do.
lint: $(LINT)
	GOFLAGS='$(GOFLAGS) $(RACE)' $(LINT) run $(MODULES:%=%/...)
	cd test/deploy && GOWORK=off $(LINT) run

words: # of the core: comments that point at things more than they name them
	go run ./test/words redlock election driver clockdrift fence $(filter-out internal/inspect internal/supervise,$(wildcard internal/*))

boundaries:
	@go run ./test/release -boundaries

generated: # by commands that are checked in
	@test/tools/valkeygo -check

alerts: $(PROMTOOL) ## Check the alerting rules and run their tests (1 s; fetches promtool from Debian)
	$(PROMTOOL)/bin/promtool check rules docs/observability/alerts.yml
	$(PROMTOOL)/bin/promtool test rules docs/observability/alerts_test.yml

vulnerabilities: ## Look for known vulnerabilities in what each module runs (needs the network)
	set -e; for module in $(MODULES); do (cd $$module && go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...); done

# A module of its own, outside the workspace: what it requires must not decide which versions the others are tested with.
# What go vet finds, make check says.
deploy-check: export GOWORK = off
deploy-check: ## Check the files of deploy/ as their tools read them, and their nodes by doctor (1 minute)
	test/tools/servers redis-8.0
	cd test/deploy && go test -vet=off -count=1 .

pages: export SOURCE_DATE = $(shell git log -1 --format=%cs)
pages: ## Write the man pages and completions of the packages to build/
	mkdir -p build/completions
	go run ./cmd/quorumlock man build/man
	for shell in bash zsh fish; do go run ./cmd/quorumlock completion $$shell >build/completions/quorumlock.$$shell || exit 1; done

release-check: ## Prove in a copy that a version can be made, got and mixed with the last one (1 minute)
	go run ./test/release -check

proxy: ## Serve what is here as a version until Ctrl-C, to try it in an empty folder as users do
	go run ./test/release -serve

release: ## Make VERSION=vX.Y.Z of all modules: a commit and tags here, and the push to copy
	go run ./test/release $(FLAGS) $(VERSION)

release-published: ## After the push: see that users get VERSION=vX.Y.Z as it was proved
	go run ./test/release -published $(VERSION)

image: ## Build a local container image from the installed redis-server
	test/tools/make-image $(LOCAL_IMAGE)

# Built once a version, in two minutes. Only what computes much is optimized: all of it would take four times as long.
$(LINT):
	GOBIN=$(LINT_DIR) go install -ldflags='-s -w' -gcflags='all=-N -l -dwarf=false' \
		-gcflags='std=-dwarf=false' -gcflags='golang.org/x/tools/...=-dwarf=false' -gcflags='honnef.co/...=-dwarf=false' \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

$(GREMLINS):
	GOBIN=$(GREMLINS_DIR) go install github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0

$(PROMTOOL):
	test/tools/get-server trixie prometheus $@
