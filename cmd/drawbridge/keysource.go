package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/keys/vault"
)

// The settings of where keys come from that are not a flag: a token on the command
// line is shown to everybody who lists processes.
const (
	keysVariable           = "DRAWBRIDGE_KEYS"
	vaultTokenVariable     = "DRAWBRIDGE_VAULT_TOKEN"
	vaultTokenFileVariable = "DRAWBRIDGE_VAULT_TOKEN_FILE"
	vaultNamespaceVariable = "DRAWBRIDGE_VAULT_NAMESPACE"
)

// Files of the ring in the data folder. The first is host's own name for it.
const (
	plainKeysFile   = "keys.json"
	wrappedKeysFile = "keys.wrapped"
)

// keySource is what --keys says: one of the three.
type keySource struct {
	file     string // the ring lies here, plain or wrapped
	variable string // or in the environment
	vault    string // address of the server that has wrapped file
	kms      keys.KMS
}

// keySource reads a setting. Nothing is opened or asked.
func (a *app) keySource(setting string) (keySource, error) {
	kind, rest, _ := strings.Cut(setting, ":")
	switch {
	case setting == "" || setting == "file":
		return keySource{file: filepath.Join(a.data, plainKeysFile)}, nil
	case kind == "file" && rest != "":
		return keySource{file: rest}, nil
	case kind == "env" && rest != "":
		return keySource{variable: rest}, nil
	case kind == "vault":
		return a.vaultSource(rest)
	}
	return keySource{}, usagef("keys come from file:PATH, env:NAME or vault:https://HOST/MOUNT/KEY")
}

// vaultSource takes a URL apart: the last part of its path is the transit key, what
// stands before is the mount.
func (a *app) vaultSource(text string) (keySource, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return keySource{}, usagef("keys in Vault are named like vault:https://vault.example.org/transit/drawbridge")
	}
	path := strings.Trim(u.Path, "/")
	cut := strings.LastIndex(path, "/")
	if cut < 0 {
		return keySource{}, usagef("the address of keys in Vault ends with MOUNT/KEY, such as /transit/drawbridge")
	}
	u.Path, u.RawPath = "", ""
	c := vault.Config{Address: u.String(), Mount: path[:cut], Key: path[cut+1:], Namespace: os.Getenv(vaultNamespaceVariable)}
	file, token := os.Getenv(vaultTokenFileVariable), os.Getenv(vaultTokenVariable)
	switch {
	case file != "" && token != "":
		return keySource{}, usagef("both %s and %s are set", vaultTokenFileVariable, vaultTokenVariable)
	case file != "":
		// Read for each request: an agent replaces it.
		c.Token = func(context.Context) (string, error) {
			raw, err := os.ReadFile(file)
			return strings.TrimSpace(string(raw)), err
		}
	case token != "":
		c.Token = func(context.Context) (string, error) { return token, nil }
	}
	kms, err := vault.New(c)
	if err != nil {
		return keySource{}, usagef("%w", err)
	}
	return keySource{file: filepath.Join(a.data, wrappedKeysFile), vault: u.String(), kms: kms}, nil
}

// ring opens the keys of --keys.
func (a *app) ring() (*keys.Ring, error) {
	s, err := a.keySource(a.keys)
	if err != nil {
		return nil, err
	}
	if s.variable != "" {
		text := os.Getenv(s.variable)
		if text == "" {
			return nil, usagef("the environment has no %s; drawbridge keys generate makes its text", s.variable)
		}
		return keys.Parse(text)
	}
	// Another file than before would be filled with fresh keys, which open nothing.
	if plain := filepath.Join(a.data, plainKeysFile); s.file != plain && absent(s.file) && !absent(plain) {
		return nil, usagef("there are keys in %s and none in %s; drawbridge keys move %s takes them there", plain, s.file, a.keys)
	}
	if s.kms != nil {
		return keys.OpenWrapped(s.file, s.kms)
	}
	return keys.OpenFile(s.file)
}

func absent(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// moveKeys copies the ring to where another setting says.
func (a *app) moveKeys(r *keys.Ring, to string) error {
	s, err := a.keySource(to)
	if err != nil {
		return err
	}
	if s.variable != "" {
		return a.exportKeys(r, s.variable)
	}
	if err := r.CopyTo(s.file, s.kms); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "the keys are in %s now, too. Run everything with --keys %s, then delete them where they were.\n", s.file, to)
	return nil
}

// exportKeys prints the secret text of a ring for the environment.
func (a *app) exportKeys(r *keys.Ring, variable string) error {
	text, err := r.Export()
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, text)
	fmt.Fprintf(a.err, "this is the secret for %s; nothing else keeps it\n", variable)
	return nil
}
