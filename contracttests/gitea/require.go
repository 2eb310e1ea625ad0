package gitea

import (
	"context"
	"os"
)

// TB is the part of testing.TB that ForTest needs. The command links this package for
// Login, and a product should not link the testing package.
type TB interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	TempDir() string
	Error(...any)
	Fatal(...any)
	Skip(...any)
}

// ForTest starts a server that ends with the test. Without DRAWBRIDGE_TEST_GITEA it skips
// the test, or fails it when CI_REQUIRE_GITEA is 1: a run that is to prove something about
// a real system must not pass by not looking. c.Dir, if empty, becomes a folder of the test.
func ForTest(t TB, c Config) *Server {
	t.Helper()
	if c.Binary == "" && os.Getenv("DRAWBRIDGE_TEST_GITEA") == "" {
		if os.Getenv("CI_REQUIRE_GITEA") == "1" {
			t.Fatal("CI_REQUIRE_GITEA is 1 and DRAWBRIDGE_TEST_GITEA is not set; run the test by .ci/gitea")
		}
		t.Skip("no Gitea; run the test by .ci/gitea")
	}
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	s, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
