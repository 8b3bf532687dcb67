# Everything that one does in this repository; `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

GO ?= go
# How long one package's tests may take. They take a fraction of that on two cores; a hang should end before people do.
TIMEOUT ?= 20m
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: help
help: ## show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

.PHONY: demo
demo: needs build ## watch an issue become a pull request, on a GitHub of its own; ARGS=--stay keeps it up
	@./bin/sandpiper demo $(ARGS)

.PHONY: test
test: ## run all tests with the race detector
	@.ci/needs git:git bwrap:bubblewrap runc:runc cc:gcc cc:libc6-dev
	$(GO) test -race -shuffle=on -timeout $(TIMEOUT) ./...

.PHONY: check
check: ## everything about the code that a machine can judge without running it
	@echo "gofmt"
	unformatted=$$(gofmt -l .)
	if [ -n "$$unformatted" ]; then echo "not formatted:" $$unformatted; exit 1; fi
	echo "go vet"
	$(GO) vet ./...
	echo "staticcheck"
	$(GO) run $(STATICCHECK) ./...
	echo "imports, sizes, comments"
	$(GO) test -count=1 ./fixtures/architecture
	echo "go mod"
	$(GO) mod verify
	$(GO) mod tidy -diff
	echo "govulncheck"
	if ! out=$$($(GO) run $(GOVULNCHECK) ./... 2>&1); then
		if grep -q 'fetching vulnerabilities' <<<"$$out"; then
			echo "skipped: the database of vulnerabilities cannot be reached"
		else
			echo "$$out"; exit 1
		fi
	fi

.PHONY: attacks
attacks: ## try to get out of the sandboxes, on every backend that works here, and without one
	@.ci/needs git:git bwrap:bubblewrap runc:runc perl:perl
	$(GO) test -count=1 -v -timeout $(TIMEOUT) ./sandbox/sandboxtest/attacks

.PHONY: crash
crash: ## long (ten minutes): 100 missions while bots are killed at every border of steps, and they, the database or GitHub at 200 random moments; on each database
	@.ci/needs git:git bwrap:bubblewrap
	.ci/postgres
	CRASH_MISSIONS=$${CRASH_MISSIONS:-100} CRASH_BORDERS=$${CRASH_BORDERS:-100} CRASH_RANDOM=$${CRASH_RANDOM:-200} \
		$(GO) test -count=1 -v -timeout 3h -parallel 1 -run '^TestCrash$$' ./cmd/sandpiper

.PHONY: soak
soak: ## long: 500 runs on each backend with kills, a full disk and lost permissions at every step; the reaper leaves nothing behind
	@.ci/needs git:git bwrap:bubblewrap
	for backend in worktree overlay; do
		SANDPIPER_SOAK_BACKEND=$$backend SANDPIPER_SOAK_RUNS=$${SANDPIPER_SOAK_RUNS:-500} \
			$(GO) test -count=1 -v -timeout 1h -run '^TestSoak$$' ./sandbox/reaper
	done

.PHONY: bench
bench: build ## hold workspaces against the git command line and write docs/performance.md, then intake; BENCH=-sizes=1000,10000,100000 for more
	$(GO) run ./cmd/sandpiper-bench -docs docs $(BENCH)
	$(MAKE) boundary
	$(MAKE) intake

.PHONY: boundary
boundary: ## hold launches against bubblewrap, and the proxy against a plain one and smokescreen, and write docs/performance.md
	$(GO) run ./cmd/sandpiper-bench boundary -docs docs $(BOUNDARY)

.PHONY: intake
intake: ## hold the taking of webhooks against a bare log and probot, and write docs/intake.md; INTAKE=-rounds=15 for more
	$(GO) run ./cmd/sandpiper-bench intake -docs docs $(INTAKE)

.PHONY: load
load: needs build ## LOAD deliveries (1000; 10000 takes half an hour) for a tenth as many repositories: the right missions, in bounds
	$(GO) run ./cmd/sandpiper-bench load -docs docs -deliveries $${LOAD:-1000}

.PHONY: microbench
microbench: ## run the Go benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: build
build: ## make bin/sandpiper, one static file
	@echo "building bin/sandpiper; the first time takes minutes"
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/sandpiper ./cmd/sandpiper

.PHONY: needs
needs: ## install what the bot needs on this machine, if it is missing: git and bubblewrap
	@.ci/needs git:git bwrap:bubblewrap
