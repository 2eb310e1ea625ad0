package senders

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/webhooks/signature"
)

// order is one delivery that the libraries are to sign and post.
type order struct {
	Scheme  string   `json:"scheme"`
	Secrets []string `json:"secrets"`
	ID      string   `json:"id"`
	Type    string   `json:"type"`
	Body    string   `json:"body"`
}

// libraries installs what package-lock.json pins, with the digests that stand
// there, in a folder of the test.
func libraries(t *testing.T) string {
	t.Helper()
	if os.Getenv("CI_REQUIRE_NODE") != "1" {
		t.Skip("installs npm packages; run it by .ci/node with CI_REQUIRE_NODE=1")
	}
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "send.mjs"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return dir
}

// send has orders signed and posted, and returns what arrived in their order.
func send(t *testing.T, dir string, orders []order) []delivery {
	t.Helper()
	r := listen(t)
	input, err := json.Marshal(map[string]any{"url": r.URL, "orders": orders})
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "node", "send.mjs")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, errors.String())
	}
	var statuses []int
	must(t, json.Unmarshal(out, &statuses))
	var all []delivery
	for i := range orders {
		if i >= len(statuses) || statuses[i] != http.StatusAccepted {
			t.Fatalf("answers %v to %d deliveries", statuses, len(orders))
		}
		all = append(all, <-r.arrived)
	}
	return all
}

func whsec(text string) string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(text)) }

// bodies are what a parser and a serialiser would not give back as they were.
var bodies = []string{
	`{"id":1}`,
	`{"a":"\u001B","A":1.0,  "b":[1e2,"\/"]}`,
	`{"t":"🎉 ünï \u00e9","nul":"\u0000"}`,
	"{\r\n\t\"x\": null }\n",
	`{"large":"` + strings.Repeat("webhook ", 40_000) + `"}`,
}

// Deliveries that the libraries signed are accepted, and refused with another
// body, id, time, key or signature.
//
// Guarantee: HOO1
// Cases: W01, W02, W04, W10, W13, W29
func TestLibraries(t *testing.T) {
	dir := libraries(t)
	key, old, strange := whsec("twenty-four bytes of key"), whsec("the key before this one."), whsec("somebody else's own key.")
	const secret, strangeText = "It's a Secret to Everybody", "a secret that nobody uses"
	var orders []order
	for _, body := range bodies {
		orders = append(orders,
			order{"standard", []string{key}, "msg_" + strconv.Itoa(len(orders)), "application/json", body},
			order{"github", []string{secret}, "72d3162e-cc78-11e3-81ab-4c9367dc0958", "application/json", body})
	}
	orders = append(orders,
		order{"standard", []string{old, key}, "msg_rotating", "application/json", bodies[0]},
		order{"github", []string{secret}, "form", "application/x-www-form-urlencoded", "payload=%7B%22id%22%3A1%2C%22t%22%3A%22a+b%22%7D"})

	for i, d := range send(t, dir, orders) {
		o := orders[i]
		other := strange
		if o.Scheme == "github" {
			other = strangeText
		}
		right := o.Secrets[len(o.Secrets)-1]
		v, err := d.verify(t, o.Scheme, right)
		switch {
		case err != nil:
			t.Errorf("%s %.40q: %v", o.Scheme, o.Body, err)
			continue
		case v.DeliveryID != o.ID || v.IDSigned != (o.Scheme == "standard"):
			t.Errorf("%s: id %q, signed %t", o.Scheme, v.DeliveryID, v.IDSigned)
		case o.Type == "application/json" && string(v.Payload) != o.Body:
			t.Errorf("%s: another document arrived", o.Scheme)
		case o.Type != "application/json" && string(v.Payload) != `{"id":1,"t":"a b"}`:
			t.Errorf("%s: the form gave %s", o.Scheme, v.Payload)
		}
		d.refusesAltered(t, o.Scheme, right)
		if _, err := d.verify(t, o.Scheme, other); err != signature.WrongSignature {
			t.Errorf("%s with another key: %v", o.Scheme, err)
		}
		// The receiver's side of a rotation.
		if v, err := d.verify(t, o.Scheme, other, right); err != nil || v.SecretIndex != 1 {
			t.Errorf("%s with two keys: index %d, %v", o.Scheme, v.SecretIndex, err)
		}
		switch o.Scheme {
		case "standard":
			at, err := strconv.ParseInt(d.header.Get("Webhook-Timestamp"), 10, 64)
			must(t, err)
			for what, c := range map[string]struct {
				d    delivery
				at   time.Time
				want signature.Reason
			}{
				"another id":      {d.with("Webhook-Id", "msg_other"), time.Now(), signature.WrongSignature},
				"another time":    {d.with("Webhook-Timestamp", strconv.FormatInt(at-1, 10)), time.Now(), signature.WrongSignature},
				"received late":   {d, time.Unix(at+301, 0), signature.TooOld},
				"received early":  {d, time.Unix(at-61, 0), signature.TooNew},
				"a cut signature": {d.with("Webhook-Signature", d.header.Get("Webhook-Signature")[:20]), time.Now(), signature.MalformedSig},
			} {
				if _, err := c.d.verifyAt(t, "standard", c.at, right); err != c.want {
					t.Errorf("%s: %v, want %s", what, err, c.want)
				}
			}
		case "github":
			// GitHub signs no id and no time: another id passes, and says that it is
			// unsigned.
			v, err := d.with("X-Github-Delivery", "another").verify(t, "github", right)
			if err != nil || v.DeliveryID != "another" || v.IDSigned {
				t.Errorf("another id: %+v, %v", v, err)
			}
			sha1 := d.with("X-Hub-Signature", "sha1=da39a3ee5e6b4b0d3255bfef95601890afd80709")
			sha1.header.Del("X-Hub-Signature-256")
			if _, err := sha1.verify(t, "github", right); err != signature.MissingHeader {
				t.Errorf("the older signature alone: %v", err)
			}
		}
		if o.ID == "msg_rotating" { // the sender's side: either key is enough
			if _, err := d.verify(t, "standard", old); err != nil {
				t.Errorf("by the sender's older key: %v", err)
			}
		}
	}
}
