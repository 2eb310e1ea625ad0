-- +goose Up
-- A statement that forgets its tenant finds nothing of the others. FORCE, because
-- we own the tables.
ALTER TABLE operation ENABLE ROW LEVEL SECURITY;
ALTER TABLE operation FORCE ROW LEVEL SECURITY;
CREATE POLICY operation_tenant ON operation USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
ALTER TABLE operation_approval ENABLE ROW LEVEL SECURITY;
ALTER TABLE operation_approval FORCE ROW LEVEL SECURITY;
CREATE POLICY operation_tenant ON operation_approval USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
ALTER TABLE operation_event ENABLE ROW LEVEL SECURITY;
ALTER TABLE operation_event FORCE ROW LEVEL SECURITY;
CREATE POLICY operation_tenant ON operation_event USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
ALTER TABLE audit ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit FORCE ROW LEVEL SECURITY;
CREATE POLICY audit_tenant ON audit USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
ALTER TABLE audit_head ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_head FORCE ROW LEVEL SECURITY;
CREATE POLICY audit_tenant ON audit_head USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
