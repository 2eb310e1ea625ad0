-- +goose Up

-- One row per address that a provider may post to. The token in the address is
-- kept as its SHA-256 only. Times are milliseconds since 1970, zero means none.
CREATE TABLE webhook_endpoint (
    id          TEXT PRIMARY KEY,
    tenant      TEXT NOT NULL,
    provider    TEXT NOT NULL,
    connection  TEXT NOT NULL,
    scheme      TEXT NOT NULL,
    token_hash  BYTES NOT NULL UNIQUE,
    created_at  BIGINT NOT NULL,
    disabled_at BIGINT NOT NULL
);

CREATE INDEX webhook_endpoint_tenant ON webhook_endpoint (tenant, id);

-- secret is sealed for exactly this row.
CREATE TABLE webhook_secret (
    endpoint   TEXT NOT NULL REFERENCES webhook_endpoint (id),
    id         TEXT NOT NULL,
    secret     BYTES NOT NULL,
    not_before BIGINT NOT NULL,
    not_after  BIGINT NOT NULL,
    PRIMARY KEY (endpoint, id)
);
