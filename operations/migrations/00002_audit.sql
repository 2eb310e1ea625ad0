-- +goose Up

-- Ids, digests and times of calls. No column holds a value from a call's
-- arguments or result.
CREATE TABLE audit (
    id             TEXT PRIMARY KEY,
    at             BIGINT NOT NULL,
    tenant         TEXT NOT NULL,
    run            TEXT NOT NULL,
    step           TEXT NOT NULL,
    call_id        TEXT NOT NULL,
    principal      TEXT NOT NULL,
    connection     TEXT NOT NULL,
    tool           TEXT NOT NULL,
    connector      TEXT NOT NULL,
    version        TEXT NOT NULL,
    policy_version TEXT NOT NULL,
    decision       TEXT NOT NULL,
    args_digest    TEXT NOT NULL,
    operation      TEXT NOT NULL,
    status         TEXT NOT NULL,
    code           TEXT NOT NULL,
    request_id     TEXT NOT NULL,
    correlation    TEXT NOT NULL,
    attempts       BIGINT NOT NULL,
    stages         TEXT NOT NULL
);

CREATE INDEX audit_newest ON audit (tenant, at, id);
CREATE INDEX audit_call ON audit (tenant, call_id);
CREATE INDEX audit_operation ON audit (tenant, operation) WHERE operation <> '';
