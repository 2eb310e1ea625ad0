package tickets

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// An EventDecoder is a driver that understands its provider's webhooks.
type EventDecoder interface {
	// DecodeEvent reads the verified bytes of one delivery. EventType is what the
	// sender's header says, which no signature covers; empty when the scheme has
	// no such header. An event type that is no concern of tickets gives nothing
	// and no error; an unknown action on a ticket is a change of that ticket. It
	// is pure, and must take any bytes without a panic.
	DecodeEvent(eventType string, payload []byte) ([]Changed, error)
}

// Changed names what an event is about. It carries nothing else of the payload:
// what the ticket is now has to be fetched.
type Changed struct {
	ID      string // as tickets.get takes it; empty: everything in Project
	Project string
	// Removes says that the ticket or the access to it is being taken away.
	Removes bool
}

// ErrEvent means that an event can't be read. Its text quotes nothing.
var ErrEvent = errors.New("the event is not what the provider's contract says")

// maxID is the longest id or project that is taken from an event, in bytes.
const maxID = 300

// Decode runs a driver's decoder and holds what it found to a connection:
// changes in projects that the connection may not touch are counted and left
// out. It returns nothing for a driver without a decoder.
func Decode(d Driver, c connector.Connection, eventType string, payload []byte) (changed []Changed, outside int, err error) {
	decoder, ok := d.(EventDecoder)
	if !ok {
		return nil, 0, nil
	}
	all, err := decoder.DecodeEvent(eventType, payload)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range all {
		switch {
		case !plainName(e.Project) || e.ID != "" && !plainName(e.ID):
			return nil, 0, ErrEvent
		case !slices.Contains(c.Resources, e.Project):
			outside++
		default:
			changed = append(changed, e)
		}
	}
	return changed, outside, nil
}

// plainName keeps out what can't be an id: it would end up in a database's text
// and in a path.
func plainName(s string) bool {
	return s != "" && len(s) <= maxID && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}
