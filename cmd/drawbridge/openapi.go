package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// apiSkeleton is what an OpenAPI description gives for a connector.
type apiSkeleton struct {
	Version    string   // of the provider's API
	Scopes     []string // of all operations together
	Operations []apiOperation
	Types      []apiType
	Account    apiAccount
	Contract   apiContract
}

// Writes reports whether there is a write.
func (s apiSkeleton) Writes() bool {
	return slices.ContainsFunc(s.Operations, func(o apiOperation) bool { return o.Write })
}

// apiOperation becomes one tool.
type apiOperation struct {
	Tool, Func, Title, Doc string
	Write                  bool
	Scopes                 []string
	In, Out                string // Go types
	Input                  string // JSON schema: the description's own bounds
	Path                   string // a Go expression
	Query                  []apiField
	Body                   []apiField // empty: no body
	ID                     string     // of Out, in Go; writes have one
	Sample                 string     // an answer that fits, JSON
	Arguments              string     // an input that fits, JSON
	template               string     // the path as the description has it
}

type apiType struct {
	Name, Doc string
	Fields    []apiField
}

type apiField struct {
	Name, Go, Type, Tag string
	Optional            bool
}

// apiAccount is the read that tells whose credential it is.
type apiAccount struct {
	Path           string
	Subject, Login string // properties
}

// apiReader turns a description into a skeleton, or says why it can't.
type apiReader struct {
	doc    map[string]any
	out    apiSkeleton
	names  map[string]bool
	scoped bool // scopes are the provider's
}

// readAPI reads the chosen operations. All that is wrong is reported at once.
func readAPI(raw []byte, name string, f newFlags) (*apiSkeleton, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	r := &apiReader{names: map[string]bool{"New": true}, scoped: f.auth == "oauth"}
	if err := d.Decode(&r.doc); err != nil {
		return nil, usagef("the description is not JSON; OpenAPI in YAML has to be converted first")
	}
	if v := str(r.doc["openapi"]); !strings.HasPrefix(v, "3.") {
		return nil, usagef("the description is not OpenAPI 3")
	}
	if len(f.operations) == 0 {
		return nil, usagef("name the operations with --operation, such as %s", strings.Join(r.some(), ", "))
	}
	r.out.Version = str(r.object(r.doc["info"])["version"])
	if r.out.Version == "" || strings.ContainsAny(r.out.Version, "\"\\\n") {
		r.out.Version = "unknown"
	}
	var faults []string
	for _, chosen := range f.operations {
		if err := r.operation(name, chosen); err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", chosen, err))
		}
	}
	if err := r.account(f.account); err != nil {
		faults = append(faults, fmt.Sprintf("--account: %v", err))
	}
	if len(faults) > 0 {
		return nil, usagef("this can't be carried over, and nothing was written:\n  %s", strings.Join(faults, "\n  "))
	}
	r.out.Contract = r.contractUses()
	slices.Sort(r.out.Scopes)
	r.out.Scopes = slices.Compact(r.out.Scopes)
	return &r.out, nil
}

// some names the operations that there are.
func (r *apiReader) some() (all []string) {
	paths := r.object(r.doc["paths"])
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, method := range []string{"get", "post"} {
			if _, ok := r.object(paths[path])[method]; ok && len(all) < 5 {
				all = append(all, fmt.Sprintf("%q", strings.ToUpper(method)+" "+path))
			}
		}
	}
	return append(all, "...")
}

func (r *apiReader) find(chosen string) (method, path string, op map[string]any, err error) {
	method, path, ok := strings.Cut(chosen, " ")
	if !ok || method != "GET" && method != "POST" {
		return "", "", nil, fmt.Errorf("write GET or POST, a blank and the path; other methods are written by hand")
	}
	item := r.object(r.object(r.doc["paths"])[path])
	if op = r.object(item[strings.ToLower(method)]); op == nil {
		return "", "", nil, fmt.Errorf("the description has no such operation")
	}
	// Parameters of the path hold for all its operations.
	shared, _ := item["parameters"].([]any)
	own, _ := op["parameters"].([]any)
	op = maps.Clone(op)
	op["parameters"] = slices.Concat(shared, own)
	return method, path, op, nil
}

