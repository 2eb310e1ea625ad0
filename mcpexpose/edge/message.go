package edge

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// message is what the door needs to know of a request's body.
type message struct {
	method string
	tool   string // of tools/call
}

// modernEra is the first version whose unknown successors the server behind refuses
// in the protocol's own words.
const modernEra = "2026-07-28"

// older are the versions of the handshake that are spoken.
var older = []string{"2025-11-25", "2025-06-18", "2025-03-26"}

// JSON-RPC error codes (MCP 2026-07-28).
const (
	invalidRequest     = -32600
	parseError         = -32700
	unsupportedVersion = -32022
)

// message looks at a request before anybody acts on it. Without a version header the
// SDK would assume a version in which one request may hold many calls; so a header is
// required but for the handshake that agrees on one, and a batch never passes. Names
// that come twice are refused: the door might read the first and the server the last.
func (e *Edge) message(w http.ResponseWriter, r *http.Request) (message, bool) {
	var m message
	version := r.Header.Values("Mcp-Protocol-Version")
	if len(version) > 1 {
		rpcError(w, nil, invalidRequest, "MCP-Protocol-Version may come once")
		return m, false
	}
	if len(version) == 1 && version[0] < modernEra && !slices.Contains(older, version[0]) {
		rpcError(w, map[string]any{"requested": version[0], "supported": append([]string{modernEra}, older...)}, unsupportedVersion, "unsupported protocol version")
		return m, false
	}
	if r.Method != http.MethodPost {
		return m, true
	}
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
		rpcError(w, nil, parseError, "the body is not one JSON document without names that come twice")
		return m, false
	}
	if value.Kind() != '{' {
		rpcError(w, nil, invalidRequest, "one message a request")
		return m, false
	}
	var doc struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(body, &doc) != nil {
		rpcError(w, nil, invalidRequest, "not a message of the protocol")
		return m, false
	}
	m.method = doc.Method
	if len(version) == 0 && m.method != "initialize" {
		rpcError(w, nil, invalidRequest, "MCP-Protocol-Version is missing")
		return m, false
	}
	if m.method != "tools/call" {
		return m, true
	}
	var params struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(doc.Params, &params) != nil || params.Name == "" {
		rpcError(w, nil, invalidRequest, "a call names its tool")
		return m, false
	}
	m.tool = params.Name
	return m, true
}

func rpcError(w http.ResponseWriter, data any, code int, text string) {
	fault := map[string]any{"code": code, "message": text}
	if data != nil {
		fault["data"] = data
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": nil, "error": fault})
}
