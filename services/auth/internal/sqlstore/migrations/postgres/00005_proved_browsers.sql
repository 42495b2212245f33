-- +goose Up
-- When a login with this browser last had a second factor; NULL: none had.
ALTER TABLE known_browsers ADD COLUMN proved_at BIGINT;

-- +goose Down
ALTER TABLE known_browsers DROP COLUMN proved_at;
