-- +goose Up
-- Devices without a browser log users in by a code (RFC 8628).
ALTER TABLE oidc_clients ADD COLUMN device BOOLEAN NOT NULL DEFAULT FALSE;

-- Each login at an application counts the live ones of its user, and ends the oldest of too many.
CREATE INDEX oidc_grants_live ON oidc_grants (user_id, created_at, id, application_id, login) WHERE ended_at IS NULL;

-- +goose Down
DROP INDEX oidc_grants_live;
ALTER TABLE oidc_clients DROP COLUMN device;
