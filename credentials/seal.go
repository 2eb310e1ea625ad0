package credentials

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
)

// place is where a sealed value lives. It is taken from the row being read, so
// that a value that was moved to another row, tenant or version does not open.
type place struct {
	tenant     connector.TenantID
	connection connector.ConnectionID
	issuer     string
	client     string
}

func (p place) tokens(version int64) []byte {
	return keys.Context("cred/v1", string(p.tenant), string(p.connection), p.issuer, p.client, "token_record.sealed", strconv.FormatInt(version, 10))
}

func (p place) verifier(txn string) []byte {
	return keys.Context("cred/v1", string(p.tenant), txn, p.issuer, p.client, "transaction.verifier")
}

func (p place) deviceCode(txn string) []byte {
	return keys.Context("cred/v1", string(p.tenant), txn, p.issuer, p.client, "transaction.device_code")
}

func revocationPlace(tenant connector.TenantID, id, kind string) []byte {
	return keys.Context("cred/v1", string(tenant), id, kind, "revocation.sealed")
}

// pair is the one sealed value of a token record, so that no secret can be
// forgotten when keys change.
type pair struct {
	access, refresh Secret
}

type pairJSON struct {
	Access  string `json:"access"`
	Refresh string `json:"refresh,omitempty"`
}

func (s *Service) sealPair(p pair, context []byte) ([]byte, error) {
	text, err := json.Marshal(pairJSON{p.access.reveal(), p.refresh.reveal()})
	if err != nil {
		return nil, errors.New("credentials: tokens can not be encoded")
	}
	return s.cfg.Keys.Seal(text, context)
}

func (s *Service) openPair(sealed, context []byte) (pair, error) {
	text, err := s.cfg.Keys.Open(sealed, context)
	if err != nil {
		return pair{}, err
	}
	var p pairJSON
	if json.Unmarshal(text, &p) != nil {
		return pair{}, keys.ErrIntegrity
	}
	return pair{NewSecret(p.Access), NewSecret(p.Refresh)}, nil
}
