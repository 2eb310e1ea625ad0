package dev

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/connector"
)

const schemaOfAll = `{"type":"object","additionalProperties":false,"required":["name","n","empty"],"properties":{
	"name":{"type":"string","maxLength":80,"description":"What it is called"},
	"empty":{"type":"string"},
	"text":{"type":["null","string"],"maxLength":5000,"pattern":"^[^\u0000]*$"},
	"when":{"type":"string","format":"date-time"},
	"n":{"type":"integer","minimum":1,"maximum":9},
	"ratio":{"type":"number"},
	"yes":{"type":"boolean"},
	"level":{"enum":["low",2,null]},
	"labels":{"type":"array","items":{"type":"string"},"maxItems":3},
	"sizes":{"type":"array","items":{"type":"integer"}},
	"a/b~c":{"type":"object","additionalProperties":false,"required":["inner"],"properties":{"inner":{"type":"string"},"deep":{"type":"boolean"}}},
	"pairs":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{"k":{"type":"string"}}}},
	"either":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`

func TestKindsOfFields(t *testing.T) {
	t.Parallel()
	fields, rest := form(json.RawMessage(schemaOfAll), nil, nil)
	got := map[string]kind{}
	for _, f := range fields {
		got[f.Pointer] = f.Kind
	}
	want := map[string]kind{"/name": kindLine, "/empty": kindText, "/text": kindText, "/when": kindLine, "/n": kindNumber, "/ratio": kindNumber, "/yes": kindChoice,
		"/level": kindChoice, "/labels": kindLines, "/sizes": kindLines, "/a~1b~0c": kindGroup, "/pairs": kindJSON, "/either": kindJSON}
	if diff := cmp.Diff(want, got); diff != "" || rest != nil {
		t.Errorf("rest %v, fields (-want +got):\n%s", rest, diff)
	}
	if fields[0].Name != "empty" || fields[2].Name != "name" || fields[2].Hint != "at most 80 characters" {
		t.Errorf("what is required does not come first: %+v", fields[0])
	}
}

