-- +goose Up
ALTER TABLE notice ENABLE ROW LEVEL SECURITY;
ALTER TABLE notice FORCE ROW LEVEL SECURITY;
CREATE POLICY notice_tenant ON notice USING (current_setting('drawbridge.scope', true) IN ('*', '=' || tenant));
