-- +goose Up

-- Writes that wait for a person are counted at every scrape of the metrics.
CREATE INDEX operation_unresolved ON operation (tenant, id) WHERE state = 'unresolved';
