-- +goose Up

-- Each record's hash covers the one before it in its tenant. Records from
-- before the chain have seq 0 until the log takes them in at its next start.
ALTER TABLE audit ADD COLUMN seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE audit ADD COLUMN hash BYTES;

CREATE UNIQUE INDEX audit_chain ON audit (tenant, seq) WHERE seq > 0;
CREATE INDEX audit_unchained ON audit (tenant, at, id) WHERE seq = 0;

CREATE TABLE audit_head (
    tenant TEXT PRIMARY KEY,
    seq    BIGINT NOT NULL,
    hash   BYTES NOT NULL
);
