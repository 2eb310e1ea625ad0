package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/telemetry"
	"github.com/drawbridge-dev/drawbridge/telemetry/scrape"
)

// metrics are served at an address of their own, which is for operators alone. Nil
// measures nothing.
type metrics struct {
	listener net.Listener
	server   *http.Server
	ended    chan struct{}
	observe  func(*host.Host) error
}

// openMetrics listens, and has what is opened from now on measured.
func (a *app) openMetrics(address string) (*metrics, error) {
	if address == "" {
		return nil, nil
	}
	meters, page, err := scrape.New()
	if err != nil {
		return nil, err
	}
	if a.telemetry, err = telemetry.New(telemetry.Config{Meters: meters}); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", page)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: log.New(io.Discard, "", 0)}
	return &metrics{listener: listener, server: server,
		observe: func(h *host.Host) error { return telemetry.Observe(meters, host.Gauges, h.Readings) }}, nil
}

func (m *metrics) serve(h *host.Host) error {
	if m == nil {
		return nil
	}
	if err := m.observe(h); err != nil {
		return err
	}
	m.ended = make(chan struct{})
	go func() { defer close(m.ended); m.server.Serve(m.listener) }()
	return nil
}

// close can be called twice, also without serve.
func (m *metrics) close() {
	if m == nil {
		return
	}
	m.server.Close()
	m.listener.Close()
	if m.ended != nil {
		<-m.ended
	}
}
