package edge

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// message is what the door needs to know of a request's body.
type message struct {
	id     jsontext.Value // to name the request in a refusal; nil: it has none
	method string
	tool   string // of tools/call
}

// modernEra is the first version whose unknown successors the server behind refuses
// in the protocol's own words.
const modernEra = "2026-07-28"

// older are the versions of the handshake that are spoken.
var older = []string{"2025-11-25", "2025-06-18", "2025-03-26"}

// Versions are those of the protocol that pass the door, the newest first.
func Versions() []string { return append([]string{modernEra}, older...) }

// JSON-RPC error codes (MCP 2026-07-28).
const (
	invalidRequest     = -32600
	parseError         = -32700
	unsupportedVersion = -32022
)

// message looks at a request before anybody acts on it. Without a version header the
// SDK would assume a version in which one request may hold many calls; so a header is
// required but for the handshake that agrees on one, and a batch never passes.
func (e *Edge) message(w http.ResponseWriter, r *http.Request) (message, bool) {
	var m message
	if r.Method == http.MethodPost {
		var ok bool
		if m, ok = e.post(w, r); !ok {
			return m, false
		}
	}
	version := r.Header.Values("Mcp-Protocol-Version")
	switch {
	case len(version) > 1:
		rpcError(w, m.id, nil, invalidRequest, "MCP-Protocol-Version may come once")
	case len(version) == 1 && version[0] < modernEra && !slices.Contains(older, version[0]):
		supported := map[string]any{"requested": version[0], "supported": append([]string{modernEra}, older...)}
		rpcError(w, m.id, supported, unsupportedVersion, "unsupported protocol version")
	case len(version) == 0 && r.Method == http.MethodPost && m.method != "initialize":
		rpcError(w, m.id, nil, invalidRequest, "MCP-Protocol-Version is missing")
	default:
		return m, true
	}
	return m, false
}

// post reads the message of a request.
func (e *Edge) post(w http.ResponseWriter, r *http.Request) (m message, ok bool) {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		refuse(w, http.StatusUnsupportedMediaType, "bodies are not compressed here")
		return m, false
	}
	body, ok := e.read(w, r)
	if !ok {
		return m, false
	}
	value := jsontext.Value(body)
	if !value.IsValid() {
		rpcError(w, nil, nil, parseError, "the body is not one JSON document without names that come twice")
		return m, false
	}
	if value.Kind() != '{' {
		rpcError(w, nil, nil, invalidRequest, "one message a request")
		return m, false
	}
	doc, ok := members(value, "id", "method", "params")
	if id := doc["id"]; id.Kind() == '"' || id.Kind() == '0' {
		m.id = id
	}
	if !ok || doc["method"] != nil && json.Unmarshal(doc["method"], &m.method) != nil {
		rpcError(w, m.id, nil, invalidRequest, "not a message of the protocol")
		return m, false
	}
	if m.method != "tools/call" {
		return m, true
	}
	params, ok := members(doc["params"], "name")
	if !ok || json.Unmarshal(params["name"], &m.tool) != nil || m.tool == "" {
		rpcError(w, m.id, nil, invalidRequest, "a call names its tool")
		return m, false
	}
	return m, true
}

// members reads an object. The door and the server behind it have to see the same
// call: a name that comes twice, or once more in another case, would let one of them
// read the first and the other the last.
func members(object jsontext.Value, names ...string) (map[string]jsontext.Value, bool) {
	var all map[string]jsontext.Value
	if jsonv2.Unmarshal(object, &all) != nil {
		return nil, false
	}
	for found := range all {
		for _, name := range names {
			if found != name && strings.EqualFold(found, name) {
				return all, false
			}
		}
	}
	return all, true
}

func rpcError(w http.ResponseWriter, id jsontext.Value, data any, code int, text string) {
	fault := map[string]any{"code": code, "message": text}
	if data != nil {
		fault["data"] = data
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": nil, "error": fault}
	if id != nil {
		answer["id"] = json.RawMessage(id)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(answer)
}