// typed is what a browser sends of a form that somebody filled in.
func typed(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

func TestWhatAFormSays(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		form url.Values
		want string
	}{
		"nothing":             {typed(), `{"empty":"","name":""}`},
		"empty inputs":        {typed("/name", "", "/text", "", "/n", "", "/yes", "", "/labels", "\r\n", "/a~1b~0c/inner", ""), `{"a/b~c":{"inner":""},"empty":"","name":""}`},
		"everything":          {typed("/name", "x", "/n", "3", "/ratio", "1.50", "/yes", "true", "/level", `"low"`, "/text", "a\r\nb"), `{"empty":"","level":"low","n":3,"name":"x","ratio":1.50,"text":"a\nb","yes":true}`},
		"lists":               {typed("/labels", " a \r\n\r\n1\r\n", "/sizes", "1\n2"), `{"empty":"","labels":["a","1"],"name":"","sizes":[1,2]}`},
		"no number":           {typed("/n", "three", "/ratio", "1,5", "/sizes", "x"), `{"empty":"","n":"three","name":"","ratio":"1,5","sizes":["x"]}`},
		"big number":          {typed("/n", "90071992547409931"), `{"empty":"","n":90071992547409931,"name":""}`},
		"JSON":                {typed("/pairs", `[{"k":"v"}]`, "/either", `"1"`), `{"either":"1","empty":"","name":"","pairs":[{"k":"v"}]}`},
		"no JSON":             {typed("/pairs", `[{`), `{"empty":"","name":"","pairs":"[{"}`},
		"text like JSON":      {typed("/name", `{"a":1}`, "/labels", "true"), `{"empty":"","labels":["true"],"name":"{\"a\":1}"}`},
		"text like a tag":     {typed("/name", `<b>&`), `{"empty":"","name":"<b>&"}`},
		"an unknown choice":   {typed("/level", `high`), `{"empty":"","level":"high","name":""}`},
		"names of no field":   {typed("/tenant", "other", "csrf", "x"), `{"empty":"","name":""}`},
		"the null of an enum": {typed("/level", `null`), `{"empty":"","level":null,"name":""}`},
	} {
		fields, _ := form(json.RawMessage(schemaOfAll), nil, nil)
		got := string(arguments(fields, tc.form))
		// A group with a required text is there as soon as the form has it.
		want := tc.want
		if !strings.Contains(want, "a/b~c") {
			want = `{"a/b~c":{"inner":""},` + strings.TrimPrefix(want, "{")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestFaultsOfNoField(t *testing.T) {
	t.Parallel()
	fields, rest := form(json.RawMessage(schemaOfAll), json.RawMessage(`{"labels":["a",7],"n":"x"}`), []connector.Fault{
		{Pointer: "/n", Keyword: "type"}, {Pointer: "/labels/1", Keyword: "type"}, {Pointer: "/a~1b~0c/inner", Keyword: "required"},
		{Pointer: "/tenant", Keyword: "additionalProperties"}, {Pointer: "", Keyword: "dependentRequired"}, {Pointer: "/pairs/0/k", Keyword: "type"}})
	got := map[string][]string{}
	for _, f := range wrong(fields) {
		got[f.Pointer] = f.Faults
	}
	want := map[string][]string{"/n": {"has another type (type)"}, "/labels": {"line 2 has another type (type)"}, "/a~1b~0c/inner": {"is missing (required)"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("at fields (-want +got):\n%s", diff)
	}
	wantRest := []string{"/tenant: is not taken here (additionalProperties)", "the whole input: breaks dependentRequired", "/pairs/0/k: has another type (type)"}
	if diff := cmp.Diff(wantRest, rest); diff != "" {
		t.Errorf("elsewhere (-want +got):\n%s", diff)
	}
}

// A form that is filled with arguments and sent as it stands says the same
// arguments.
func TestFilledFormSaysTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z<&"{}\[\]0-9é⟨][a-z <&"\n0-9]{0,8}[a-z0-9]`)
		line := rapid.StringMatching(`[a-z<&"0-9é][a-z <&"0-9]{0,8}[a-z0-9]`)
		given := map[string]any{"name": line.Draw(t, "name"), "empty": rapid.OneOf(rapid.Just(""), word).Draw(t, "empty"), "n": json.Number(fmt.Sprint(rapid.Int64().Draw(t, "n")))}
		maybe := func(name string, v any) {
			if rapid.Bool().Draw(t, "has "+name) {
				given[name] = v
			}
		}
		maybe("text", word.Draw(t, "text"))
		maybe("ratio", json.Number("2.50"))
		maybe("yes", rapid.Bool().Draw(t, "yes"))
		maybe("level", rapid.SampledFrom([]any{"low", json.Number("2"), nil}).Draw(t, "level"))
		maybe("labels", anys(rapid.SliceOfN(line, 1, 3).Draw(t, "labels")))
		maybe("sizes", []any{json.Number("1"), json.Number("20")})
		maybe("pairs", []any{map[string]any{"k": word.Draw(t, "k")}})
		maybe("either", rapid.SampledFrom([]any{"x", json.Number("1")}).Draw(t, "either"))
		given["a/b~c"] = map[string]any{"inner": word.Draw(t, "inner")}

		fields, _ := form(json.RawMessage(schemaOfAll), json.RawMessage(compact(given)), nil)
		sent := url.Values{}
		var fill func([]*field)
		fill = func(all []*field) {
			for _, f := range all {
				value := f.Value
				for _, o := range f.Options {
					if o.Selected {
						value = o.Value
					}
				}
				sent.Set(f.Pointer, strings.ReplaceAll(value, "\n", "\r\n"))
				fill(f.Fields)
			}
		}
		fill(fields)
		if got := string(arguments(fields, sent)); got != compact(given) {
			t.Fatalf("filled with %s, says %s", compact(given), got)
		}
	})
}

func anys(texts []string) (out []any) {
	for _, s := range texts {
		out = append(out, s)
	}
	return out
}
