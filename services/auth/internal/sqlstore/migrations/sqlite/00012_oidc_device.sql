-- +goose Up
-- Devices without a browser log users in by a code (RFC 8628).
ALTER TABLE oidc_clients ADD COLUMN device INTEGER NOT NULL DEFAULT 0;

-- Each login at an application looks for the oldest live grants of its user, and of its session, where there are too
-- many; a logout looks for those of its session. Ended ones stay for a month, and are in neither index.
CREATE INDEX oidc_grants_live ON oidc_grants (user_id, created_at, id) WHERE ended_at IS NULL;
DROP INDEX oidc_grants_login;
CREATE INDEX oidc_grants_login ON oidc_grants (login, application_id, created_at, id) WHERE ended_at IS NULL;

-- +goose Down
DROP INDEX oidc_grants_login;
CREATE INDEX oidc_grants_login ON oidc_grants (login);
DROP INDEX oidc_grants_live;
ALTER TABLE oidc_clients DROP COLUMN device;
