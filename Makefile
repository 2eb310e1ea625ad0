# Every target exits non-zero when it falls short. Figures come last, each on a
# line that begins with "figure:".
.PHONY: test check race lint postgres gitea bench demo fuzz sandbox-image-binary

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
	.ci/postgres env CI_REQUIRE_POSTGRES=1 go test -race -count=1 ./store/... ./operations/... ./credentials/... ./host/...

gitea:           ## the main job against a real Gitea
	.ci/gitea env CI_REQUIRE_GITEA=1 go test -race -count=1 -v -run Gitea ./contracttests/... ./cmd/drawbridge/...

bench:           ## ratios against the floor, in one run
	go test -run '^$$' -bench . -benchmem ./bench/ | go run ./bench/figures

demo:
	go run ./cmd/drawbridge demo
