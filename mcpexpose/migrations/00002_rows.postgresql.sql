-- +goose Up
-- A statement that forgets its tenant finds nothing of the others. FORCE, because
-- we own the tables. mcp_redeemed has hashes of random numbers and no tenant.
ALTER TABLE mcp_artifact ENABLE ROW LEVEL SECURITY;
ALTER TABLE mcp_artifact FORCE ROW LEVEL SECURITY;
CREATE POLICY mcp_tenant ON mcp_artifact USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
