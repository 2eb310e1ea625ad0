package transport

import (
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A request waits for the reader of its connection, also under TLS.
func TestSettleWaitsForTheReader(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"plain": func(c net.Conn) net.Conn { return c },
		"TLS":   func(c net.Conn) net.Conn { return tls.Client(c, &tls.Config{}) },
	} {
		for _, flag := range []string{"reading", "closed"} {
			t.Run(name+"/"+flag, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					here, there := net.Pipe()
					defer there.Close()
					w := watch(here)
					c := wrap(w)
					done := false
					go func() { settle(c); done = true }()
					synctest.Wait()
					if done {
						t.Fatal("a request went ahead while the reader was busy")
					}
					if flag == "closed" {
						w.Close()
					} else {
						defer w.Close()
						go w.Read(make([]byte, 1))
					}
					synctest.Wait()
					if !done {
						t.Fatal("a request still waits")
					}
				})
			})
		}
	}
}

func TestHurryIsOverWithTheFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		w := watch(here).hurry(time.Second)
		go func() {
			there.Write([]byte("a"))
			time.Sleep(time.Hour)
			there.Write([]byte("b"))
		}()
		for i, want := range "ab" {
			b := make([]byte, 1)
			if _, err := w.Read(b); err != nil || rune(b[0]) != want {
				t.Errorf("byte %d: %q, %v", i, b, err)
			}
		}
		late := watch(there)
		go late.hurry(time.Second)
		synctest.Wait()
		start := time.Now()
		if _, err := late.Read(make([]byte, 1)); err == nil || time.Since(start) != time.Second {
			t.Errorf("silence ended with %v after %v", err, time.Since(start))
		}
	})
}
