-- +goose Up
-- A statement that forgets its tenant finds nothing of the others. FORCE, because
-- we own the tables.
ALTER TABLE webhook_delivery ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_delivery FORCE ROW LEVEL SECURITY;
CREATE POLICY webhook_tenant ON webhook_delivery USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
ALTER TABLE webhook_lane ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_lane FORCE ROW LEVEL SECURITY;
CREATE POLICY webhook_tenant ON webhook_lane USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
ALTER TABLE webhook_queue ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_queue FORCE ROW LEVEL SECURITY;
CREATE POLICY webhook_tenant ON webhook_queue USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
