# make without a target prints the targets.
SHELL := /bin/bash
TOOL  := go tool -modfile=.ci/tools.mod
PKGS  := ./...
SEED  ?= 0

.PHONY: help build check fmt vet lint sumtype test generate generate-check e2e fuzz bench cover clean

help: ## print the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

build: ## build bin/troupe
	go build -trimpath -ldflags='-s -w' -o bin/troupe ./cmd/troupe

check: fmt vet lint sumtype generate-check test ## everything that must hold before a commit

fmt: ## no file is unformatted
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt needed: $$files"; exit 1; fi

vet: ## go vet
	go vet $(PKGS)

lint: ## staticcheck
	$(TOOL) staticcheck $(PKGS)

sumtype: ## switches over sealed interfaces name every case
	$(TOOL) go-check-sumtype $(PKGS)

test: ## tests of every room with the race detector, and the import rules
	go test -race $$(go list ./... | grep -v /e2e)

generate: ## write the reference and the schema from the command table
	go generate ./protocol

generate-check: ## the generated files are fresh
	go test ./cmd/troupe-doc -run TestGenerated

e2e: ## the built binary
	go test ./e2e/...

fuzz: ## every fuzz target for FUZZTIME (default 30s each)
	@for p in $$(go list ./...); do \
	  for f in $$(go test $$p -list '^Fuzz' 2>/dev/null | grep ^Fuzz); do \
	    echo "== $$p $$f"; go test $$p -run '^$$' -fuzz "^$$f$$" -fuzztime $${FUZZTIME:-30s} || exit 1; \
	  done; done

bench: ## Go benchmarks of the hot paths
	go test -run '^$$' -bench . -benchmem $$(go list ./... | grep -v /e2e)

cover: ## coverage of every room, in cover/
	@mkdir -p cover; go test -coverprofile=cover/all.out $$(go list ./... | grep -v /e2e) >/dev/null; go tool cover -func=cover/all.out | tail -1

clean: ## remove what was built
	rm -rf bin cover
