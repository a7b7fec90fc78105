# What contributors run and what CI runs are the same targets.
.DEFAULT_GOAL := help
.PHONY: help demo test unit integration faults proof fuzz mutants matrix model bench check format vet lint boundaries \
	release release-check release-published image

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

help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26

demo: ## Show a lock over five nodes, of which some die (a few seconds)
	go run ./examples/demo

RUN = go run $(RACE) ./test/run $(RACE)
UNRACED = $(if $(RACE),,echo 'make: tests run WITHOUT the race detector: no gcc (install gcc)')

test: ## Run all tests, over whichever real servers are here (4 to 9 minutes)
	@$(UNRACED)
	$(RUN) $$(go list work)
	@$(MAKE) --no-print-directory faults

unit: ## Run the tests but for those over five nodes
	@$(UNRACED)
	$(RUN) $$(go list work | grep -v /test/integration$$)

integration: ## Run the tests over embedded nodes, server processes and containers
	@$(UNRACED)
	$(RUN) ./test/integration

faults: ## Take locks while faults happen, by a new seed each time (80 s)
	cd test/integration && go run $(RACE) ./fault -nodes processes -for 60s
	cd test/integration && go run $(RACE) ./fault -nodes containers -for 20s

proof: export QUORUMLOCK_REQUIRE = processes,containers
proof: ## Take a million locks while faults happen, and judge them (20 minutes)
	cd test/integration && go run ./fault -nodes processes -acquisitions 1000000
	cd test/integration && go run ./fault -nodes containers -for 2m
	cd test/integration && go run $(RACE) ./fault -nodes processes -for 3m
	cd test/integration && go test $(RACE) -count=1 -v -run WhatIsBroken ./fault

# How long each fuzz test runs.
FUZZTIME ?= 20s

fuzz: ## Run every fuzz test for FUZZTIME (20s) each (10 minutes)
	test/tools/fuzz $(FUZZTIME) $(MODULES)

matrix: ## Run the suite on each server that users may have (10 minutes)
	cd test/integration && go run ./matrix $(RACE)

model: ## Search the models of lock, guard and fences (5 minutes; needs spin and gcc)
	test/model/run

mutants: ## Take out one mechanism at a time, and see that a test fails (10 minutes)
	go run ./test/mutants

bench: ## Measure beside redsync (minutes, on five local servers)
	cd test/bench && go run .

check: format vet lint boundaries ## Check format, vet, lint and what users have to carry (30 s)

format: $(LINT)
	$(LINT) fmt --diff $(MODULES)

vet:
	go vet work

lint: $(LINT)
	$(LINT) run $(MODULES:%=%/...)

boundaries:
	@go run ./internal/release -boundaries

release-check: ## Prove in a copy that a version can be made, got and mixed with the last one (1 minute)
	go run ./internal/release -check

release: ## Make VERSION=vX.Y.Z of all modules: a commit and tags here, and the push to copy
	go run ./internal/release $(FLAGS) $(VERSION)

release-published: ## After the push: see that users get VERSION=vX.Y.Z as it was proved
	go run ./internal/release -published $(VERSION)

image: ## Build a local container image from the installed redis-server
	test/tools/make-image $(LOCAL_IMAGE)

# Built once a version: it takes minutes.
$(LINT):
	GOBIN=$(LINT_DIR) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
