package doctor

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names is a name server on a real socket that knows the addresses of each
// name; all other names do not exist.
func names(t *testing.T, known map[string][]string) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := answer(buf[:n], known); reply != nil {
				pc.WriteTo(reply, from)
			}
		}
	})
	t.Cleanup(func() { pc.Close(); wg.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp4", pc.LocalAddr().String())
	}}
}

// answer follows RFC 1035, section 4, for queries with one question.
func answer(q []byte, known map[string][]string) []byte {
	if len(q) < 17 {
		return nil
	}
	var labels []string
	at := 12
	for at < len(q) && q[at] != 0 {
		end := at + 1 + int(q[at])
		if end >= len(q) {
			return nil
		}
		labels = append(labels, string(q[at+1:end]))
		at = end
	}
	if at+5 > len(q) {
		return nil
	}
	question, kind := q[12:at+5], binary.BigEndian.Uint16(q[at+1:])
	addrs, ok := known[strings.Join(labels, ".")]
	flags := uint16(0x8580)
	if !ok {
		flags |= 3
	}
	var records []byte
	count := uint16(0)
	for _, text := range addrs {
		a := netip.MustParseAddr(text)
		if a.Is4() != (kind == 1) || a.Is6() != (kind == 28) {
			continue
		}
		count++
		records = append(records, 0xc0, 12) // the question's name
		records = binary.BigEndian.AppendUint16(records, kind)
		records = append(records, 0, 1, 0, 0, 0, 0)
		records = binary.BigEndian.AppendUint16(records, uint16(a.BitLen()/8))
		records = append(records, a.AsSlice()...)
	}
	r := append([]byte{}, q[:2]...)
	for _, v := range []uint16{flags, 1, count, 0, 0} {
		r = binary.BigEndian.AppendUint16(r, v)
	}
	return append(append(r, question...), records...)
}
