-- +goose Up

-- The query parameter of the provider's question, asked before it subscribes,
-- whether the address is ours; empty: it asks none.
ALTER TABLE webhook_endpoint ADD COLUMN handshake TEXT NOT NULL DEFAULT '';
