-- +goose Up
ALTER TABLE cred_transactions ADD COLUMN mode TEXT NOT NULL DEFAULT 'browser'; -- or device, whose code takes the verifier's place
ALTER TABLE cred_transactions ADD COLUMN poll_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE cred_transactions ADD COLUMN poll_interval BIGINT NOT NULL DEFAULT 0;
ALTER TABLE cred_transactions ADD COLUMN step_up TEXT NOT NULL DEFAULT ''; -- the scopes that an incremental authorization is about, sorted
CREATE INDEX cred_transactions_reconnect ON cred_transactions (tenant_id, reconnect, created_at) WHERE step_up <> '';
