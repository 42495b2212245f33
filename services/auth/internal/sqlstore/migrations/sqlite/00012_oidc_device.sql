-- +goose Up
-- Devices without a browser log users in by a code (RFC 8628).
ALTER TABLE oidc_clients ADD COLUMN device INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE oidc_clients DROP COLUMN device;
