-- +goose Up

-- Request states that were redeemed, by the SHA-256 of their nonce, until they
-- would have expired anyway. Times are milliseconds since 1970.
CREATE TABLE mcp_redeemed (
    nonce_hash BYTES NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
);

CREATE INDEX mcp_redeemed_expiry ON mcp_redeemed (expires_at);

-- Results too large to be inlined, by the SHA-256 of their handle; data is sealed.
CREATE TABLE mcp_artifact (
    handle_hash BYTES NOT NULL PRIMARY KEY,
    tenant      TEXT NOT NULL,
    principal   TEXT NOT NULL,
    connection  TEXT NOT NULL,
    mount       TEXT NOT NULL,
    tool        TEXT NOT NULL,
    data        BYTES NOT NULL,
    expires_at  BIGINT NOT NULL
);

CREATE INDEX mcp_artifact_expiry ON mcp_artifact (expires_at);