func (r *apiReader) operation(connector, chosen string) error {
	method, path, op, err := r.find(chosen)
	if err != nil {
		return err
	}
	id := str(op["operationId"])
	if id == "" {
		id = strings.ToLower(method) + " " + strings.NewReplacer("/", " ", "{", "by ", "}", "").Replace(path)
	}
	o := apiOperation{template: path, Write: method == "POST", Tool: connector + "." + snake(id), Func: camel(id, false),
		Title: oneLine(str(op["summary"]), chosen), Doc: oneLine(str(op["description"]), oneLine(str(op["summary"]), chosen))}
	if o.Func == "" || r.names[o.Func] || goReserved(o.Func) {
		return fmt.Errorf("its operationId %q makes no new name in Go", id)
	}
	r.names[o.Func] = true
	if o.Scopes, err = r.scopes(op, connector, o.Write); err != nil {
		return err
	}
	if err := r.input(&o, path, op); err != nil {
		return err
	}
	if err := r.output(&o, op); err != nil {
		return err
	}
	r.out.Scopes = append(r.out.Scopes, o.Scopes...)
	r.out.Operations = append(r.out.Operations, o)
	return nil
}

// scopes are those of the first way of signing in that the operation accepts.
func (r *apiReader) scopes(op map[string]any, connector string, write bool) (scopes []string, err error) {
	if !r.scoped {
		return []string{connector + map[bool]string{true: ":write", false: ":read"}[write]}, nil
	}
	security, ok := op["security"].([]any)
	if !ok {
		security, _ = r.doc["security"].([]any)
	}
	for _, way := range security {
		for _, list := range r.object(way) {
			names, _ := list.([]any)
			for _, n := range names {
				scopes = append(scopes, str(n))
			}
		}
		if len(scopes) > 0 {
			slices.Sort(scopes)
			return slices.Compact(scopes), nil
		}
	}
	return nil, fmt.Errorf("it names no OAuth scope; add security to the description, or use --auth key")
}

// account reads where the connector learns whose credential it has.
func (r *apiReader) account(chosen string) error {
	if chosen == "" {
		return fmt.Errorf("say which read tells whose credential it is, such as --account \"GET /me\"")
	}
	method, path, op, err := r.find(chosen)
	if err != nil {
		return err
	}
	schema, err := r.answer(op)
	if err != nil {
		return err
	}
	first := func(names ...string) string {
		for _, n := range names {
			p, err := r.resolve(r.object(schema["properties"])[n])
			if err == nil && str(p["type"]) == "string" {
				return n
			}
		}
		return ""
	}
	r.out.Account = apiAccount{path, first("sub", "id", "uuid"), first("login", "username", "email", "name")}
	if method != "GET" || strings.Contains(path, "{") || r.out.Account.Subject == "" {
		return fmt.Errorf("it must be a GET without parameters whose answer has sub, id or uuid as a string")
	}
	return nil
}

// resolve follows references inside the description.
func (r *apiReader) resolve(node any) (map[string]any, error) {
	for range 16 {
		n := r.object(node)
		ref, ok := n["$ref"].(string)
		if !ok {
			if n == nil {
				return nil, fmt.Errorf("something that should be an object is none")
			}
			return n, nil
		}
		rest, local := strings.CutPrefix(ref, "#/")
		if !local {
			return nil, fmt.Errorf("it points out of the description (%s)", ref)
		}
		node = r.doc
		for _, token := range strings.Split(rest, "/") {
			node = r.object(node)[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
		}
	}
	return nil, fmt.Errorf("its references go in a circle")
}

func (r *apiReader) object(node any) map[string]any {
	n, _ := node.(map[string]any)
	return n
}

func str(v any) string {
	s, _ := v.(string)
	return s
}
