package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestInstancesAreKeptAndReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if got, err := host.Instances(dir); err != nil || len(got) != 0 {
		t.Fatalf("an empty folder has %v, %v", got, err)
	}
	one := host.Instance{Name: "sandbox", Driver: "sandbox", URL: "http://127.0.0.1:8123", Private: []string{"127.0.0.1/32"}}
	two := host.Instance{Name: "work", Driver: "gitea", URL: "https://git.example.org", ClientID: "id", Rate: 5, Concurrency: 2, Scopes: []string{"read:user"}}
	moved := one
	moved.URL = "http://127.0.0.1:9000"
	for _, i := range []host.Instance{one, two, moved} {
		if err := host.SaveInstance(dir, i); err != nil {
			t.Fatal(err)
		}
	}
	got, err := host.Instances(dir)
	if diff := cmp.Diff([]host.Instance{two, moved}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	info, err := os.Stat(filepath.Join(dir, "providers.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("providers.json: %v %v", info.Mode(), err)
	}
}

// A restriction that is misspelt must not be silently absent.
// Guarantee: NET1
func TestProvidersFileIsReadStrictly(t *testing.T) {
	for name, content := range map[string]string{
		"unknown key":  `{"providers":[{"name":"a","driver":"sandbox","url":"https://a.example","privat":["10.0.0.0/8"]}]}`,
		"trailing":     `{"providers":[]} {"providers":[]}`,
		"wrong type":   `{"providers":[{"name":"a","driver":"sandbox","url":"https://a.example","rate":"5"}]}`,
		"not an array": `{"providers":{}}`,
		"empty":        ``,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "providers.json"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := host.Instances(dir); err == nil {
				t.Errorf("read as %v", got)
			}
		})
	}
}

// Guarantee: NET1, NET2
func TestAnInstanceThatCannotBeGuardedIsRefused(t *testing.T) {
	good := host.Instance{Name: "a", Driver: "sandbox", URL: "https://a.example"}
	for name, c := range map[string]struct {
		edit func(*host.Instance)
		want string
	}{
		"no name":           {func(i *host.Instance) { i.Name = "" }, "name"},
		"no url":            {func(i *host.Instance) { i.URL = "" }, "URL"},
		"unknown driver":    {func(i *host.Instance) { i.Driver = "jira" }, "driver"},
		"no client":         {func(i *host.Instance) { i.Driver = "gitea" }, "OAuth client"},
		"unknown sign-in":   {func(i *host.Instance) { i.SignIn = "password" }, "sign_in"},
		"plain http":        {func(i *host.Instance) { i.URL = "http://a.example" }, ""},
		"loopback unlisted": {func(i *host.Instance) { i.URL = "http://127.0.0.1:80" }, ""},
		"user info":         {func(i *host.Instance) { i.URL = "https://u:p@a.example" }, ""},
		"no range":          {func(i *host.Instance) { i.Private = []string{"10.0.0.1"} }, "address range"},
		"public range":      {func(i *host.Instance) { i.Private = []string{"8.8.8.0/24"} }, ""},
		"everything":        {func(i *host.Instance) { i.Private = []string{"0.0.0.0/0"} }, ""},
		"bad port":          {func(i *host.Instance) { i.URL = "https://a.example:99999" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			i := good
			c.edit(&i)
			err := i.Check()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Check = %v, want a refusal about %q", err, c.want)
			}
		})
	}
	for _, i := range []host.Instance{good, {Name: "a", Driver: "gitea", URL: "https://a.example", SignIn: host.SignInKey}} {
		if err := i.Check(); err != nil {
			t.Errorf("a good instance: %v", err)
		}
	}
}

func TestLoopbackIsForLiteralsOnly(t *testing.T) {
	for url, want := range map[string][]string{
		"http://127.0.0.1:8123": {"127.0.0.1/32"}, "http://[::1]:8123": {"::1/128"}, "http://127.9.8.7": {"127.9.8.7/32"},
		"http://localhost:8123": nil, "http://10.0.0.1": nil, "https://git.example.org": nil, "http://169.254.169.254": nil, ":": nil,
	} {
		if diff := cmp.Diff(want, host.Loopback(url)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", url, diff)
		}
	}
}
