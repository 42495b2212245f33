-- +goose Up
-- Since when an admin has closed the account, and from when a guest's is closed (Unix seconds); NULL: it is not.
ALTER TABLE users ADD COLUMN disabled_at BIGINT;
ALTER TABLE users ADD COLUMN ends_at BIGINT;
ALTER TABLE links ADD COLUMN ends_at BIGINT; -- of the user whom an invite creates

-- Who had the name and is still here, under another: nobody else gets it. NULL: a deleted user had it.
ALTER TABLE former_usernames ADD COLUMN user_id BIGINT;

ALTER TABLE users ADD COLUMN picture TEXT NOT NULL DEFAULT ''; -- SHA-256 of the user's, hexadecimal; '': none
CREATE TABLE user_pictures (
    user_id BIGINT PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    jpeg    BYTEA NOT NULL
);

-- +goose Down
DROP TABLE user_pictures;
ALTER TABLE users DROP COLUMN picture;
ALTER TABLE former_usernames DROP COLUMN user_id;
ALTER TABLE links DROP COLUMN ends_at;
ALTER TABLE users DROP COLUMN ends_at;
ALTER TABLE users DROP COLUMN disabled_at;
