package kit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
)

// accessChecks: whose data, with which rights, and what must never be said.
var accessChecks = []check{
	{"B1", "CON1", "The scopes that an operation declares are enough to run it.", "", []string{"A1"}, scopesSuffice},
	{"B2", "CRE7", "Without a declared scope the call is refused with exactly what is missing, and the provider hears nothing.", "", []string{"A1"}, scopeMissing},
	{"B5", "CRE8", "A credential that the provider refuses asks for a new connection, not for another try.", "", []string{"R0"}, refusedCredential},
	{"B7", "TIX8", "Another tenant gets nothing of this one's: no object, no list, no cursor.", "", []string{"R0"}, strangerSeesNothing},
	{"B8", "TIX2", "A connection that is limited to one container serves nothing of another one.", "", []string{"R0"}, grantHolds},
	{"D7", "TIX3", "What a caller may not see answers as if it did not exist.", "", []string{"R0"}, hiddenIsAbsent},
}

// needed are the scopes of one operation with those that no operation names,
// which connecting itself needs.
func (t *trial) needed(tool string) (own, wish []string) {
	named := []string{}
	for _, d := range t.subject.Connector.Definitions() {
		named = append(named, d.Scopes...)
		if d.Name == tool {
			own = d.Scopes
		}
	}
	for _, s := range t.subject.Connector.Auth.Scopes {
		if slices.Contains(own, s) || !slices.Contains(named, s) {
			wish = append(wish, s)
		}
	}
	return own, wish
}

func scopesSuffice(t *trial) {
	refused := func(tool string, r connector.Result) {
		if c := code(r); c == connector.CodeScopeRequired || c == connector.CodePermissionDenied {
			t.errorf("%s with the scopes that it declares answered %s", tool, says(r))
		}
	}
	id := t.seed(0, t.marker, "there")
	for i, u := range []Use{t.subject.List, t.subject.Read, t.subject.Write} {
		if u.Tool == "" {
			continue
		}
		_, wish := t.needed(u.Tool)
		a := t.connect(fmt.Sprintf("scoped-%d", i), Owner, Wish{Scopes: wish})
		switch i {
		case 0:
			refused(u.Tool, a.list(t.marker, 2, nil))
		case 1:
			refused(u.Tool, a.read(id))
		default:
			proposed := a.write(t.marker + " scoped")
			refused(u.Tool, proposed)
			if proposed.Pending == nil {
				continue // E1 says why
			}
			_, err := t.house.ledger.Approve(t.ctx, a.caller.Tenant, string(proposed.Pending.Approval), "maria")
			t.must(err)
			refused(u.Tool, a.write(t.marker+" scoped"))
		}
	}
}

func scopeMissing(t *trial) {
	tried := false
	for i, u := range []Use{t.subject.List, t.subject.Read, t.subject.Write} {
		if u.Tool == "" {
			continue
		}
		own, wish := t.needed(u.Tool)
		for _, s := range own {
			less := slices.DeleteFunc(slices.Clone(wish), func(w string) bool { return w == s })
			if len(less) == 0 {
				continue // a connection of no scope can't be asked for
			}
			a, err := t.tryConnect(fmt.Sprintf("without-%d-%s", i, s), Owner, Wish{Scopes: less})
			if connector.CodeOf(err) == connector.CodeScopeRequired {
				tried = true // connecting needs it as well, and nothing is connected
				continue
			}
			t.must(err)
			if slices.Contains(a.connection.Scopes, s) {
				continue // the provider grants what it likes
			}
			tried = true
			before := t.asked()
			var r connector.Result
			switch i {
			case 0:
				r = a.list(t.marker, 2, nil)
			case 1:
				r = a.read(t.marker)
			default:
				r = a.write(t.marker)
			}
			if code(r) != connector.CodeScopeRequired || !slices.Equal(r.Error.Scopes, []string{s}) {
				t.errorf("%s without %s answered %s", u.Tool, s, says(r))
			}
			if n := t.asked() - before; n != 0 {
				t.errorf("%s without %s asked the provider %d times", u.Tool, s, n)
			}
		}
	}
	if !tried {
		t.notClaimed("the provider grants no fewer scopes when fewer are asked for")
	}
}

