-- +goose Up
-- A statement that forgets its tenant finds nothing of the others. FORCE, because
-- we own the table.
ALTER TABLE quota_cooldown ENABLE ROW LEVEL SECURITY;
ALTER TABLE quota_cooldown FORCE ROW LEVEL SECURITY;
CREATE POLICY quota_tenant ON quota_cooldown USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
