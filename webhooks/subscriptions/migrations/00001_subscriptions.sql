-- +goose Up

-- One row per endpoint that we had a provider subscribe. draft is what was asked
-- for, sealed, until it is made; the address is known by its SHA-256 afterwards.
-- fence counts the looks of the keeper, due_at is the earliest time of the next
-- one and the end of the lease of one that is under way. life is how long the
-- provider's subscriptions live, expires_at when this one ends.
-- Times and durations are milliseconds, zero means none.
CREATE TABLE webhook_subscription (
    endpoint     TEXT PRIMARY KEY,
    tenant       TEXT NOT NULL,
    provider     TEXT NOT NULL,
    connection   TEXT NOT NULL,
    subscriber   TEXT NOT NULL,
    project      TEXT NOT NULL,
    origin       TEXT NOT NULL,
    replaces     TEXT NOT NULL,
    address_hash BYTES NOT NULL,
    draft        BYTES,
    state        TEXT NOT NULL,
    hook         TEXT NOT NULL,
    keyless      BIGINT NOT NULL,
    made_at      BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    life         BIGINT NOT NULL,
    renewal      TEXT NOT NULL,
    missing_at   BIGINT NOT NULL,
    checked_at   BIGINT NOT NULL,
    fault        TEXT NOT NULL,
    received_at  BIGINT NOT NULL,
    pulled       TEXT NOT NULL,
    fence        BIGINT NOT NULL,
    due_at       BIGINT NOT NULL
);

-- Asked for once at a time: whoever runs the same command again goes on with it.
CREATE UNIQUE INDEX webhook_subscription_asked ON webhook_subscription (tenant, connection, project) WHERE state = 'asked';
CREATE INDEX webhook_subscription_tenant ON webhook_subscription (tenant, connection);
CREATE INDEX webhook_subscription_due ON webhook_subscription (due_at) WHERE state = 'active';
