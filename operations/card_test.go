package operations

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/google/go-cmp/cmp"
)

func TestVisibleMarksWhatAScreenHides(t *testing.T) {
	for name, test := range map[string]struct{ in, shown, escaped string }{
		"plain":              {"printer on fire", "printer on fire", ""},
		"other scripts":      {"打印机着火 – Ünïcode é🔥", "打印机着火 – Ünïcode é🔥", ""},
		"lines and tabs":     {"a\n\tb", "a\n\tb", ""},
		"backslash":          {`C:\n`, `C:\n`, ""},
		"tag characters":     {"hi\U000E0041\U000E0042", "hi⟨U+E0041⟩⟨U+E0042⟩", `hi\u{E0041}\u{E0042}`},
		"right to left":      {"a\u202Egpj.exe", "a⟨U+202E⟩gpj.exe", `a\u{202E}gpj.exe`},
		"isolates":           {"\u2066x\u2069", "⟨U+2066⟩x⟨U+2069⟩", `\u{2066}x\u{2069}`},
		"zero width":         {"pa\u200Byp\u200Dal\uFEFF", "pa⟨U+200B⟩yp⟨U+200D⟩al⟨U+FEFF⟩", `pa\u{200B}yp\u{200D}al\u{FEFF}`},
		"ANSI escapes":       {"\x1b[2J\x1b]8;;http://x\x07ok", "⟨U+001B⟩[2J⟨U+001B⟩]8;;http://x⟨U+0007⟩ok", `\u{001B}[2J\u{001B}]8;;http://x\u{0007}ok`},
		"C1 controls":        {"\u009b31m", "⟨U+009B⟩31m", `\u{009B}31m`},
		"carriage return":    {"low\rhigh", "low⟨U+000D⟩high", `low\u{000D}high`},
		"line separator":     {"a\u2028b", "a⟨U+2028⟩b", `a\u{2028}b`},
		"no-break space":     {"a\u00A0b", "a⟨U+00A0⟩b", `a\u{00A0}b`},
		"soft hyphen":        {"a\u00ADb", "a⟨U+00AD⟩b", `a\u{00AD}b`},
		"hangul filler":      {"a\u3164b", "a⟨U+3164⟩b", `a\u{3164}b`},
		"braille blank":      {"a\u2800b", "a⟨U+2800⟩b", `a\u{2800}b`},
		"grapheme joiner":    {"a\u034Fb", "a⟨U+034F⟩b", `a\u{034F}b`},
		"variation selector": {"a\U000E0100\uFE0F", "a⟨U+E0100⟩⟨U+FE0F⟩", `a\u{E0100}\u{FE0F}`},
		"private use":        {"\uE000", "⟨U+E000⟩", `\u{E000}`},
		"not UTF-8":          {"a\xff\xc3", "a⟨0xFF⟩⟨0xC3⟩", `a\x{FF}\x{C3}`},
		"NUL":                {"a\x00", "a⟨U+0000⟩", `a\u{0000}`},
		"a mark of its own":  {"⟨U+202E⟩\\\n\u202E", "⟨U+202E⟩\\\n⟨U+202E⟩", `⟨U+202E⟩\\\n\u{202E}`},
	} {
		got := Visible(test.in)
		if got.Shown != test.shown || got.Escaped != test.escaped {
			t.Errorf("%s: shown %q escaped %q, want %q and %q", name, got.Shown, got.Escaped, test.shown, test.escaped)
		}
		if want := utf8.RuneCountInString(test.in); got.Length != want {
			t.Errorf("%s: length %d, want %d", name, got.Length, want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "a\u202Eb", "\xff", `\u{202E}`, "⟨U+202E⟩", "\U000E0041", "a\r\n"} {
		f.Add(s, "a")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		va, vb := Visible(a), Visible(b)
		for _, r := range va.Shown + va.Escaped {
			if r != '\n' && r != '\t' && (!unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r)) {
				t.Errorf("%q shows U+%04X", a, r)
			}
		}
		// Two texts that look the same on a card are the same.
		if a != b && va == vb {
			t.Errorf("%q and %q look alike: %+v", a, b, va)
		}
	})
}

