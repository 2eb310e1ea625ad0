-- +goose Up
CREATE TABLE cred_connections (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    provider_id TEXT NOT NULL,
    profile TEXT NOT NULL,
    client_id TEXT NOT NULL,
    issuer TEXT NOT NULL,
    ext_issuer TEXT NOT NULL,
    ext_subject TEXT NOT NULL,
    ext_login TEXT NOT NULL,
    ext_organisation TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    authz_version BIGINT NOT NULL,
    requested_scopes TEXT NOT NULL,
    granted_scopes TEXT NOT NULL,
    wanted TEXT NOT NULL, -- a JSON list, or null for everything visible
    resources TEXT NOT NULL,
    notes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX cred_connections_principal ON cred_connections (tenant_id, principal_id, provider_id);
CREATE UNIQUE INDEX cred_connections_account
    ON cred_connections (tenant_id, principal_id, provider_id, ext_issuer, ext_subject, ext_organisation)
    WHERE status NOT IN ('disconnecting', 'disconnected');

CREATE TABLE cred_tokens (
    tenant_id TEXT NOT NULL,
    connection_id TEXT NOT NULL,
    version BIGINT NOT NULL,
    sealed BYTES, -- null after a disconnect
    has_refresh BIGINT NOT NULL,
    answered_scopes TEXT NOT NULL, -- as the token endpoint said last
    issued_at BIGINT NOT NULL,
    access_exp BIGINT NOT NULL, -- 0: the provider did not say
    forced BIGINT NOT NULL, -- this version was made because the provider refused the one before
    lease_tok BIGINT NOT NULL,
    lease_owner TEXT NOT NULL,
    lease_exp BIGINT NOT NULL,
    phase TEXT NOT NULL, -- idle, claimed
    next_attempt_at BIGINT NOT NULL,
    fail_count BIGINT NOT NULL,
    unknown_count BIGINT NOT NULL,
    last_code TEXT NOT NULL,
    PRIMARY KEY (tenant_id, connection_id)
);

CREATE TABLE cred_transactions (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    state_hash BYTES NOT NULL UNIQUE,
    principal_id TEXT NOT NULL,
    browser_hash BYTES NOT NULL,
    provider_id TEXT NOT NULL,
    client_id TEXT NOT NULL,
    issuer TEXT NOT NULL,
    iss_advertised BIGINT NOT NULL,
    token_url TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    resource TEXT NOT NULL,
    scopes TEXT NOT NULL,
    wanted TEXT NOT NULL,
    reconnect TEXT NOT NULL, -- the connection to renew; empty: a new one
    verifier BYTES, -- sealed; null once used
    slot BIGINT NOT NULL,
    status TEXT NOT NULL, -- open, consumed, completed, failed, expired
    result TEXT NOT NULL,
    connection_id TEXT NOT NULL, -- what it made
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX cred_transactions_open ON cred_transactions (tenant_id, principal_id, slot) WHERE status = 'open';

CREATE TABLE cred_attempts (
    tenant_id TEXT NOT NULL,
    connection_id TEXT NOT NULL,
    lease_tok BIGINT NOT NULL,
    from_version BIGINT NOT NULL,
    owner TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    finished_at BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    code TEXT NOT NULL,
    http_status BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, connection_id, lease_tok)
);

CREATE TABLE cred_revocations (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    connection_id TEXT NOT NULL,
    provider_id TEXT NOT NULL,
    kind TEXT NOT NULL, -- refresh, access
    sealed BYTES, -- null once settled
    state TEXT NOT NULL, -- pending, done, failed
    code TEXT NOT NULL,
    tries BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    give_up_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX cred_revocations_due ON cred_revocations (next_at) WHERE state = 'pending';
CREATE INDEX cred_revocations_connection ON cred_revocations (tenant_id, connection_id);

CREATE TABLE cred_audit (
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL, -- a principal, or "system"
    action TEXT NOT NULL,
    connection_id TEXT NOT NULL,
    result TEXT NOT NULL,
    from_version BIGINT NOT NULL,
    to_version BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX cred_audit_connection ON cred_audit (tenant_id, connection_id, at);
