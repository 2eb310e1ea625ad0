-- +goose Up

-- A session is found by the SHA-256 of the 128 random bits in its cookie.
-- Times are milliseconds since 1970.
CREATE TABLE console_session (
    token_hash BYTES NOT NULL PRIMARY KEY,
    tenant     TEXT NOT NULL,
    principal  TEXT NOT NULL,
    name       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

CREATE INDEX console_session_expiry ON console_session (expires_at);

-- kind is signin or connect; provider, scopes (JSON, null: the usual ones) and
-- connection (empty: a new one) are those of a connect link.
CREATE TABLE console_link (
    token_hash BYTES NOT NULL PRIMARY KEY,
    kind       TEXT NOT NULL,
    tenant     TEXT NOT NULL,
    principal  TEXT NOT NULL,
    provider   TEXT NOT NULL,
    scopes     TEXT NOT NULL,
    connection TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);

CREATE INDEX console_link_expiry ON console_link (expires_at);
