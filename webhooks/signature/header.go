package signature

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// signatures are the candidates of one header. Each may be right.
type signatures struct {
	macs   [][]byte // of sha256.Size
	edward [][]byte // of ed25519.SignatureSize
	token  []byte
	at     string // a time that stands in the same header
}

// maxCandidates is more than any rotation needs; a long list is work for nothing.
const maxCandidates = 16

// versioned reads "v1,BASE64 v1a,BASE64 ..." (Standard Webhooks). Versions that
// are not known are passed over, as the specification asks.
func versioned(header string) (s signatures, ok bool) {
	entries := strings.Split(header, " ")
	if len(entries) > maxCandidates {
		return s, false
	}
	for _, entry := range entries {
		version, text, found := strings.Cut(entry, ",")
		if !found {
			return s, false
		}
		if version != "v1" && version != "v1a" {
			continue
		}
		raw, err := strictBase64(text)
		switch {
		case err != nil:
			return s, false
		case version == "v1" && len(raw) == sha256.Size:
			s.macs = append(s.macs, raw)
		case version == "v1a" && len(raw) == ed25519.SignatureSize:
			s.edward = append(s.edward, raw)
		default:
			return s, false
		}
	}
	return s, len(s.macs)+len(s.edward) > 0
}

// prefixedHex reads a prefix and 64 hex digits of either case.
func prefixedHex(prefix string) func(string) (signatures, bool) {
	return func(header string) (signatures, bool) {
		text, found := strings.CutPrefix(header, prefix)
		raw, ok := hexMAC(text)
		return signatures{macs: [][]byte{raw}}, found && ok
	}
}

func hexMAC(text string) ([]byte, bool) {
	raw, err := hex.DecodeString(text)
	return raw, err == nil && len(raw) == sha256.Size
}

func base64MAC(header string) (signatures, bool) {
	raw, err := strictBase64(header)
	return signatures{macs: [][]byte{raw}}, err == nil && len(raw) == sha256.Size
}

func bare(header string) (signatures, bool) { return signatures{token: []byte(header)}, true }

// stripeHeader reads "t=SECONDS,v1=HEX[,v1=HEX][,v0=HEX]". v0 is not a
// production scheme and is passed over.
func stripeHeader(header string) (s signatures, ok bool) {
	entries := strings.Split(header, ",")
	if len(entries) > maxCandidates {
		return s, false
	}
	for _, entry := range entries {
		name, value, found := strings.Cut(entry, "=")
		switch {
		case !found:
			return s, false
		case name == "t" && s.at != "":
			return s, false
		case name == "t":
			s.at = value
		case name == "v1":
			raw, ok := hexMAC(value)
			if !ok {
				return s, false
			}
			s.macs = append(s.macs, raw)
		}
	}
	return s, s.at != "" && len(s.macs) > 0
}

func seconds(text string) (time.Time, bool) {
	if len(text) == 0 || len(text) > 12 || strings.Trim(text, "0123456789") != "" {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(n, 0), err == nil
}

func rfc3339(text string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil
}

// linearTime reads the signed time in milliseconds.
func linearTime(body []byte) (time.Time, bool) {
	// Not a struct: that would take the name in any case.
	var doc map[string]json.RawMessage
	if json.Unmarshal(body, &doc) != nil {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(string(doc["webhookTimestamp"]), 10, 64)
	return time.UnixMilli(n), err == nil && n > 0
}

// standardID keeps dots out: with one in it, an id and a time can be moved
// against each other under the same signature.
func standardID(id string) bool { return idOf(id, "") }

func anyID(id string) bool { return idOf(id, ".:{}") }

func idOf(id, more string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || strings.IndexByte(more, c) >= 0) {
			return false
		}
	}
	return true
}

func bodyOnly(_, _ string, body []byte) [][]byte { return [][]byte{body} }

func idTimeBody(id, at string, body []byte) [][]byte {
	return [][]byte{[]byte(id + "." + at + "."), body}
}

func timeBody(between string) func(string, string, []byte) [][]byte {
	return func(_, at string, body []byte) [][]byte { return [][]byte{[]byte(at + between), body} }
}

func slackContent(_, at string, body []byte) [][]byte {
	return [][]byte{[]byte("v0:" + at + ":"), body}
}
