-- +goose Up

-- What the data means, see Config.Projection.
ALTER TABLE mirror_object ADD COLUMN projection TEXT NOT NULL DEFAULT '';
