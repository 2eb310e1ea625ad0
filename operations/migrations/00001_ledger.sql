-- +goose Up

-- plan, arguments, output and receipt are sealed for exactly this row and
-- column. Times are milliseconds since 1970, zero means none.
CREATE TABLE operation (
    tenant        TEXT NOT NULL,
    id            TEXT NOT NULL,
    principal     TEXT NOT NULL,
    connection    TEXT NOT NULL,
    tool          TEXT NOT NULL,
    intent        TEXT NOT NULL,
    live          BIGINT NOT NULL,
    connector     TEXT NOT NULL,
    version       TEXT NOT NULL,
    provider      TEXT NOT NULL,
    authz_version BIGINT NOT NULL,
    args_digest   TEXT NOT NULL,
    digest        TEXT NOT NULL,
    settle_ms     BIGINT NOT NULL,
    call_id       TEXT NOT NULL,
    run           TEXT NOT NULL,
    plan          BYTES NOT NULL,
    arguments     BYTES NOT NULL,
    state         TEXT NOT NULL,
    reason        TEXT NOT NULL,
    retryable     BIGINT NOT NULL,
    fence         BIGINT NOT NULL,
    claim         TEXT NOT NULL,
    lease_until   BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    dispatched_at BIGINT NOT NULL,
    next_look     BIGINT NOT NULL,
    looks         BIGINT NOT NULL,
    receipt       BYTES,
    output        BYTES,
    external_id   TEXT NOT NULL,
    settled_by    TEXT NOT NULL,
    rev           BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- One live operation for one identity, whoever races.
CREATE UNIQUE INDEX operation_identity ON operation (tenant, principal, connection, tool, intent) WHERE live = 1;
CREATE INDEX operation_newest ON operation (tenant, created_at);
CREATE INDEX operation_connection ON operation (tenant, connection, state);
CREATE INDEX operation_leased ON operation (lease_until) WHERE state = 'dispatching';
CREATE INDEX operation_unknown ON operation (next_look) WHERE state = 'unknown';

CREATE TABLE operation_approval (
    tenant           TEXT NOT NULL,
    id               TEXT NOT NULL,
    operation        TEXT NOT NULL,
    principal        TEXT NOT NULL,
    connection       TEXT NOT NULL,
    tool             TEXT NOT NULL,
    version          TEXT NOT NULL,
    digest           TEXT NOT NULL,
    authz_version    BIGINT NOT NULL,
    resource_version TEXT NOT NULL,
    state            TEXT NOT NULL,
    revoked          BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    expires_at       BIGINT NOT NULL,
    decided_by       TEXT NOT NULL,
    reason           TEXT NOT NULL,
    decided_at       BIGINT NOT NULL,
    used_at          BIGINT NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, operation),
    FOREIGN KEY (tenant, operation) REFERENCES operation (tenant, id)
);

CREATE INDEX operation_approval_newest ON operation_approval (tenant, created_at);
CREATE INDEX operation_approval_open ON operation_approval (expires_at) WHERE state IN ('pending', 'approved');

CREATE TABLE operation_event (
    tenant     TEXT NOT NULL,
    operation  TEXT NOT NULL,
    seq        BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    actor      TEXT NOT NULL,
    reason     TEXT NOT NULL,
    PRIMARY KEY (tenant, operation, seq),
    FOREIGN KEY (tenant, operation) REFERENCES operation (tenant, id)
);
