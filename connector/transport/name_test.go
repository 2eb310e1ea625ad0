package transport

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// names is a name server on a real socket. Each name has a list of answers; a
// further look-up gets the next list, the last one for ever.
type names struct {
	mu      sync.Mutex
	answers map[string][][]string
	asked   map[string]int
}

func resolver(t *testing.T, answers map[string][][]string) (*net.Resolver, *names) {
	t.Helper()
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &names{answers: answers, asked: map[string]int{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 1500)
		for {
			size, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := n.reply(buf[:size]); reply != nil {
				pc.WriteTo(reply, from)
			}
		}
	})
	t.Cleanup(func() { pc.Close(); wg.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp4", pc.LocalAddr().String())
	}}, n
}

func (n *names) reply(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	r := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}, Questions: m.Questions}
	n.mu.Lock()
	defer n.mu.Unlock()
	lists, ok := n.answers[q.Name.String()]
	if !ok {
		r.RCode = dnsmessage.RCodeNameError
	} else {
		// A and AAAA are asked together: both belong to the same look-up.
		key := q.Name.String() + q.Type.String()
		list := lists[min(n.asked[key], len(lists)-1)]
		n.asked[key]++
		for _, text := range list {
			addr := netip.MustParseAddr(text)
			h := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}
			switch {
			case addr.Is4() && q.Type == dnsmessage.TypeA:
				r.Answers = append(r.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: addr.As4()}})
			case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
				r.Answers = append(r.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
			}
		}
	}
	out, err := r.Pack()
	if err != nil {
		return nil
	}
	return out
}

func (n *names) lookups(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[name+"TypeA"]
}
