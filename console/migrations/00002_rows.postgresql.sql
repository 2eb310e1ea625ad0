-- +goose Up
-- A statement that forgets its tenant finds nothing of the others. FORCE, because
-- we own the tables.
ALTER TABLE console_session ENABLE ROW LEVEL SECURITY;
ALTER TABLE console_session FORCE ROW LEVEL SECURITY;
CREATE POLICY console_tenant ON console_session USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
ALTER TABLE console_link ENABLE ROW LEVEL SECURITY;
ALTER TABLE console_link FORCE ROW LEVEL SECURITY;
CREATE POLICY console_tenant ON console_link USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
