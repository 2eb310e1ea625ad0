-- +goose Up
-- A statement that forgets its tenant finds nothing of the others. FORCE, because
-- we own the table.
ALTER TABLE webhook_subscription ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_subscription FORCE ROW LEVEL SECURITY;
CREATE POLICY webhook_tenant ON webhook_subscription USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
