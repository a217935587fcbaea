# make without a target prints the targets.
SHELL := /bin/bash
TOOL  := go tool -modfile=.ci/tools.mod
PKGS  := ./...
SEED  ?= 0

.PHONY: help build install check fmt vet lint sumtype test allocs generate examples generate-check e2e fuzz bench cover chaos chaos-long cluster cluster-long mutants live-logins cluster-demo flakes long clean

help: ## print the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

build: ## build bin/troupe
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/troupe ./cmd/troupe

PREFIX ?= /usr/local
install: build ## install the program as PREFIX/bin/troupe, and its manual page (PREFIX=/usr/local, DESTDIR=)
	bin/troupe man >bin/troupe.1
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -m 755 bin/troupe "$(DESTDIR)$(PREFIX)/bin/troupe"
	install -m 644 bin/troupe.1 "$(DESTDIR)$(PREFIX)/share/man/man1/troupe.1"

check: fmt vet lint sumtype generate-check test allocs ## everything that must hold before a commit

fmt: ## no file is unformatted
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt needed: $$files"; exit 1; fi

vet: ## go vet
	go vet $(PKGS)

lint: ## staticcheck
	$(TOOL) staticcheck $(PKGS)

sumtype: ## switches over sealed interfaces name every case
	$(TOOL) go-check-sumtype $(PKGS)

# What the race detector does not look into: an interpreter that was C, whose heap is none of Go's, so that the detector
# passes over it at the price of a call for every access, and a compiler which is given text. e2e/harness/build.go has the same.
RACE := -race -gcflags=modernc.org/libquickjs=-race=false -gcflags=modernc.org/libc=-race=false -gcflags=github.com/evanw/esbuild/...=-race=false
PURE := /actors/core|/protocol
test: ## tests of every room, those where goroutines meet with the race detector, and the import rules
	go test $(RACE) $$(go list ./... | grep -vE '/e2e|$(PURE)')
	go test $$(go list ./... | grep -E '$(PURE)' | grep -v /e2e) # no goroutine begins there, and no lock is held

generate: ## write the reference and the schema from the tables of commands and events
	go test ./cmd/troupe -run TestGenerated -update

EXAMPLES := clients supervision failover moves relay
examples: ## record the examples of the reference from tests, and write the reference
	go test -count=1 -p 1 $(EXAMPLES:%=./actors/scenario/%) -args -examples.update
	go test -count=1 ./e2e/serve -run '^TestServeAsksAgain$$' -args -examples.update
	go test -count=1 ./e2e/wire -run '^TestScripts$$' -args -examples.update
	$(MAKE) generate

generate-check: ## the generated files are fresh
	go test ./cmd/troupe -run TestGenerated

e2e: ## the built binary
	set -o pipefail; go test -count=1 -json ./e2e/... | go run ./e2e/need/skipped

live-logins: ## one short question through every provider that you have credentials for (P= for one): your accounts, your money
	go test -count=1 -tags live ./e2e/logins -v -run '^TestLiveLogins$$' $(if $(P),-live.provider=$(P))

allocs: ## allocations of the hot paths against e2e/bench/allocs.txt; a slower path is no failure, a greedier one is
	go run ./e2e/bench -allocs

fuzz: ## every fuzz target for FUZZTIME (default 30s each)
	@for p in $$(go list ./...); do \
	  for f in $$(go test $$p -list '^Fuzz' 2>/dev/null | grep ^Fuzz); do \
	    echo "== $$p $$f"; go test $$p -run '^$$' -fuzz "^$$f$$" -fuzztime $${FUZZTIME:-30s} || exit 1; \
	  done; done

CHAOS_SEEDS ?= 600
KILL_CYCLES ?= 200
CHAOS_FIRST ?= 1
chaos: ## faults by seed (SEED= for one): actors on a simulated disk, kill loops of the binary
	go test -count=1 -timeout 60m ./actors/scenario/chaos -run '^TestChaos$$' -chaos.seeds=$(CHAOS_SEEDS) -chaos.first=$(CHAOS_FIRST) $(if $(filter-out 0,$(SEED)),-chaos.seed=$(SEED))
	go test -count=1 -timeout 60m ./e2e/chaos -run '^TestKill' -kill.cycles=$(KILL_CYCLES) -kill.first=$(CHAOS_FIRST) $(if $(filter-out 0,$(SEED)),-kill.seed=$(SEED))

