package credentials

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// jwtClaims verifies a JWT as a server would, with nothing of the code under
// test: RFC 7515 appendix A.2 and A.3.
func jwtClaims(text string, public crypto.PublicKey) (header map[string]string, claims map[string]any, err error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, nil, errors.New("not three parts")
	}
	var raw [3][]byte
	for i := range parts {
		if raw[i], err = base64.RawURLEncoding.DecodeString(parts[i]); err != nil {
			return nil, nil, err
		}
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := json.Unmarshal(raw[0], &header); err != nil {
		return nil, nil, err
	}
	switch public := public.(type) {
	case *rsa.PublicKey:
		if header["alg"] != "RS256" {
			return nil, nil, fmt.Errorf("alg %q", header["alg"])
		}
		err = rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], raw[2])
	case *ecdsa.PublicKey:
		if header["alg"] != "ES256" || len(raw[2]) != 64 {
			return nil, nil, fmt.Errorf("alg %q, %d bytes of signature", header["alg"], len(raw[2]))
		}
		if !ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(raw[2][:32]), new(big.Int).SetBytes(raw[2][32:])) {
			err = errors.New("signature does not fit")
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return header, claims, json.Unmarshal(raw[1], &claims)
}

// Guarantee: CRE11: private_key_jwt (RFC 7523) at every endpoint, each time with
// an assertion of its own. The sandbox knows no such clients, so a verifier
// stands before it and passes on what it has checked.
func TestPrivateKeyJWT(t *testing.T) {
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(b *bench) {
		t := b.t
		for name, signer := range map[string]crypto.Signer{"rsa": rsaKey(), "ecdsa": curve} {
			key, err := NewClientKey(signer, "kid-1")
			if err != nil {
				t.Fatal(err)
			}
			seen := make(map[string]int) // jti
			r := b.replica(func(c *Config) {
				c.Providers[0].Method, c.Providers[0].ClientKey = AuthPrivateKeyJWT, key
			}, around(func(_ context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
				if x.Form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || x.Form.Has("client_secret") || x.Header.Get("Authorization") != "" {
					t.Errorf("%s: %s without a proper assertion", name, x.URL)
				}
				header, claims, err := jwtClaims(x.Form.Get("client_assertion"), signer.Public())
				if err != nil {
					t.Errorf("%s: assertion: %v", name, err)
					return send()
				}
				now := float64(time.Now().Unix())
				exp, _ := claims["exp"].(float64)
				if header["kid"] != "kid-1" || claims["iss"] != "drawbridge-cli" || claims["sub"] != "drawbridge-cli" || claims["aud"] != b.org.Issuer() || exp < now || exp > now+120 {
					t.Errorf("%s: header %v, claims %v", name, header, claims)
				}
				jti, _ := claims["jti"].(string)
				seen[jti]++
				x.Form.Del("client_assertion")
				x.Form.Del("client_assertion_type")
				return send()
			}))
			caller := connector.Caller{Tenant: "acme", Principal: connector.PrincipalID(name)}
			c := r.connect(caller, "alice")
			b.expire(c)
			if status, err := r.get(c); status != http.StatusOK {
				t.Errorf("%s: read = %d, %v", name, status, err)
			}
			if _, err := r.Disconnect(t.Context(), caller, c.ID, ""); err != nil {
				t.Error(err)
			}
			if len(seen) != 4 || seen[""] > 0 { // code, refresh, two revocations
				t.Errorf("%s: %d different assertions, want 4", name, len(seen))
			}
		}
	})
}

func TestClientKeys(t *testing.T) {
	t.Parallel()
	curve, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewClientKey(curve, ""); err == nil {
		t.Error("a key on P-384 was accepted")
	}
	if _, err := NewClientKey(nil, ""); err == nil {
		t.Error("no key was accepted")
	}
	blocks := map[string][]byte{"RSA PRIVATE KEY": x509.MarshalPKCS1PrivateKey(rsaKey())}
	if blocks["PRIVATE KEY"], err = x509.MarshalPKCS8PrivateKey(rsaKey()); err != nil {
		t.Fatal(err)
	}
	if blocks["EC PRIVATE KEY"], err = x509.MarshalECPrivateKey(p256); err != nil {
		t.Fatal(err)
	}
	for kind, der := range blocks {
		text := string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
		k, err := ParseClientKey(NewSecret(text), "")
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		p := Provider{ID: "p", ClientKey: k}
		if out := fmt.Sprintf("%v %+v %#v %s %v", k, p, p, &k, &p); !strings.Contains(out, "redacted") || strings.Contains(out, fmt.Sprint(rsaKey().D)) || strings.Contains(out, "PublicKey") {
			t.Errorf("%s: printed as %.200s", kind, out)
		}
		if _, err := ParseClientKey(NewSecret(text+text), ""); err == nil {
			t.Errorf("%s twice was accepted", kind)
		}
		if _, err := ParseClientKey(NewSecret(strings.Replace(text, "A", "!", 1)), ""); err == nil {
			t.Errorf("%s damaged was accepted", kind)
		}
	}
	public, err := x509.MarshalPKIXPublicKey(p256.Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "hello", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))} {
		if _, err := ParseClientKey(NewSecret(text), ""); err == nil {
			t.Errorf("%.30q was accepted", text)
		}
	}
}
