-- +goose Up

-- Until when a provider asked to be left alone, in milliseconds since 1970 by
-- the database's clock. What is over is nothing and may be removed by anyone.
CREATE TABLE quota_cooldown (
    tenant  TEXT NOT NULL,
    name    TEXT NOT NULL,
    ends_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE INDEX quota_cooldown_over ON quota_cooldown (ends_at);
