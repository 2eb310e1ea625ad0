-- +goose Up
-- A statement that forgets its tenant finds nothing of the others. FORCE, because
-- we own the tables.
ALTER TABLE mirror_stream ENABLE ROW LEVEL SECURITY;
ALTER TABLE mirror_stream FORCE ROW LEVEL SECURITY;
CREATE POLICY mirror_tenant ON mirror_stream USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
ALTER TABLE mirror_object ENABLE ROW LEVEL SECURITY;
ALTER TABLE mirror_object FORCE ROW LEVEL SECURITY;
CREATE POLICY mirror_tenant ON mirror_object USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
