package profiles

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

// write puts the full file and what it names into a folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "profiles.json")
}

func TestLoadFindsFilesBesideItself(t *testing.T) {
	path := write(t, map[string]string{"profiles.json": full, "ca.pem": pemOf(t), "proxy.txt": "bridge:" + canary})
	all, err := Load(path)
	if err != nil || len(all.Profiles) != 2 {
		t.Fatalf("%d profiles, %v", len(all.Profiles), err)
	}
	absolute := strings.Replace(full, `"ca.pem"`, `"`+filepath.ToSlash(filepath.Join(filepath.Dir(path), "ca.pem"))+`"`, 1)
	path = write(t, map[string]string{"profiles.json": absolute, "proxy.txt": "bridge:" + canary})
	if _, err := Load(path); err != nil {
		t.Error(err)
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	path := write(t, map[string]string{"profiles.json": full, "proxy.txt": "bridge:" + canary})
	_, err := Load(path)
	want := "profiles.json is not a valid profile file\nline 11, column 21: \"/profiles/0/roots_file\" names a file that does not exist"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err := Load(filepath.Join(filepath.Dir(path), "gone.json")); err == nil {
		t.Error("a missing file passed")
	}
	if _, err := Load(filepath.Dir(path)); err == nil {
		t.Error("a folder passed")
	}
	long := write(t, map[string]string{"profiles.json": strings.Repeat(" ", maxBytes+1)})
	if _, err := Load(long); err == nil {
		t.Error("a file over the limit passed")
	}
}

// Guarantee: NET10
func TestDescriptionHidesTheProxysPassword(t *testing.T) {
	all, err := Load(write(t, map[string]string{"profiles.json": full, "ca.pem": pemOf(t), "proxy.txt": "bridge:" + canary}))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	var ds []Description
	for _, p := range all.Profiles {
		ds = append(ds, Describe(p))
	}
	if err := WriteText(&text, ds); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(ds)
	if err != nil {
		t.Fatal(err)
	}
	for form, out := range map[string]string{"text": text.String(), "JSON": string(raw)} {
		if strings.Contains(out, canary) || strings.Contains(out, "bridge") {
			t.Errorf("%s shows the proxy's credentials:\n%s", form, out)
		}
		if !strings.Contains(out, "http://proxy.acme.example:3128") {
			t.Errorf("%s does not show the proxy:\n%s", form, out)
		}
	}
	if !ds[0].ProxyCredentials || ds[1].ProxyCredentials {
		t.Errorf("credentials: %t, %t, want true, false", ds[0].ProxyCredentials, ds[1].ProxyCredentials)
	}
	if len(ds[0].Roots) != 1 || ds[0].Roots[0].Subject != "CN=acme ca" || len(ds[0].Roots[0].SHA256) != 64 {
		t.Errorf("roots %+v", ds[0].Roots)
	}
	if d := ds[0].Limits; d.Read != "20s" || d.Concurrency != 2 || d.Rate != 0.5 {
		t.Errorf("limits %+v are not the file's", d)
	}
	if d := ds[1].Limits; d.Read != "30s" || d.BodyBytes != 4<<20 || ds[1].RequestIDHeader != "X-Request-Id" {
		t.Errorf("limits %+v are not the defaults", d)
	}
	if diff := cmp.Diff([]int{429, 503}, ds[0].RefusesBeforeProcessing); diff != "" {
		t.Error(diff)
	}
}

func TestTextCannotMoveTheCursor(t *testing.T) {
	var b strings.Builder
	if err := WriteText(&b, []Description{Describe(transport.Profile{Name: "a\x1b[2Jb", BaseURL: "https://a.example"})}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Errorf("%q", b.String())
	}
}
