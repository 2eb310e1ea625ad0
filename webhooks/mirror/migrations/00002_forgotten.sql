-- +goose Up

-- When the last object of a connection that has ended was removed. Zero: there may
-- be some.
ALTER TABLE mirror_stream ADD COLUMN forgotten_at BIGINT NOT NULL DEFAULT 0;