func TestBodyIsTakenApartInOrderAndCompletely(t *testing.T) {
	type pair struct{ Name, Kind, Value string }
	const jsonType = "application/json; charset=utf-8"
	for name, test := range map[string]struct {
		contentType, body string
		want              []pair
	}{
		"nothing": {jsonType, "", nil},
		"order and kinds": {jsonType, `{"z":"1","a":{"n":1.50,"ok":true,"no":null},"l":["x",{"y":2},[]],"e":{}}`, []pair{
			{"/z", "string", "1"}, {"/a/n", "number", "1.50"}, {"/a/ok", "boolean", "true"}, {"/a/no", "null", "null"},
			{"/l/0", "string", "x"}, {"/l/1/y", "number", "2"}, {"/l/2", "array", "[]"}, {"/e", "object", "{}"}}},
		"a name that comes twice": {jsonType, `{"to":"alice","to":"mallory"}`, []pair{{"/to", "string", "alice"}, {"/to", "string", "mallory"}}},
		"pointer escapes":         {jsonType, `{"a/b~":{"":"x"}}`, []pair{{"/a~1b~0/", "string", "x"}}},
		"exact numbers":           {jsonType, `[1e400,-0,12345678901234567890]`, []pair{{"/0", "number", "1e400"}, {"/1", "number", "-0"}, {"/2", "number", "12345678901234567890"}}},
		"strings that look like":  {jsonType, `{"k": "}" , "m" : ":,"}`, []pair{{"/k", "string", "}"}, {"/m", "string", ":,"}}},
		"a bare value":            {jsonType, ` "x" `, []pair{{"", "string", "x"}}},
		"empty object":            {jsonType, `{}`, []pair{{"", "object", "{}"}}},
		"escapes":                 {jsonType, `{"t":"a\u202e\n\ud83d\ude00"}`, []pair{{"/t", "string", "a⟨U+202E⟩\n😀"}}},
		"hostile name":            {jsonType, `{"a\u202e":1}`, []pair{{"/a⟨U+202E⟩", "number", "1"}}},
		"json without its type":   {"", `{"a":1}`, []pair{{"/a", "number", "1"}}},
		"two documents":           {jsonType, `{"a":1} {"b":2}`, []pair{{"", "text", `{"a":1} {"b":2}`}}},
		"cut":                     {jsonType, `{"a":1`, []pair{{"", "text", `{"a":1`}}},
		"not UTF-8":               {jsonType, "{\"a\":\"\xff\"}", []pair{{"", "text", `{"a":"⟨0xFF⟩"}`}}},
		"form":                    {"application/x-www-form-urlencoded", "b=2&a=1+%26&b=%0A", []pair{{"b", "string", "2"}, {"a", "string", "1 &"}, {"b", "string", "\n"}}},
		"broken form":             {"application/x-www-form-urlencoded", "b=%zz", []pair{{"", "text", "b=%zz"}}},
		"plain text":              {"text/plain", "hello", []pair{{"", "text", "hello"}}},
	} {
		var got []pair
		for _, f := range bodyFields(test.contentType, []byte(test.body)) {
			got = append(got, pair{f.Name.Shown, f.Kind, f.Value.Shown})
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The decoder turns both into the same character; the card must not.
func TestLoneSurrogateIsNotAReplacementCharacter(t *testing.T) {
	lone := bodyFields("application/json", []byte(`["\ud800"]`))
	real := bodyFields("application/json", []byte(`["\ufffd"]`))
	if cmp.Equal(lone, real) {
		t.Errorf("both are shown as %+v", lone)
	}
}

func FuzzBodyFields(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":null}]}`, `"x"`, `{"a":1}{}`, `[[],{}]`, "\xff", `{"a":"\ud800"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		fields := bodyFields("application/json", []byte(body))
		if body != "" && len(fields) == 0 {
			t.Errorf("nothing is shown of %q", body)
		}
		var v any
		if !utf8.ValidString(body) || json.Unmarshal([]byte(body), &v) != nil {
			if len(fields) > 0 && fields[0].Kind != "text" {
				t.Errorf("%q is no document but shown as %s", body, fields[0].Kind)
			}
		}
	})
}

// Guarantee: TIX4
func TestCardShowsExactlyWhatWillBeSent(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		p := proposal(acme, "step-1", "x")
		p.Request.Body = []byte(`{"title":"fire\u202e","labels":["p1"],"body":"\u001b[2J"}`)
		p.Arguments = json.RawMessage(`{"title":"another text","evidence":["ev_1","ev\u200b2"]}`)
		p.Account.Organisation = "Acme\u202e"
		p.Request.Notes = []string{"watchers are notified"}
		rec := b.propose(p)
		c, err := b.Approval(t.Context(), acme, string(rec.Approval))
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, f := range c.Fields {
			lines = append(lines, f.Name.Shown+" = "+f.Value.Shown)
		}
		want := []string{"/title = fire⟨U+202E⟩", "/labels/0 = p1", "/body = ⟨U+001B⟩[2J"}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
		if c.Sentence.Shown != p.Request.Summary || c.Provider.Shown != "sandbox" || c.Profile.Shown != "acme-desk" || c.Account.Shown != "alice@acme" ||
			c.Organisation.Shown != "Acme⟨U+202E⟩" || c.Tool != "tickets.create" || c.Version != "1.2.3" || c.Method != "POST" ||
			c.Path.Shown != "/projects/orders/tickets" || c.Digest != p.Digest || c.Proposer != "alice" || c.DedupeHeader != "Idempotency-Key" ||
			len(c.Query) != 1 || len(c.Notes) != 1 || !c.ExpiresAt.Equal(rec.ApprovalExpiresAt) || c.BodyBytes != len(p.Request.Body) ||
			len(c.Evidence) != 2 || c.Evidence[1].Shown != "ev⟨U+200B⟩2" || c.ResourceVersion.Shown != "rev-3" {
			t.Errorf("card = %+v", c)
		}
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(string(raw), "\u202e\u200b\x1b") || strings.Contains(string(raw), "another text") {
			t.Errorf("the card carries hidden characters, or text that isn't sent: %s", raw)
		}
	})
}

