-- +goose Up

-- One row per delivery that a verified sender made. body is sealed for exactly
-- this row and holds the few headers too; it is NULL once retention dropped it.
-- id begins with received_at, so it is also the order of age.
-- Times are milliseconds since 1970, zero means none.
CREATE TABLE webhook_delivery (
    id            TEXT PRIMARY KEY,
    tenant        TEXT NOT NULL,
    endpoint      TEXT NOT NULL,
    delivery_id   TEXT NOT NULL,
    digest        BYTES NOT NULL,
    conflict_of   TEXT NOT NULL,
    provider      TEXT NOT NULL,
    connection    TEXT NOT NULL,
    event_type    TEXT NOT NULL,
    secret        TEXT NOT NULL,
    id_signed     BIGINT NOT NULL,
    pull          BIGINT NOT NULL,
    received_at   BIGINT NOT NULL,
    state         TEXT NOT NULL,
    reason        TEXT NOT NULL,
    tries         BIGINT NOT NULL,
    claimed_until BIGINT NOT NULL,
    decoded_at    BIGINT NOT NULL,
    marks         BIGINT NOT NULL,
    repeats       BIGINT NOT NULL,
    kept          BIGINT NOT NULL,
    body          BYTES
);

-- The first delivery of an id, and beside it each other body under that id.
CREATE UNIQUE INDEX webhook_delivery_first ON webhook_delivery (endpoint, delivery_id) WHERE conflict_of = '';
CREATE UNIQUE INDEX webhook_delivery_conflict ON webhook_delivery (endpoint, delivery_id, digest) WHERE conflict_of <> '';
CREATE INDEX webhook_delivery_same_body ON webhook_delivery (endpoint, digest) WHERE id_signed = 0;
CREATE INDEX webhook_delivery_newest ON webhook_delivery (tenant, id);
CREATE INDEX webhook_delivery_body ON webhook_delivery (received_at) WHERE kept = 1 AND state IN ('decoded', 'ignored');
CREATE INDEX webhook_delivery_waiting ON webhook_delivery (received_at) WHERE state = 'received';
CREATE INDEX webhook_delivery_suspect ON webhook_delivery (received_at) WHERE state = 'received' AND tries >= 2;
CREATE INDEX webhook_delivery_outcome ON webhook_delivery (state, reason) WHERE state IN ('quarantined', 'ignored');
CREATE INDEX webhook_delivery_repeated ON webhook_delivery (repeats) WHERE repeats > 0;

-- One row per resource. dirty counts what asked for a look at it, applied is
-- the count that the last finished look began with. Each claim has the next
-- fence; due_at is the earliest time of the next claim.
CREATE TABLE webhook_lane (
    id          TEXT PRIMARY KEY,
    queue       TEXT NOT NULL,
    tenant      TEXT NOT NULL,
    provider    TEXT NOT NULL,
    connection  TEXT NOT NULL,
    kind        TEXT NOT NULL,
    object      TEXT NOT NULL,
    dirty       BIGINT NOT NULL,
    applied     BIGINT NOT NULL,
    place       BIGINT NOT NULL,
    dirty_at    BIGINT NOT NULL,
    due_at      BIGINT NOT NULL,
    fence       BIGINT NOT NULL,
    claimed_at  BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    attempts    BIGINT NOT NULL,
    parked_at   BIGINT NOT NULL,
    reason      TEXT NOT NULL,
    applied_at  BIGINT NOT NULL
);

CREATE INDEX webhook_lane_due ON webhook_lane (queue, place, due_at) WHERE dirty > applied AND parked_at = 0;
CREATE INDEX webhook_lane_oldest ON webhook_lane (dirty_at) WHERE dirty > applied AND parked_at = 0;
CREATE INDEX webhook_lane_leased ON webhook_lane (queue, lease_until) WHERE lease_until > 0;
CREATE INDEX webhook_lane_parked ON webhook_lane (tenant, parked_at) WHERE parked_at > 0;
CREATE INDEX webhook_lane_clean ON webhook_lane (applied_at) WHERE dirty = applied;

-- One row per connection that has lanes: whose turn it is, and whether its
-- provider asked us to stay away.
CREATE TABLE webhook_queue (
    id           TEXT PRIMARY KEY,
    tenant       TEXT NOT NULL,
    connection   TEXT NOT NULL,
    turn         BIGINT NOT NULL,
    paused_until BIGINT NOT NULL,
    pauses       BIGINT NOT NULL,
    reason       TEXT NOT NULL
);

CREATE INDEX webhook_queue_turn ON webhook_queue (turn, id);
