package credentials

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"time"
)

// A ClientKey signs what proves who this application is, and is printed by
// nobody. The zero value has no key. It is safe for concurrent use if its
// signer is.
type ClientKey struct {
	Secret // for its way of being printed; holds nothing
	alg    string
	id     string
	sign   func(digest []byte) ([]byte, error)
}

// NewClientKey uses an RSA key of at least 2048 bits (RS256) or an ECDSA key on
// P-256 (ES256), which may live in a KMS. The id goes into the header as kid;
// empty: none.
func NewClientKey(signer crypto.Signer, id string) (ClientKey, error) {
	if signer == nil {
		return ClientKey{}, errors.New("credentials: no client key")
	}
	switch public := signer.Public().(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() < 2048 {
			return ClientKey{}, errors.New("credentials: an RSA client key must have at least 2048 bits")
		}
		return ClientKey{alg: "RS256", id: id, sign: func(digest []byte) ([]byte, error) {
			return signer.Sign(rand.Reader, digest, crypto.SHA256)
		}}, nil
	case *ecdsa.PublicKey:
		if public.Curve != elliptic.P256() {
			return ClientKey{}, errors.New("credentials: an ECDSA client key must be on P-256")
		}
		return ClientKey{alg: "ES256", id: id, sign: func(digest []byte) ([]byte, error) {
			der, err := signer.Sign(rand.Reader, digest, crypto.SHA256)
			if err != nil {
				return nil, err
			}
			// RFC 7518 section 3.4: two numbers of 32 bytes, not ASN.1.
			var sig struct{ R, S *big.Int }
			if rest, err := asn1.Unmarshal(der, &sig); err != nil || len(rest) > 0 {
				return nil, errors.New("malformed signature")
			}
			out := make([]byte, 64)
			sig.R.FillBytes(out[:32])
			sig.S.FillBytes(out[32:])
			return out, nil
		}}, nil
	}
	return ClientKey{}, errors.New("credentials: a client key must be RSA or ECDSA on P-256")
}

// ParseClientKey reads a private key in PEM: PKCS #8, PKCS #1 or SEC 1. Errors
// do not quote it.
func ParseClientKey(text Secret, id string) (ClientKey, error) {
	block, rest := pem.Decode([]byte(text.reveal()))
	if block == nil || len(rest) > 64 {
		return ClientKey{}, errors.New("credentials: the client key is not one PEM block")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return ClientKey{}, errors.New("credentials: the client key is not a private key in PEM")
	}
	signer, ok := key.(crypto.Signer)
	if err != nil || !ok {
		return ClientKey{}, errors.New("credentials: the client key can not be read")
	}
	return NewClientKey(signer, id)
}

// IsZero tells whether there is no key.
func (k ClientKey) IsZero() bool { return k.sign == nil }

// jwt signs claims (RFC 7515 compact form).
func (k ClientKey) jwt(claims map[string]any) (string, error) {
	if k.sign == nil {
		return "", errors.New("credentials: no client key")
	}
	header := map[string]string{"alg": k.alg, "typ": "JWT"}
	if k.id != "" {
		header["kid"] = k.id
	}
	head, err := json.Marshal(header)
	if err != nil {
		return "", errors.New("credentials: the assertion can not be encoded")
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", errors.New("credentials: the assertion can not be encoded")
	}
	text := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(body)
	digest := sha256.Sum256([]byte(text))
	sig, err := k.sign(digest[:])
	if err != nil {
		return "", errors.New("credentials: the client key does not sign")
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}

const assertionLife = time.Minute

// assertion proves the client (RFC 7523 section 2.2). Its audience is the
// issuer, which is what we were configured with: a token endpoint that was read
// from metadata could be that of another server, which would accept it.
func (p *Provider) assertion(now time.Time) (string, error) {
	audience := p.AssertionAudience
	if audience == "" {
		audience = p.Issuer
	}
	return p.ClientKey.jwt(map[string]any{
		"iss": p.ClientID, "sub": p.ClientID, "aud": audience, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	})
}
