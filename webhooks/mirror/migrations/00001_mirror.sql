-- +goose Up

-- One row per connection. seq grows with every apply. authz is the newest
-- authorization version that is known; what was fetched under an older one is
-- not written. epoch counts full sweeps; phase is 0 idle, 1 listing from cursor
-- on, 2 asking about what was not listed. checkpoint and sweep_clock are by the
-- provider's clock, all other times by ours, in milliseconds; zero means never.
CREATE TABLE mirror_stream (
    tenant      TEXT NOT NULL,
    connection  TEXT NOT NULL,
    authz       BIGINT NOT NULL,
    seq         BIGINT NOT NULL,
    epoch       BIGINT NOT NULL,
    phase       BIGINT NOT NULL,
    position    TEXT NOT NULL,
    sweep_began BIGINT NOT NULL,
    sweep_clock BIGINT NOT NULL,
    sweep_due   BIGINT NOT NULL,
    checkpoint  BIGINT NOT NULL,
    polled_at   BIGINT NOT NULL,
    swept_at    BIGINT NOT NULL,
    alarm       BIGINT NOT NULL,
    accepted    BIGINT NOT NULL,
    drift       BIGINT NOT NULL,
    PRIMARY KEY (tenant, connection)
);

-- One row per object. state is 1 there, 2 gone, 3 no access; the last two are
-- tombstones, with no data. denied hides a row until the
-- next fetch. ord grows with the provider's version; fetched_at is when the
-- fetch began.
CREATE TABLE mirror_object (
    tenant     TEXT NOT NULL,
    connection TEXT NOT NULL,
    id         TEXT NOT NULL,
    container  TEXT NOT NULL,
    state      BIGINT NOT NULL,
    denied     BIGINT NOT NULL,
    version    TEXT NOT NULL,
    ord        BIGINT NOT NULL,
    coarse     BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    fetched_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    authz      BIGINT NOT NULL,
    seq        BIGINT NOT NULL,
    seen       BIGINT NOT NULL,
    access     TEXT NOT NULL,
    data       BYTES,
    PRIMARY KEY (tenant, connection, id)
);

CREATE INDEX mirror_object_unseen ON mirror_object (tenant, connection, seen) WHERE state = 1;
CREATE INDEX mirror_object_tombstone ON mirror_object (tenant, connection, changed_at) WHERE state > 1;
