-- +goose Up

-- What changed of a connection's objects, by name alone, for as long as watchers
-- may be behind. object is empty for all of a container, and both for all of the
-- connection.
CREATE TABLE notice (
    tenant     TEXT NOT NULL,
    connection TEXT NOT NULL,
    seq        BIGINT NOT NULL,
    type       TEXT NOT NULL,
    container  TEXT NOT NULL,
    object     TEXT NOT NULL,
    PRIMARY KEY (tenant, connection, seq)
);
