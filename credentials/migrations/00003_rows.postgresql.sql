-- +goose Up
-- A statement that forgets its tenant finds nothing of the others. FORCE, because
-- we own the tables.
ALTER TABLE cred_connections ENABLE ROW LEVEL SECURITY;
ALTER TABLE cred_connections FORCE ROW LEVEL SECURITY;
CREATE POLICY cred_tenant ON cred_connections USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant_id));
ALTER TABLE cred_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE cred_tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY cred_tenant ON cred_tokens USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant_id));
ALTER TABLE cred_transactions ENABLE ROW LEVEL SECURITY;
ALTER TABLE cred_transactions FORCE ROW LEVEL SECURITY;
CREATE POLICY cred_tenant ON cred_transactions USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant_id));
ALTER TABLE cred_attempts ENABLE ROW LEVEL SECURITY;
ALTER TABLE cred_attempts FORCE ROW LEVEL SECURITY;
CREATE POLICY cred_tenant ON cred_attempts USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant_id));
ALTER TABLE cred_revocations ENABLE ROW LEVEL SECURITY;
ALTER TABLE cred_revocations FORCE ROW LEVEL SECURITY;
CREATE POLICY cred_tenant ON cred_revocations USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant_id));
ALTER TABLE cred_audit ENABLE ROW LEVEL SECURITY;
ALTER TABLE cred_audit FORCE ROW LEVEL SECURITY;
CREATE POLICY cred_tenant ON cred_audit USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant_id));