func TestUniqueBeginningIsEnough(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		ctx := t.Context()
		p := proposal(acme, "step-1", "x")
		p.ID, p.Request.OperationID = "op_aaaa1111", "op_aaaa1111"
		first := b.propose(p)
		p = proposal(acme, "step-2", "x")
		p.ID, p.Request.OperationID = "op_aaaa2222", "op_aaaa2222"
		b.propose(p)
		for id, want := range map[string]connector.Code{
			"op_aaaa1": 0, "op_aaaa1111": 0, "op_aaaa": connector.CodeInvalidInput, "op_b": connector.CodeNotFound,
			"op": connector.CodeNotFound, "": connector.CodeNotFound, "op%aaaa1": connector.CodeNotFound, "op_aaa_1": connector.CodeNotFound,
			"OP_AAAA1": connector.CodeNotFound, "op_aaaa1\x00": connector.CodeNotFound, "op_aaaa1\xff": connector.CodeNotFound,
		} {
			if _, err := b.Operation(ctx, acme, id); connector.CodeOf(err) != want {
				t.Errorf("%q: %v, want %v", id, err, want)
			}
		}
		c, err := b.Approve(ctx, acme, string(first.Approval[:12]), "bob")
		if err != nil || c.ID != first.Approval || c.State != ApprovalApproved {
			t.Errorf("approved %s as %s (%v)", c.ID, c.State, err)
		}
	})
}

func TestListsAreFilteredAndUpToDate(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		ctx := t.Context()
		b.propose(proposal(acme, "old", "x"))
		b.pass(31 * 60e9)
		b.propose(proposal(acme, "pending", "x"))
		b.approve(b.propose(proposal(acme, "approved", "x")))
		p := proposal(acme, "carol's", "x")
		p.Principal, p.Connection = "carol", "con_2"
		b.propose(p)
		for name, test := range map[string]struct {
			filter Filter
			states []ApprovalState
			want   int
		}{
			"all":       {Filter{}, nil, 4},
			"pending":   {Filter{}, []ApprovalState{ApprovalPending}, 2},
			"open":      {Filter{}, []ApprovalState{ApprovalPending, ApprovalApproved}, 3},
			"carol":     {Filter{Principal: "carol"}, nil, 1},
			"her other": {Filter{Principal: "carol", Connection: "con_1"}, nil, 0},
			"tool":      {Filter{Tool: "tickets.create"}, []ApprovalState{ApprovalExpired}, 1},
			"limit":     {Filter{Limit: 2}, nil, 2},
		} {
			cards, err := b.Approvals(ctx, acme, test.filter, test.states...)
			if err != nil || len(cards) != test.want {
				t.Errorf("%s: %d approvals (%v), want %d", name, len(cards), err, test.want)
			}
		}
		lines, err := b.Operations(ctx, acme, Filter{}, connector.StateNotSent)
		if err != nil || len(lines) != 1 || lines[0].Reason != "approval expired" {
			t.Errorf("lines = %+v (%v)", lines, err)
		}
	})
}

func TestStorableTextKeepsWholeCharacters(t *testing.T) {
	for in, want := range map[string]string{"": "", "abc": "abc", "abcdef": "abcd", "abcé": "abc", "é\x00": "é\uFFFD"[:2], "a\xffb": "a\uFFFD"} {
		if got := storable(in, 4); got != want {
			t.Errorf("storable(%q) = %q, want %q", in, got, want)
		}
	}
	b := newBench(t, storetest.SQLite(t))
	rec := b.propose(proposal(acme, "step-1", "x"))
	c, err := b.Deny(t.Context(), acme, string(rec.Approval), "bob", "\x00"+strings.Repeat("é", 5000))
	if err != nil || !utf8.ValidString(c.Reason.Shown) || c.Reason.Length > maxReason {
		t.Errorf("reason has %d characters (%v)", c.Reason.Length, err)
	}
}