chaos-long: ## the same, 20,000 seeds and 5,000 kill cycles
	$(MAKE) chaos CHAOS_SEEDS=20000 KILL_CYCLES=5000

CLUSTER := go test -count=1 -timeout 60m ./e2e/cluster -cluster
cluster: ## several machines in less than five minutes: 20,000 seeds in fake time, beside engines that are killed, stopped, cut off, without power (root, loop devices, PostgreSQL)
	nice -n 10 go test -count=1 -timeout 20m ./actors/cluster -sim.seeds=20000 -beats.seeds=4000 -histories=20000 -run '^(TestCluster|TestLaws|TestAlone|TestBeats|TestEverybodyClaims)$$' & pure=$$!; \
	$(CLUSTER) -v -chaos.seed=$(if $(filter-out 0,$(SEED)),$(SEED),1); real=$$?; wait $$pure && exit $$real

cluster-long: ## the same at night: every case, 20 seeds
	go test -count=1 -timeout 60m ./actors/scenario/moves -run '^TestMoved$$' -moves=1000
	go test -count=1 -timeout 60m ./actors/scenario/relay -run '^TestRelayCut$$' -relay.cuts
	for seed in $$(seq 1 20); do $(CLUSTER) -v -chaos.seed=$$seed -chaos.long || exit 1; done

mutants: ## bugs made on purpose, one at a time: the tests must notice each
	go run ./e2e/mutants

AGAINST ?=
bench: ## Go benchmarks, allocations against e2e/bench/allocs.txt, the binary beside limit, pi and (AGAINST=) another commit; BENCH="-quick"
	go test -run '^$$' -bench . -benchmem $$(go list ./... | grep -v /e2e)
	$(MAKE) allocs
	go run ./e2e/bench -json bench.json $(if $(AGAINST),-against $(AGAINST)) $(BENCH)

cover: ## coverage of every room, in cover/
	@mkdir -p cover; go test -coverprofile=cover/all.out $$(go list ./... | grep -v /e2e) >/dev/null; go tool cover -func=cover/all.out | tail -1

cluster-demo: ## three nodes on this machine; one of them is killed while it answers, and the conversation goes on
	go run ./e2e/cluster/demo

N ?= 5
PKG ?=
flakes: ## every package with goroutines (or PKG=./a/...) N times on busy cores with the race detector; appends to flakes.jsonl and resumes
	go run ./e2e/flakes -n $(N) $(PKG)

LONG := go test -count=1 -timeout 60m
long: chaos-long cluster-long ## hours: everything that counts in thousands (seeds, kills, cuts, cancels)
	$(LONG) ./actors/scenario/resume -run '^TestCuts$$' -cuts=8000
	$(LONG) ./actors/scenario/extensions -run '^TestChaosOfExtensions$$' -extensions.seeds=2000
	$(LONG) ./actors/scenario/failover -run '^TestNodes$$' -nodes.seeds=500
	$(LONG) ./actors/scenario/supervision -run '^TestOutcomeOfCrashes$$' -outcome.all
	$(LONG) ./tools -run '^(TestSandboxOfCommands|TestExecCancelNeverRunsTheRest|TestHugeFilesNeedLittleMemory|TestGrepAsRipgrep|TestFindAsFd)$$' -tools.searches=2000 -sandbox.commands=1000 -tools.aborts=2000 -tools.huge=8192
	$(LONG) ./tools/policy -run '^TestAllowedCommandsChangeNothing$$' -policy.jailed=5000
	$(LONG) ./tools/realpath -run '^TestResolveAgreesWithTheKernel$$' -realpath.trees=2000
	$(LONG) ./tools/git -run '^TestMergeIsKilled$$' -merge.kills=1000
	$(LONG) ./e2e/chaos -run '^TestKillTasks$$' -kill.tasks=400
	TROUPE_SOAK_SESSIONS=500 $(LONG) ./e2e/chaos -run '^TestSoak$$'
	$(LONG) ./e2e/serve -run '^TestWebSocketCuts$$' -ws.cuts=45000
	$(LONG) ./e2e/logins -run '^TestLoginsWithPi$$' -logins.rounds=500
	$(LONG) ./e2e/extensions -run '^TestExamplesOfPi$$' -pi.examples

clean: ## remove what was built
	rm -rf bin cover
