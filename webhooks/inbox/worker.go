package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// WorkerConfig is what a Worker is made of.
type WorkerConfig struct {
	Inbox  *Inbox  // required
	Decode Decoder // required

	// Apply looks at a lane's resource and stores what it found, and calls
	// Inbox.Complete in the transaction that stores it. A lease that was not
	// completed although Apply returned nil runs out and is given to somebody
	// again. After an error the lane fails; see Inbox.Fail. The context ends
	// after two minutes, or when the lease is lost. Required.
	Apply func(context.Context, Lease) error

	// Concurrency is how many lanes this process applies at once. Zero means 8.
	Concurrency int

	Log *slog.Logger // nil: nothing is logged
}

// A Worker decodes deliveries and applies lanes.
type Worker struct {
	inbox       *Inbox
	decoder     Decoder
	apply       func(context.Context, Lease) error
	concurrency int
	log         *slog.Logger
}

const (
	// poll is how soon a worker sees what another process stored, a backoff
	// that is over, or a lease that ran out.
	poll       = time.Second
	sweepEvery = 10 * time.Minute
	applyTime  = 2 * time.Minute
	settleTime = 5 * time.Second
)

// NewWorker makes a worker; Run starts it.
func NewWorker(c WorkerConfig) (*Worker, error) {
	switch {
	case c.Inbox == nil, c.Decode == nil, c.Apply == nil:
		return nil, errors.New("inbox: worker config: no inbox, decoder or apply")
	case c.Concurrency < 0:
		return nil, errors.New("inbox: worker config: concurrency is negative")
	}
	w := &Worker{inbox: c.Inbox, decoder: c.Decode, apply: c.Apply, concurrency: c.Concurrency, log: c.Log}
	if w.concurrency == 0 {
		w.concurrency = 8
	}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	return w, nil
}

// Run works until the context ends, gives back what it was applying, and
// returns when all of that is done. Errors of the store are logged and tried
// again. Several processes may run workers on one database.
func (w *Worker) Run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { w.decodeAll(ctx) })
	parts.Go(func() { w.applyAll(ctx) })
	parts.Go(func() { w.sweepAll(ctx) })
	parts.Wait()
}

func (w *Worker) decodeAll(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := w.inbox.decode(ctx, w.decoder)
		if err != nil && ctx.Err() == nil {
			w.log.ErrorContext(ctx, "webhook deliveries were not decoded", "error", err)
		}
		if err != nil || n == 0 {
			wait(ctx, w.inbox.arrivals, poll)
		}
	}
}

func (w *Worker) applyAll(ctx context.Context) {
	var busy sync.WaitGroup
	defer busy.Wait()
	slots := make(chan struct{}, w.concurrency)
	for ctx.Err() == nil {
		select {
		case slots <- struct{}{}:
			<-slots // only this loop takes slots, so it is still free below
		case <-ctx.Done():
			return
		}
		leases, err := w.inbox.Claim(ctx, w.concurrency-len(slots))
		if err != nil && ctx.Err() == nil {
			w.log.ErrorContext(ctx, "webhook lanes were not claimed", "error", err)
		}
		for _, l := range leases {
			slots <- struct{}{}
			busy.Go(func() {
				w.applyOne(ctx, l)
				<-slots
				poke(w.inbox.dirty) // the lane, or another of its connection, may be due now
			})
		}
		if len(leases) == 0 {
			wait(ctx, w.inbox.dirty, poll)
		}
	}
}

func (w *Worker) applyOne(ctx context.Context, l Lease) {
	applying, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	var renewing sync.WaitGroup
	renewing.Go(func() { w.renew(applying, cancel, l) })
	err := w.applySafely(applying, l)
	cancel()
	renewing.Wait()
	switch {
	case err == nil, errors.Is(err, ErrFenced):
		return
	case ctx.Err() != nil:
		err = context.Canceled // however Apply put it: we are stopping
	default:
		w.log.WarnContext(ctx, "webhook lane failed", "lane", l.ID(), "kind", l.Kind, "attempt", l.Attempts, "error", err)
	}
	settling, done := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer done()
	if err := w.inbox.Fail(settling, l, err); err != nil && !errors.Is(err, ErrFenced) {
		// The lease runs out by itself.
		w.log.ErrorContext(ctx, "webhook lane was not given back", "lane", l.ID(), "error", err)
	}
}

func (w *Worker) applySafely(ctx context.Context, l Lease) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("apply panicked: %T", p)
		}
	}()
	return w.apply(ctx, l)
}

// renew keeps the lease while it is being applied, and ends the apply when the
// lease is lost: its result would be thrown away.
func (w *Worker) renew(ctx context.Context, cancel context.CancelFunc, l Lease) {
	t := time.NewTicker(w.inbox.lease / 3)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		switch _, err := w.inbox.Renew(ctx, l); {
		case errors.Is(err, ErrFenced):
			cancel()
			return
		case err != nil && ctx.Err() == nil:
			w.log.WarnContext(ctx, "webhook lease was not renewed", "lane", l.ID(), "error", err)
		}
	}
}

func (w *Worker) sweepAll(ctx context.Context) {
	for ctx.Err() == nil {
		if err := w.inbox.Sweep(ctx); err != nil && ctx.Err() == nil {
			w.log.ErrorContext(ctx, "old webhook deliveries were not removed", "error", err)
		}
		wait(ctx, nil, sweepEvery)
	}
}

func wait(ctx context.Context, wake <-chan struct{}, most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-wake:
	case <-t.C:
	case <-ctx.Done():
	}
}
