-- +goose Up
-- AUTOINCREMENT: an id is never given again, also after a deletion.
CREATE TABLE users (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    username      TEXT    NOT NULL,
    display_name  TEXT    NOT NULL,
    password_hash TEXT    NOT NULL,
    avatar_color  TEXT    NOT NULL,
    role          TEXT    NOT NULL CHECK (role IN ('admin', 'member')),
    created_at    INTEGER NOT NULL -- Unix seconds
);

CREATE UNIQUE INDEX users_username ON users (lower(username));
CREATE INDEX users_admins ON users (id) WHERE role = 'admin';

-- What the session store has yet to follow; no foreign key, because the user
-- may be gone.
CREATE TABLE pending_revocations (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id      INTEGER NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('sessions', 'role')),
    keep_session TEXT    NOT NULL,
    recorded_at  INTEGER NOT NULL -- Unix seconds
);

-- +goose Down
DROP TABLE pending_revocations;
DROP TABLE users;
