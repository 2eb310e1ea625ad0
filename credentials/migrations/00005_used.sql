-- +goose Up
ALTER TABLE cred_connections ADD COLUMN last_used_at BIGINT NOT NULL DEFAULT 0; -- to within an hour; 0: never
