-- +goose Up
-- How a user proves who they are beside the password. A user without a row has no
-- second factor.
CREATE TABLE user_factors (
    user_id           INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    enabled_at        INTEGER,                    -- NULL: a password alone logs in
    totp_sealed       BLOB,                   -- AES-256-GCM, additional data: the user's id
    totp_confirmed_at INTEGER,                    -- NULL: the set-up is not finished
    totp_last_step    INTEGER NOT NULL DEFAULT 0, -- the step of the last code accepted (RFC 6238, section 5.2)
    handle            BLOB UNIQUE,            -- WebAuthn user handle, 64 random bytes, made once
    notices_seen_at   INTEGER NOT NULL DEFAULT 0,
    reset_asked_at    INTEGER                     -- an open request for a new password
);

CREATE TABLE recovery_codes (
    user_id   INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    code_hash TEXT NOT NULL, -- SHA-256, hexadecimal
    used_at   INTEGER,
    PRIMARY KEY (user_id, code_hash)
);

CREATE TABLE passkeys (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id       INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    credential_id BLOB NOT NULL UNIQUE,
    rp_id         TEXT NOT NULL,
    name          TEXT NOT NULL,
    record        TEXT NOT NULL, -- webauthn.Credential as JSON
    sign_count    INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    last_used_at  INTEGER
);
CREATE INDEX passkeys_user ON passkeys (user_id);

-- Links that one person may use once. The token itself is not stored.
CREATE TABLE links (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    kind         TEXT NOT NULL CHECK (kind IN ('invite', 'reset', 'setup')),
    token_hash   TEXT NOT NULL UNIQUE, -- SHA-256, hexadecimal
    user_id      INTEGER REFERENCES users (id) ON DELETE CASCADE, -- whose password a reset sets
    username     TEXT NOT NULL DEFAULT '', -- of an invite; empty: the person chooses
    display_name TEXT NOT NULL DEFAULT '',
    role         TEXT NOT NULL DEFAULT 'member' CHECK (role IN ('admin', 'member')),
    group_slugs  TEXT NOT NULL DEFAULT '',
    created_by   INTEGER NOT NULL, -- 0: the operator; no foreign key, because that user may be gone
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    used_at      INTEGER,
    void_at      INTEGER
);
CREATE INDEX links_user ON links (user_id);

CREATE TABLE known_browsers (
    user_id       INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    hash          TEXT NOT NULL, -- SHA-256 of the cookie's value, hexadecimal
    label         TEXT NOT NULL,
    first_seen_at INTEGER NOT NULL,
    last_seen_at  INTEGER NOT NULL,
    PRIMARY KEY (user_id, hash)
);

-- Names are kept as they were; no foreign keys, because users may be gone.
CREATE TABLE audit (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    at           INTEGER NOT NULL,
    event        TEXT NOT NULL,
    actor_kind   TEXT NOT NULL CHECK (actor_kind IN ('user', 'operator', 'token', 'system', 'anonymous')),
    actor_id     INTEGER NOT NULL DEFAULT 0,
    actor_name   TEXT NOT NULL DEFAULT '',
    subject_id   INTEGER NOT NULL DEFAULT 0,
    subject_name TEXT NOT NULL DEFAULT '',
    ip           TEXT NOT NULL DEFAULT '',
    agent        TEXT NOT NULL DEFAULT '',
    request_id   TEXT NOT NULL DEFAULT '',
    session_key  TEXT NOT NULL DEFAULT '',
    detail       TEXT NOT NULL DEFAULT '', -- a JSON object, or empty
    count        INTEGER NOT NULL DEFAULT 1,
    bucket       TEXT UNIQUE -- of events that are counted instead of repeated
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_subject ON audit (subject_id, at);

CREATE TABLE household (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- +goose Down
DROP TABLE household;
DROP TABLE audit;
DROP TABLE known_browsers;
DROP TABLE links;
DROP TABLE passkeys;
DROP TABLE recovery_codes;
DROP TABLE user_factors;
