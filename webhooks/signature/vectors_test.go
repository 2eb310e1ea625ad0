package signature

import (
	"encoding/base64"
	"encoding/hex"
	"testing"
)

// TestPublishedVectors compares the signed content and the key of each scheme
// with values that others have published, or computed with the senders' own
// libraries. Keys may be shorter here than a receiver accepts.
//
// Guarantee: HOO1
func TestPublishedVectors(t *testing.T) {
	const test = `{"test": 2432232314}`
	whsec := func(text string) []byte {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for _, c := range []struct {
		name, scheme string
		key          []byte
		id, at, body string
		want         string // as the header has it, without prefix
	}{
		{"Standard Webhooks", "standard", whsec("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", test, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		{"Svix", "standard", whsec("plJ3nmyCDGBKInavdOK15jsl"), "msg_loFOjxBNrRLzqYUf", "1731705121", `{"event_type":"ping","data":{"success":true}}`, "rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="},
		{"GitHub", "github", []byte("It's a Secret to Everybody"), "", "", "Hello, World!", "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
		{"GitHub form", "github", []byte("test-secret"), "", "", "payload=%7B%22id%22%3A1%7D", "28ab14167a17428add42dc9bf9cb0376e883fcce552069735dbb568bb03d245d"},
		{"octokit", "github", []byte("mysecret"), "", "", `{"foo":"bar"}`, "4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3"},
		{"Jira", "jira", []byte("It's a Secret to Everybody"), "", "", "Hello World!", "a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"},
		{"Slack", "slack", []byte("8f742231b10e8888abcd99yyyzzz85a5"), "", "1531420618",
			"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
			"a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"},
		{"Zendesk", "zendesk", []byte("dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ=="), "", "2021-03-25T05:09:27Z", `{"event":"ticket.updated","id":123}`, "S/RDdU2ERmj7LHDDoWJ2onPYH+t7/f2+LTM4dL7UiLM="},
		{"Stripe", "stripe", []byte("whsec_test_secret"), "", "1700000000", `{"id":1}`, "c8810ddf0d0867928eb98da07f9baa91f6a359ac782696745bbce454bfb45e6f"},
		{"Linear", "linear", []byte("test-secret"), "", "", `{"id":1}`, "1f5f637644edd1b7551c96e61fcee6b5f49aeee77e99eacc1005acbdb6d11a46"},
		{"Gitea", "gitea", []byte("test-secret"), "", "", `{"id":1}`, "1f5f637644edd1b7551c96e61fcee6b5f49aeee77e99eacc1005acbdb6d11a46"},
		{"Shopify", "shopify", []byte("test-secret"), "", "", `{"id":1}`, "H19jdkTt0bdVHJbmH87mtfSa7ud+merMEAWsvbbRGkY="},
		{"GitLab", "gitlab", whsec("dGVzdC1zZWNyZXQ="), "e1", "1700000000", `{"id":1}`, "8HyDQhsnurbs8NYWsL5UN52mQGaM7yoUqYF6sKcqmOc="},
		{"empty body", "github", []byte("s"), "", "", "", "64eca07cce67929c357d63d0a4aec207e774800403298914fc04e88ce02ac49f"},
	} {
		s, ok := Lookup(c.scheme)
		if !ok {
			t.Fatalf("no scheme %s", c.scheme)
		}
		sum := mac(c.key, s.content(c.id, c.at, []byte(c.body)))
		if got, again := hex.EncodeToString(sum), base64.StdEncoding.EncodeToString(sum); c.want != got && c.want != again {
			t.Errorf("%s: %s or %s, want %s", c.name, got, again, c.want)
		}
	}
}

// The asymmetric vector goes the whole way, as its key is long enough.
//
// Guarantee: HOO1
func TestPublishedVectorsVerify(t *testing.T) {
	const body = `{"test": 2432232314}`
	for _, c := range []struct{ secret, signature string }{
		{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		{"whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=", "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="},
	} {
		d := delivery{scheme: "standard", header: map[string]string{"Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
			"Webhook-Timestamp": "1614265330", "Webhook-Signature": c.signature}, body: body, secrets: []Secret{{Text: c.secret}}}
		v, err := d.verify(t, 1614265330)
		if err != nil || v.DeliveryID != "msg_p5jXN8AQM9LWM0D4loKWxJek" || !v.IDSigned || v.SignedAt.Unix() != 1614265330 {
			t.Errorf("%s: %+v, %v", c.secret[:5], v, err)
		}
		d.body += " "
		if _, err := d.verify(t, 1614265330); err != WrongSignature {
			t.Errorf("%s over another body: %v", c.secret[:5], err)
		}
	}
}