func refusedCredential(t *trial) {
	id := t.seed(0, t.marker, "there")
	a := t.owner()
	t.on(fault.Rule{Action: fault.Answer, Status: http.StatusUnauthorized, Times: fault.Forever,
		Header: http.Header{"Www-Authenticate": {`Bearer error="invalid_token"`}}, Body: []byte(`{"error":"invalid_token"}`)})
	r := a.read(id)
	if code(r) != connector.CodeConnectionRequired || r.Error.Next != connector.NextReconnect {
		t.errorf("answered %s", says(r))
	}
}

func strangerSeesNothing(t *trial) {
	id := t.seed(0, t.marker+" of the owner", "for the owner only")
	t.seed(0, t.marker+" of the owner too", "for the owner only")
	owner, stranger := t.owner(), t.connect("stranger", Stranger, Wish{})
	if r := owner.read(id); !looked(r) {
		t.fatalf("the owner's own read answered %s", says(r))
	}
	served := func(what string, r connector.Result) {
		raw, err := json.Marshal(r)
		t.must(err)
		// What the caller wrote comes back in the call alone.
		if len(r.Data) > 0 && strings.Contains(string(raw), t.marker) {
			t.errorf("%s: was served the owner's data", what)
		}
	}
	served("the stranger's read", stranger.read(id))
	if t.subject.List.Tool == "" {
		return
	}
	page := owner.list(t.marker, 1, nil)
	served("the stranger's list", stranger.list(t.marker, 5, nil))
	if page.NextCursor != nil {
		served("the stranger's list by the owner's cursor", stranger.list(t.marker, 1, page.NextCursor))
	}
}

// limited is the owner within the first container, and an object in the other.
func (t *trial) limited() (a *account, outside string) {
	if t.container(1) == "" {
		t.notClaimed("the provider has no containers that a grant could name")
	}
	outside = t.seed(1, t.marker+" outside", "in the other container")
	return t.connect("limited", Owner, Wish{Resources: []string{t.container(0)}}), outside
}

func grantHolds(t *trial) {
	a, outside := t.limited()
	if r := a.read(outside); len(r.Data) > 0 {
		t.errorf("a read outside the grant answered %s, with data", says(r))
	}
	if t.subject.List.Tool != "" {
		if r := a.call(t.subject.List.Tool, paged(t.subject.List.Arguments(t.marker, t.container(1))), ""); len(items(r)) > 0 {
			t.errorf("a list outside the grant answered %s, with items", says(r))
		}
	}
	if t.subject.Write.Tool != "" {
		if r := a.call(t.subject.Write.Tool, t.subject.Write.Arguments(t.marker, t.container(1)), ""); r.Pending != nil {
			t.errorf("a write outside the grant was planned")
		}
	}
}

// paged adds the first page to arguments of a list.
func paged(arguments any) map[string]any {
	var m map[string]any
	if json.Unmarshal(jsonOf(arguments), &m) != nil {
		return nil
	}
	m["page_size"], m["cursor"] = 10, nil
	return m
}

func hiddenIsAbsent(t *trial) {
	a, outside := t.limited()
	hidden, absent := a.read(outside), a.read("absent"+t.marker)
	if len(hidden.Data) > 0 {
		panic(stop{Blocked, "B8 failed: it is served"})
	}
	if absent.Error == nil || code(absent) != connector.CodeNotFound {
		t.errorf("an absent object answered %s", says(absent))
	}
	if code(hidden) != code(absent) || hidden.Error != nil && absent.Error != nil && hidden.Error.Message != absent.Error.Message {
		t.errorf("a hidden object answered %s, an absent one %s", says(hidden), says(absent))
	}
}

func privateStays(t *trial) {
	p, ok := t.house.provider.(Secretive)
	if !ok {
		t.notClaimed("the harness knows no private texts")
	}
	id := t.seed(0, t.marker, "there")
	a := t.owner()
	a.read(id)
	if t.subject.List.Tool != "" {
		a.walk(t.marker, 10)
	}
	secrets, err := p.Private(t.ctx)
	t.must(err)
	if n := leaks(strings.Join(t.results, "\n"), secrets); n > 0 {
		t.errorf("%d private texts left in results", n)
	}
	if n := leaks(t.house.logs.String(), secrets); n > 0 {
		t.errorf("%d private texts are in the log", n)
	}
}
