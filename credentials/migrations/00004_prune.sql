-- +goose Up
CREATE INDEX cred_transactions_expiring ON cred_transactions (expires_at) WHERE status = 'open';
CREATE INDEX cred_transactions_old ON cred_transactions (created_at) WHERE status <> 'open';
CREATE INDEX cred_attempts_old ON cred_attempts (started_at);
CREATE INDEX cred_connections_dead ON cred_connections (updated_at) WHERE status IN ('reconnect_required', 'disconnected');
CREATE INDEX cred_revocations_old ON cred_revocations (updated_at) WHERE state <> 'pending';
