package profiles

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector/internal/strictjson"
)

// Load reads the profile file at a path. Files that it names are looked for
// beside it, unless their paths are absolute.
func Load(path string) (File, error) {
	raw, err := readFile(path)
	if err != nil {
		return File{}, fmt.Errorf("profile file: %w", err)
	}
	f, err := Parse(raw, func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}
		return readFile(name)
	})
	if err != nil {
		return File{}, fmt.Errorf("%s is not a valid profile file\n%w", filepath.Base(path), err)
	}
	return f, nil
}

// readFile reads a regular file of sane size: not a pipe that never ends.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(raw) > maxBytes {
		err = fmt.Errorf("over %d bytes", maxBytes)
	}
	return raw, err
}

// named reads a file for a node; the text of a failure has no path in it, as
// files are named relative to places that a log's reader may not know.
func (r reader) named(n strictjson.Node, at string) ([]byte, bool) {
	var name string
	r.Text(&name).Read(n, at)
	if name == "" {
		return nil, false
	}
	if r.files == nil {
		r.Fault(n, at, "names a file, and none can be read here")
		return nil, false
	}
	raw, err := r.files(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		r.Fault(n, at, "names a file that does not exist")
	case errors.Is(err, os.ErrPermission):
		r.Fault(n, at, "names a file that may not be read")
	case err != nil:
		r.Fault(n, at, "names a file that can't be read")
	}
	return raw, err == nil
}

// roots reads trusted certificates, given in one of two ways.
func (r reader) roots(into *[]byte, given *int, file bool) strictjson.Field {
	return strictjson.Field{Read: func(n strictjson.Node, at string) {
		var text string
		raw, ok := []byte(nil), true
		if file {
			raw, ok = r.named(n, at)
		} else {
			r.Text(&text).Read(n, at)
			raw, ok = []byte(text), text != ""
		}
		if *given++; *given > 1 {
			r.Fault(n, at, "gives the roots a second time; use roots or roots_file")
			return
		}
		if !ok {
			return
		}
		if problem := checkRoots(raw); problem != "" {
			r.Fault(n, at, "%s", problem)
			return
		}
		*into = raw
	}}
}

// checkRoots is stricter than x509.CertPool, which takes what it can read and
// is silent about the rest.
func checkRoots(raw []byte) string {
	certificates := 0
	for rest := raw; ; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			if strings.Contains(string(rest), "-----BEGIN") {
				return "has a PEM block that can't be read"
			}
			break
		}
		if strings.Contains(block.Type, "PRIVATE KEY") {
			return "has a private key in it, which must not be here"
		}
		if block.Type != "CERTIFICATE" {
			return "has a PEM block that is no certificate"
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "has a certificate that can't be read"
		}
		certificates++
	}
	if certificates == 0 {
		return "has no certificate in PEM form"
	}
	return ""
}

func (r reader) credentials(into *string) strictjson.Field {
	return strictjson.Field{Read: func(n strictjson.Node, at string) {
		raw, ok := r.named(n, at)
		if !ok {
			return
		}
		line := strings.TrimRight(string(raw), "\r\n")
		user, password, found := strings.Cut(line, ":")
		if !found || user == "" || password == "" || strings.ContainsAny(line, "\r\n\x00") {
			r.Fault(n, at, "names a file that is not one line of the form user:password")
			return
		}
		*into = line
	}}
}
