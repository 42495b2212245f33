-- +goose Up
-- A session is its user's while it was made under session_stamp or its key is
-- kept_session. Users and sessions of before have the empty stamp.
ALTER TABLE users ADD COLUMN session_stamp TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN kept_session TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE users DROP COLUMN kept_session;
ALTER TABLE users DROP COLUMN session_stamp;
