package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// golden is testdata/desk.json with one change, which must hit exactly once.
func golden(t *testing.T, old, replacement string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/desk.json")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), old); n != 1 && old != "" {
		t.Fatalf("%q is there %d times; this case needs exactly one", old, n)
	}
	if old == "" {
		return string(raw) + replacement
	}
	return strings.Replace(string(raw), old, replacement, 1)
}

// faultList flattens the error of Parse to line:column, pointer and problem.
func faultList(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	var lines []string
	for _, e := range all {
		var f *Fault
		if !errors.As(e, &f) {
			t.Fatalf("%T is not a *Fault: %v", e, e)
		}
		lines = append(lines, fmt.Sprintf("%d:%d %s %s", f.Line, f.Column, f.Pointer, f.Problem))
	}
	return lines
}

// Guarantee: CON1
func TestEveryFaultNamesItsLine(t *testing.T) {
	for name, tc := range map[string]struct {
		old, replacement string
		want             []string
	}{
		"unknown key":                 {`"owner": `, "\"ownr\": \"x\",\n  \"owner\": ", []string{"5:3 /ownr is not a key of this format"}},
		"key in another case":         {`"owner": `, `"Owner": `, []string{"1:1  lacks the key owner", "5:3 /Owner is not a key of this format"}},
		"a credential":                {`"owner": `, `"token": "hunter2", "owner": `, []string{"5:3 /token is not a key of this format"}},
		"a connection":                {`"owner": `, `"connection_id": "con_1", "owner": `, []string{"5:3 /connection_id is not a key of this format"}},
		"an approval that was given":  {"\"approval\": false\n", "\"approval\": false, \"approval_id\": \"apr_1\"\n", []string{"23:26 /capabilities/0/approval_id is not a key of this format"}},
		"key twice":                   {`"owner": `, "\"version\": \"9.9.9\",\n  \"owner\": ", []string{"5:3 /version is there twice"}},
		"key twice, once escaped":     {`"owner": `, "\"\\u0076ersion\": \"9.9.9\",\n  \"owner\": ", []string{"5:3 /version is there twice"}},
		"key twice, in a capability":  {`"effect": "read",`, `"effect": "read", "effect": "irreversible_write",`, []string{"21:25 /capabilities/0/effect is there twice"}},
		"missing effect":              {"      \"effect\": \"read\",\n", "", []string{"16:5 /capabilities/0 lacks the key effect"}},
		"missing sensitivity":         {"      \"sensitivity\": \"sensitive\",\n", "", []string{"16:5 /capabilities/0 lacks the key sensitivity"}},
		"effect null":                 {`"effect": "read"`, `"effect": null`, []string{"21:17 /capabilities/0/effect must be one of read, reversible_write, compensable_write, irreversible_write"}},
		"effect unknown":              {`"effect": "read"`, `"effect": "harmless"`, []string{"21:17 /capabilities/0/effect must be one of read, reversible_write, compensable_write, irreversible_write"}},
		"effect in capitals":          {`"effect": "read"`, `"effect": "READ"`, []string{"21:17 /capabilities/0/effect must be one of read, reversible_write, compensable_write, irreversible_write"}},
		"effect as a number":          {`"effect": "read"`, `"effect": 1`, []string{"21:17 /capabilities/0/effect must be one of read, reversible_write, compensable_write, irreversible_write"}},
		"effect unclassified":         {`"effect": "read"`, `"effect": "unclassified"`, []string{"21:17 /capabilities/0/effect must be one of read, reversible_write, compensable_write, irreversible_write"}},
		"sensitivity unknown":         {`"sensitive"`, `"secret"`, []string{"22:22 /capabilities/0/sensitivity must be one of public, internal, sensitive, restricted"}},
		"name twice":                  {`"desk.raise"`, `"desk.create"`, []string{"40:15 /capabilities/2/name names a capability that is there already"}},
		"name of another connector":   {`"desk.raise"`, `"desktop.raise"`, []string{"40:15 /capabilities/2/name must begin with the connector's id and a dot"}},
		"name in capitals":            {`"desk.raise"`, `"desk.Raise"`, []string{"40:15 /capabilities/2/name must be connector.operation, in lower case"}},
		"write without approval":      {"\"approval\": true,\n      \"dedupe\": {\n        \"kind\": \"none\"", "\"approval\": false,\n      \"dedupe\": {\n        \"kind\": \"none\"", []string{"47:19 /capabilities/2/approval must be true: every write is approved"}},
		"write without dedupe":        {",\n      \"dedupe\": {\n        \"kind\": \"none\"\n      }", "", []string{"39:5 /capabilities/2 is a write and lacks the key dedupe; say none if the provider recognises no repeat"}},
		"read with dedupe":            {"\"approval\": false\n", "\"approval\": false,\n\"dedupe\": {\"kind\": \"none\"}\n", []string{"24:11 /capabilities/0/dedupe is for writes, and this is a read"}},
		"dedupe of an unknown kind":   {`"kind": "none"`, `"kind": ""`, []string{"49:17 /capabilities/2/dedupe/kind must be one of none, header, field, marker"}},
		"header without a name":       {`"kind": "none"`, `"kind": "header"`, []string{"48:17 /capabilities/2/dedupe needs the name of the header"}},
		"approval as text":            {"\"approval\": false\n", "\"approval\": \"false\"\n", []string{"23:19 /capabilities/0/approval must be true or false"}},
		"deprecated without a reason": {`"use desk.create"`, `""`, []string{"51:21 /capabilities/2/deprecated must be a string that says something"}},
		"scope never asked for":       {"\"desk:read\"\n      ],\n      \"effect\": \"read\"", "\"desk:admin\"\n      ],\n      \"effect\": \"read\"", []string{"19:9 /capabilities/0/scopes/0 is a scope that auth never asks for"}},
		"no scope":                    {"\"desk:read\"\n      ],\n      \"effect\": \"read\"", "],\n      \"effect\": \"read\"", []string{"18:17 /capabilities/0/scopes is empty: a capability needs at least one scope"}},
		"version":                     {`"1.4.0"`, `"1.4"`, []string{"4:14 /version must be a semantic version"}},
		"id":                          {`"id": "desk"`, `"id": "Desk"`, []string{"3:9 /id must be a lower-case name"}},
		"profile that is an address":  {`"owner": `, `"endpoint_profile": "https://a.example/?key=1", "owner": `, []string{"5:23 /endpoint_profile must be the name of a profile"}},
		"store that is an address":    {`"kind": "oauth2_authorization_code"`, `"credential_store": "vault://user:pw@h", "kind": "oauth2_authorization_code"`, []string{"9:25 /auth/credential_store must be the name of a store"}},
		"excluded and preserved":      {`"private_note"`, `"login"`, []string{"54:13 /output excludes and preserves the same property"}},
		"excluded twice":              {`"private_note"`, `"email"`, []string{"57:7 /output/excluded/1 is there twice"}},
		"another format":              {`"manifest": 1`, `"manifest": 2`, []string{"2:15 /manifest must be the number 1, the only format there is"}},
		"another spelling of one":     {`"manifest": 1`, `"manifest": 1.0`, []string{"2:15 /manifest must be the number 1, the only format there is"}},
		"object where a list is due":  {"\"limitations\": [\n    \"search lags writes by up to a minute\"\n  ]", `"limitations": {}`, []string{"65:18 /limitations must be a list"}},
		"trailing data":               {"", "{}", []string{"69:1  there is something behind the document"}},
		"trailing comma":              {"minute\"\n", "minute\",\n", []string{"66:43  this is not JSON"}},
		"comment":                     {`"owner": `, "// who\n  \"owner\": ", []string{"5:3  this is not JSON"}},
		"invalid UTF-8":               {`"support-platform"`, "\"\xff\"", []string{"5:13  this is not JSON"}},
		"column counts characters":    {`"support-platform"`, `"Gerätehöfe", "x": 1`, []string{"5:26 /x is not a key of this format"}},
		"a key that needs escaping":   {`"owner": `, "\"a/b~\": 1,\n  \"owner\": ", []string{"5:3 /a~1b~0 is not a key of this format"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Parse([]byte(golden(t, tc.old, tc.replacement)))
			if diff := cmp.Diff(tc.want, faultList(t, err)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if err != nil && !cmp.Equal(m, Manifest{}) {
				t.Errorf("a refused manifest still has content: %+v", m)
			}
		})
	}
}

// Guarantee: CON1
func TestAllFaultsAreReportedAtOnceInTheOrderOfTheText(t *testing.T) {
	_, err := Parse([]byte(`{
  "manifest": 1, "id": "desk", "version": "1.0.0", "provider": "p", "provider_api_version": "1",
  "color": "red",
  "auth": {"kind": "oauth2_authorization_code", "scopes": ["a", 5]},
  "capabilities": [
    {"name": "desk.get", "scopes": ["a"], "sensitivity": "public", "approval": false},
    {"name": "desk.get", "scopes": ["a"], "effect": "bad", "sensitivity": "worse", "approval": false},
    "desk.put"
  ],
  "output": null,
  "limitations": []
}`))
	want := []string{
		"1:1  lacks the key owner",
		"3:3 /color is not a key of this format",
		"4:65 /auth/scopes/1 must be a string that says something",
		"6:5 /capabilities/0 lacks the key effect",
		"7:14 /capabilities/1/name names a capability that is there already",
		"7:53 /capabilities/1/effect must be one of read, reversible_write, compensable_write, irreversible_write",
		"7:75 /capabilities/1/sensitivity must be one of public, internal, sensitive, restricted",
		"8:5 /capabilities/2 must be an object",
		"10:13 /output must be an object",
	}
	if diff := cmp.Diff(want, faultList(t, err)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestDocumentsThatAreNone(t *testing.T) {
	for raw, want := range map[string]string{
		"":            "1:1  the document ends too early",
		"\n\n  ":      "3:3  the document ends too early",
		"{\n":         "2:1  the document ends too early",
		`{"id`:        "1:5  the document ends too early",
		"\ufeff{}":    "1:1  this is not JSON",
		"null":        "1:1  must be an object",
		"[]":          "1:1  must be an object",
		"id: desk\n":  "1:1  this is not JSON",
		"{}\n\n {}":   "3:2  there is something behind the document",
		"{} \x00":     "1:4  there is something behind the document",
		"{\"a\" 1}\n": "1:6  this is not JSON",
	} {
		_, err := Parse([]byte(raw))
		if got := faultList(t, err); len(got) != 1 || got[0] != want {
			t.Errorf("Parse(%q) = %q, want %q", raw, got, want)
		}
	}
}

// The file of someone who pasted a secret into it must not end up in a log.
func TestFaultsNeverQuoteValues(t *testing.T) {
	const secret = "s3cr3t-value"
	for _, key := range []string{"manifest", "id", "version", "owner", "auth", "capabilities", "output", "limitations", "endpoint_profile", "password"} {
		_, err := Parse([]byte(`{"` + key + `": {"a": "` + secret + `"}}`))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", key, err)
		}
		_, err = Parse([]byte(`{"` + key + `": "` + secret + `!"}`))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestHostileDocumentsAreCutShort(t *testing.T) {
	if _, err := Parse([]byte(strings.Repeat(" ", maxBytes+1))); err == nil || faultsOf(err) != 0 {
		t.Errorf("over the size limit: %v", err)
	}
	if _, err := Parse([]byte(strings.Repeat("[", maxBytes))); faultsOf(err) != 1 {
		t.Errorf("deep nesting: %d faults, want 1", faultsOf(err))
	}
	many := `{"x":1` + strings.Repeat(`,"x":1`, 10_000) + `}`
	if _, err := Parse([]byte(many)); faultsOf(err) != maxFaults {
		t.Errorf("many faults: %d, want %d", faultsOf(err), maxFaults)
	}
	_, err := Parse([]byte("{\"a\\nlevel=INFO\": 1}"))
	if err == nil || strings.Contains(err.Error(), "\nlevel") {
		t.Errorf("a key of the document breaks out of its line: %v", err)
	}
}

func faultsOf(err error) int {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return len(joined.Unwrap())
	}
	var f *Fault
	if errors.As(err, &f) {
		return 1
	}
	return 0
}

func anyManifest(t *rapid.T) Manifest {
	word := rapid.StringMatching(`[a-z][a-z0-9_]{0,8}`)
	prose := rapid.StringMatching(`[a-zäö"<&\\ ]{0,10}[a-z]`)
	m := Manifest{
		Format: Format, ID: word.Draw(t, "id"), Version: rapid.StringMatching(`[1-9]\.0\.[1-9](-rc\.1)?`).Draw(t, "version"),
		Owner: prose.Draw(t, "owner"), Provider: prose.Draw(t, "provider"), ProviderVersion: prose.Draw(t, "api"),
		EndpointProfile: rapid.SampledFrom([]string{"", "eu-1"}).Draw(t, "profile"),
		Auth: Auth{
			Kind: connector.AuthKind(word.Draw(t, "kind")), Scopes: rapid.SliceOfNDistinct(prose, 1, 4, rapid.ID).Draw(t, "scopes"),
			CredentialStore: rapid.SampledFrom([]string{"", "vault"}).Draw(t, "store"),
		},
		Output:      Output{Excluded: []string{"e_mail"}, Preserved: rapid.SliceOfNDistinct(rapid.StringMatching(`[a-d]{1,3}`), 0, 3, rapid.ID).Draw(t, "preserved")},
		Limitations: rapid.SliceOfNDistinct(prose, 0, 2, rapid.ID).Draw(t, "limitations"),
	}
	for _, name := range rapid.SliceOfNDistinct(word, 1, 4, rapid.ID).Draw(t, "names") {
		c := Capability{
			Name: m.ID + "." + name, Scopes: m.Auth.Scopes[:rapid.IntRange(1, len(m.Auth.Scopes)).Draw(t, "n")],
			Effect:      connector.Effect(rapid.IntRange(1, 4).Draw(t, "effect")),
			Sensitivity: connector.Sensitivity(rapid.IntRange(1, 4).Draw(t, "sensitivity")),
			Approval:    true, Deprecated: rapid.SampledFrom([]string{"", "old"}).Draw(t, "deprecated"),
		}
		if c.Effect != connector.EffectRead {
			c.Dedupe = rapid.SampledFrom([]*Dedupe{{Kind: "none"}, {Kind: "marker"}, {"header", "X-Key"}, {"field", "external_id"}}).Draw(t, "dedupe")
		}
		m.Capabilities = append(m.Capabilities, c)
	}
	return m
}

// Guarantee: CON1
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyManifest(t)
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(raw)
		if err != nil {
			t.Fatalf("Parse(%s): %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("manifest (-want +got):\n%s", diff)
		}
	})
}

// Any required key that is taken away, anywhere, is missed by name.
func TestEveryRequiredKeyIsRequired(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(anyManifest(t))
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		at := rapid.SampledFrom([]string{"", "auth", "output", "capabilities"}).Draw(t, "at")
		object := doc
		switch at {
		case "auth", "output":
			object = doc[at].(map[string]any)
		case "capabilities":
			object = doc[at].([]any)[0].(map[string]any)
		}
		var keys []string
		for key := range object {
			switch key {
			case "endpoint_profile", "credential_store", "deprecated", "dedupe":
			default:
				keys = append(keys, key)
			}
		}
		key := rapid.SampledFrom(slices.Sorted(slices.Values(keys))).Draw(t, "key")
		delete(object, key)
		less, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = Parse(less); err == nil || !strings.Contains(err.Error(), "lacks the key "+key) {
			t.Fatalf("without %s in %q: %v", key, at, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	raw, err := os.ReadFile("testdata/desk.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte("{\"a\": [1, {\"b\": \"\\ud800\"}]}"))
	f.Add([]byte("\xff{"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Parse(raw)
		if err == nil {
			again, err := json.Marshal(m)
			if err != nil {
				t.Fatalf("what was parsed can't be written: %v", err)
			}
			back, err := Parse(again)
			if err != nil {
				t.Fatalf("what was written can't be parsed: %v", err)
			}
			if diff := cmp.Diff(m, back); diff != "" {
				t.Fatalf("round trip:\n%s", diff)
			}
			return
		}
		var f *Fault
		if len(raw) <= maxBytes && !errors.As(err, &f) {
			t.Fatalf("an error without a place: %v", err)
		}
		if f != nil {
			lines := strings.Split(string(raw), "\n")
			if f.Line < 1 || f.Line > len(lines) || f.Column < 1 || f.Column > utf8.RuneCountInString(lines[f.Line-1])+1 {
				t.Fatalf("line %d, column %d is outside the text", f.Line, f.Column)
			}
		}
	})
}
