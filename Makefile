SHELL := /bin/bash
.SHELLFLAGS := -eo pipefail -c
FIGURES := go run ./bench/figures

# Every target exits non-zero when it falls short. Figures come last, each on a
# line that begins with "figure:".
.PHONY: test check race lint postgres gitea bench flood refresh-harness crash-matrix storm demo image browser conformance kill docker guide senders contract release

test:            ## what the README names: needs only Go
	go test ./...

check: lint race ## before a change is handed in

race:
	go test -race ./...

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

postgres:        ## the same tests on a private PostgreSQL
	.ci/postgres env CI_REQUIRE_POSTGRES=1 go test -race -count=1 ./store/... ./quotas/... ./operations/... ./credentials/... ./host/... ./webhooks/... ./console/... ./mcpexpose/... ./contracttests/scenarios/...
	.ci/postgres env CI_REQUIRE_POSTGRES=1 go test -race -count=1 -run 'RollingRestart|Role' ./cmd/drawbridge

gitea:           ## the main job against a real Gitea
	.ci/gitea env CI_REQUIRE_GITEA=1 go test -race -count=1 ./contracttests/gitea
	.ci/gitea env CI_REQUIRE_GITEA=1 go test -race -count=1 -v -run Gitea ./cmd/drawbridge

bench:           ## ratios against the floor, in one run
	go test -run '^$$' -bench . ./bench/ | $(FIGURES)

flood:           ## ten thousand reads under faults leave nothing behind
	DRAWBRIDGE_FLOOD=10000 go test -count=1 -v -run Flood ./connector/transport | $(FIGURES)

refresh-harness: ## several processes renew one token, with pauses, crashes and outages
	.ci/postgres env CI_REQUIRE_POSTGRES=1 DRAWBRIDGE_HARNESS=full go test -count=1 -timeout 20m -v -run Harness ./credentials | $(FIGURES)

crash-matrix:    ## the process dies at each step of a create
	.ci/postgres env CI_REQUIRE_POSTGRES=1 DRAWBRIDGE_CRASH=full go test -count=1 -timeout 20m -v -run Crash ./contracttests/crash | $(FIGURES)

storm:           ## ten thousand creates under faults: none twice, none lost
	.ci/postgres env CI_REQUIRE_POSTGRES=1 DRAWBRIDGE_STORM=10000 go test -count=1 -timeout 20m -v -run Storm ./contracttests/crash | $(FIGURES)

demo:
	go run ./cmd/drawbridge demo

image:           ## the binary in an image FROM scratch, for the Docker engine that is running
	context=$$(mktemp -d) && trap 'rm -rf "$$context"' EXIT && mkdir "$$context/data" && \
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$$context/drawbridge" ./cmd/drawbridge && \
	cp /etc/ssl/certs/ca-certificates.crt "$$context/" && docker build -q -t drawbridge:dev -f Dockerfile "$$context"
	docker run --rm --network none --read-only --tmpfs /tmp drawbridge:dev demo

release:         ## the binary in dist/, and beside it what it is and what was shown
	rm -rf dist && mkdir -p dist
	CGO_ENABLED=0 go build -trimpath -o dist/drawbridge ./cmd/drawbridge
	dist/drawbridge contract --provider sandbox --report dist/evidence > /dev/null
	dist/drawbridge release --evidence dist/evidence --json > dist/drawbridge.release.json
	dist/drawbridge release --evidence dist/evidence | tail -n 1

browser:         ## people at the pages, in a real Chromium
	.ci/chromium .ci/gitea env CI_REQUIRE_CHROMIUM=1 CI_REQUIRE_GITEA=1 go test -count=1 -v ./contracttests/browser | $(FIGURES)

conformance:     ## the official MCP suite and clients, through the real edge
	.ci/conformance go test -count=1 -timeout 20m -v ./contracttests/mcp | $(FIGURES)

kill:            ## receiving processes die at random; what was acknowledged is there, once
	.ci/postgres env CI_REQUIRE_POSTGRES=1 DRAWBRIDGE_KILL=full go test -count=1 -timeout 20m -v -run 'TestKill|TestWorkerProcesses' ./webhooks/... | $(FIGURES)

guide:           ## from nothing to a tested connector, as docs/writing-a-connector.md says
	DRAWBRIDGE_GUIDE=1 go test -count=1 -timeout 20m -run 'TestTheGuide|TestNew|TestLintSpeaks|TestWhatCanNot|TestDevCommand|TestContract' -v ./cmd/drawbridge | $(FIGURES)

docker:          ## the sandbox and the product in containers FROM scratch, and the vendors' own types
	.ci/docker bash -c 'env CI_REQUIRE_DOCKER=1 go test -C contracttests/sandbox/docker -count=1 -v ./... && $(MAKE) image' | $(FIGURES)
	go test -C connector/toolshape/vendortypes -count=1 ./...

senders:         ## webhooks as the senders' own libraries and a real Gitea sign them
	.ci/node .ci/gitea env CI_REQUIRE_NODE=1 CI_REQUIRE_GITEA=1 go test -count=1 -v ./contracttests/senders | $(FIGURES)

contract:        ## the contract kit against the sandbox and a real Gitea
	.ci/gitea env CI_REQUIRE_GITEA=1 DRAWBRIDGE_CONTRACT=full go test -count=1 -timeout 20m -v ./contracttests/kit ./contracttests/broken ./contracttests/exposures | $(FIGURES)
