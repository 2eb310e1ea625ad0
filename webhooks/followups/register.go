package followups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
)

// A FollowUp is a read that is made for changes of a provider's objects.
type FollowUp struct {
	Name      string // lower case letters, digits, - and _; its lanes outlive the process under it
	Provider  string
	Operation string // by its exact name; its effect has to be read
	Argument  string // takes the object's id
	Fixed     map[string]any
	// On are kinds of changes, as mirror names them. Empty: mirror.Updated. What
	// names no object leads to nothing.
	On []string
	// Done stores the answer, in the transaction that ends the lane's lease, and may
	// run again when that is repeated. Its error undoes both. Required.
	Done func(context.Context, *store.Tx, Done) error
}

// Done is what came of a follow-up. A result with an error is one of NOT_FOUND,
// MOVED or GONE: there is nothing more to be read. Any other fault is tried again.
type Done struct {
	FollowUp   string
	Connection connector.Connection
	ID         string
	Result     connector.Result
}

// A Provider is where follow-ups are made.
type Provider struct {
	Connector connector.Connector
	Runtime   *connector.Runtime // over Reads(Connector)
}

// Reads is a connector without its writes; false: nothing is left.
func Reads(c connector.Connector) (connector.Connector, bool) {
	var reads []connector.Operation
	for _, o := range c.Operations {
		if o.Spec().Effect == connector.EffectRead {
			reads = append(reads, o)
		}
	}
	c.Operations = reads
	return c, len(reads) > 0
}

// Config is what a Service is made of. All but FollowUps is required.
type Config struct {
	DB        *store.DB
	Inbox     *inbox.Inbox // on the same database
	Providers map[string]Provider
	FollowUps []FollowUp
	// Connection is a connection as it is now, or CONNECTION_REQUIRED; Ended says
	// whether it is over for good.
	Connection func(context.Context, connector.TenantID, connector.ConnectionID) (connector.Connection, error)
	Ended      func(context.Context, connector.TenantID, connector.ConnectionID) (connector.Connection, bool, error)
}

// A Service is safe for concurrent use.
type Service struct {
	c     Config
	named map[string]FollowUp
}

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// New checks every follow-up and refuses the first that is not a read.
func New(c Config) (*Service, error) {
	if c.DB == nil || c.Inbox == nil || c.Connection == nil || c.Ended == nil {
		return nil, errors.New("followups: config: no database, inbox, connection or ended")
	}
	s := &Service{c: c, named: map[string]FollowUp{}}
	for _, f := range c.FollowUps {
		if _, twice := s.named[f.Name]; twice || !namePattern.MatchString(f.Name) {
			return nil, fmt.Errorf("followups: %q needs a name of its own that matches %s", f.Name, namePattern)
		}
		if err := s.check(f); err != nil {
			return nil, fmt.Errorf("followups: %s: %w", f.Name, err)
		}
		if len(f.On) == 0 {
			f.On = []string{mirror.Updated}
		}
		f.Fixed = maps.Clone(f.Fixed)
		s.named[f.Name] = f
	}
	return s, nil
}

// check holds a follow-up to what one may be, of the connector as it is.
func (s *Service) check(f FollowUp) error {
	p, ok := s.c.Providers[f.Provider]
	if !ok || p.Runtime == nil {
		return fmt.Errorf("the provider %q is not set up here", f.Provider)
	}
	i := slices.IndexFunc(p.Connector.Operations, func(o connector.Operation) bool { return o.Spec().Name == f.Operation })
	_, fixed := f.Fixed[f.Argument]
	switch {
	case i < 0:
		return fmt.Errorf("there is no operation %q", f.Operation)
	case p.Connector.Operations[i].Spec().Effect != connector.EffectRead:
		return fmt.Errorf("%s is no read: an event starts nothing else", f.Operation)
	case f.Argument == "" || fixed:
		return errors.New("one argument takes the object's id, and is not fixed")
	case f.Done == nil:
		return errors.New("nobody takes the answer")
	}
	for _, on := range f.On {
		if on != mirror.Updated && on != mirror.Removed && on != mirror.Denied {
			return fmt.Errorf("%q is no kind of change", on)
		}
	}
	if _, err := json.Marshal(f.Fixed); err != nil {
		return errors.New("the fixed arguments can't be written as JSON")
	}
	return nil
}

// arguments are those of one call.
func (f FollowUp) arguments(id string) (json.RawMessage, error) {
	all := maps.Clone(f.Fixed)
	if all == nil {
		all = map[string]any{}
	}
	all[f.Argument] = id
	return json.Marshal(all)
}
