package kit

import (
	"context"
	"errors"
	"os"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/dev"
)

// Develop opens the house of a run, connects the owner, and hands both to serve in
// place of the checks: package dev has pages for it. What was opened is closed when
// serve returns.
func Develop(ctx context.Context, t T, s Subject, serve func(context.Context, dev.Bench) error) error {
	if err := connector.Lint(s.Connector); err != nil {
		return err
	}
	if s.Harness == nil {
		return errors.New("the subject has no harness, so there is no provider to try the connector with")
	}
	seed := s.Seed
	if seed == 0 {
		seed = 1 // the author finds the same data each time
	}
	house, err := openHouse(ctx, s, t.TempDir(), seed)
	if err != nil {
		return err
	}
	b := dev.Bench{
		Connector: s.Connector, Provider: house.facts.Name, Caller: connector.Caller{Tenant: "dev", Principal: "author"},
		Ledger: house.ledger, Proxy: house.proxy, CredentialHeader: house.facts.SignIn.Header,
		Runtime: func() *connector.Runtime { return house.runtime }, Fresh: house.fresh, Log: house.logs.String,
	}
	_, err = house.provider.Connect(ctx, house.credentials, b.Caller, Owner, Wish{Provider: s.Connector.Provider, Scopes: s.Connector.Auth.Scopes,
		Identify: house.runtime.Identify})
	if err == nil {
		err = serve(ctx, b)
	}
	return errors.Join(err, house.close())
}

// serveInstead serves if drawbridge dev runs this test.
func serveInstead(t T, s Subject) bool {
	address := os.Getenv(dev.Variable)
	if address == "" {
		return false
	}
	if err := Develop(t.Context(), t, s, func(ctx context.Context, b dev.Bench) error {
		return dev.ServeForParent(ctx, b, address, os.Stdin, os.Stdout)
	}); err != nil {
		t.Errorf("%v", err)
	}
	return true
}
