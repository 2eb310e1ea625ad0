-- +goose Up

-- One row per object that was ever fetched or not found. data is sealed for
-- exactly this row and NULL for a tombstone. version and ord are the provider's
-- and the order made of it; authz is the connection's authorization that the row
-- was last confirmed under. Times are milliseconds since 1970, zero means none;
-- all but those inside data are of the database's clock.
CREATE TABLE mirror_object (
    id          TEXT PRIMARY KEY,
    stream      TEXT NOT NULL,
    tenant      TEXT NOT NULL,
    object      TEXT NOT NULL,
    project     TEXT NOT NULL,
    access      TEXT NOT NULL,
    version     TEXT NOT NULL,
    ord         BIGINT NOT NULL,
    state       TEXT NOT NULL,
    withheld    BIGINT NOT NULL,
    authz       BIGINT NOT NULL,
    epoch       BIGINT NOT NULL,
    revision    BIGINT NOT NULL,
    fetched_at  BIGINT NOT NULL,
    checked_at  BIGINT NOT NULL,
    died_at     BIGINT NOT NULL,
    data        BYTES
);

CREATE INDEX mirror_object_project ON mirror_object (stream, project) WHERE state = 'live';
CREATE INDEX mirror_object_unseen ON mirror_object (stream, epoch, id) WHERE state = 'live';
CREATE INDEX mirror_object_dead ON mirror_object (died_at) WHERE died_at > 0;

-- One row per connection and kind of object that is mirrored: how far a poll or
-- a sweep is, and when the next one is due. epoch counts sweeps.
CREATE TABLE mirror_stream (
    id           TEXT PRIMARY KEY,
    tenant       TEXT NOT NULL,
    provider     TEXT NOT NULL,
    connection   TEXT NOT NULL,
    kind         TEXT NOT NULL,
    authz        BIGINT NOT NULL,
    checkpoint   BIGINT NOT NULL,
    walk         TEXT NOT NULL,
    position     TEXT NOT NULL,
    clock        BIGINT NOT NULL,
    idle         BIGINT NOT NULL,
    epoch        BIGINT NOT NULL,
    step         BIGINT NOT NULL,
    began_at     BIGINT NOT NULL,
    swept_at     BIGINT NOT NULL,
    polled_at    BIGINT NOT NULL,
    poll_due     BIGINT NOT NULL,
    sweep_due    BIGINT NOT NULL,
    confirmed    BIGINT NOT NULL,
    reason       TEXT NOT NULL,
    drift        BIGINT NOT NULL
);

CREATE INDEX mirror_stream_due ON mirror_stream (tenant, connection);
