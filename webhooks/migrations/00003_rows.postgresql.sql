-- +goose Up
-- A statement that forgets its tenant finds nothing of the others. FORCE, because
-- we own the tables.
ALTER TABLE webhook_endpoint ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_endpoint FORCE ROW LEVEL SECURITY;
CREATE POLICY webhook_tenant ON webhook_endpoint USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
-- A secret is its endpoint's, whose guard holds within this one too.
ALTER TABLE webhook_secret ENABLE ROW LEVEL SECURITY;
ALTER TABLE webhook_secret FORCE ROW LEVEL SECURITY;
CREATE POLICY webhook_tenant ON webhook_secret USING (EXISTS (SELECT 1 FROM webhook_endpoint e WHERE e.id = webhook_secret.endpoint));
