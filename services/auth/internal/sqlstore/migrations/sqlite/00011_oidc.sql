-- +goose Up
-- Applications that have users log in by OpenID Connect. The household has the issuer, under the key oidc_issuer.
CREATE TABLE oidc_clients (
    application_id INTEGER PRIMARY KEY REFERENCES applications (id) ON DELETE CASCADE,
    client_id      TEXT NOT NULL UNIQUE,
    public         INTEGER NOT NULL DEFAULT 0, -- it has no secret, and PKCE is its duty
    alg            TEXT NOT NULL CHECK (alg IN ('RS256', 'ES256')),
    pkce           TEXT NOT NULL CHECK (pkce IN ('auto', 'required')),
    group_claim    TEXT NOT NULL CHECK (group_claim IN ('asked', 'always', 'never')),
    email          INTEGER NOT NULL DEFAULT 1, -- users without an address are told with one of .invalid
    offline        INTEGER NOT NULL DEFAULT 0, -- refresh tokens without offline_access, too
    ask            INTEGER NOT NULL DEFAULT 0, -- the user is asked at each login
    logout_uri     TEXT NOT NULL DEFAULT '',   -- of back-channel logouts
    created_at     INTEGER NOT NULL
);

CREATE TABLE oidc_uris (
    application_id INTEGER NOT NULL REFERENCES oidc_clients (application_id) ON DELETE CASCADE,
    kind           TEXT NOT NULL CHECK (kind IN ('redirect', 'after_logout')),
    uri            TEXT NOT NULL,
    PRIMARY KEY (application_id, kind, uri)
);

-- The secret itself is not stored.
CREATE TABLE oidc_secrets (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    application_id INTEGER NOT NULL REFERENCES oidc_clients (application_id) ON DELETE CASCADE,
    hash           TEXT NOT NULL, -- SHA-256, hexadecimal
    hint           TEXT NOT NULL, -- its last four characters
    created_at     INTEGER NOT NULL,
    last_used_at   INTEGER
);
CREATE INDEX oidc_secrets_application ON oidc_secrets (application_id);

CREATE TABLE oidc_keys (
    kid    TEXT PRIMARY KEY,          -- RFC 7638
    alg    TEXT NOT NULL CHECK (alg IN ('RS256', 'ES256')),
    sealed BLOB NOT NULL,             -- PKCS #8 by AES-256-GCM, additional data: kid
    jwk    TEXT NOT NULL,             -- the public key, RFC 7517
    state  TEXT NOT NULL CHECK (state IN ('next', 'active', 'retired', 'revoked')),
    since  INTEGER NOT NULL           -- of the state
);

-- What a user's login at an application rests on: it holds while the user's row, this one and the rule say so.
CREATE TABLE oidc_grants (
    id             TEXT PRIMARY KEY, -- 128 random bits; the claim sid
    application_id INTEGER NOT NULL REFERENCES oidc_clients (application_id) ON DELETE CASCADE,
    user_id        INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    login          TEXT NOT NULL,    -- key of the session that the login made
    stamp          TEXT NOT NULL,    -- users.session_stamp at the login
    scopes         TEXT NOT NULL,    -- separated by spaces
    offline        INTEGER NOT NULL, -- it outlives the login, and has refresh tokens
    auth_time      INTEGER NOT NULL,
    factor         TEXT NOT NULL,
    generation     INTEGER NOT NULL DEFAULT 0, -- of the refresh token
    rotated_at     INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL,
    last_used_at   INTEGER NOT NULL,
    ended_at       INTEGER,
    reason         TEXT NOT NULL DEFAULT '' -- why it ended
);
CREATE INDEX oidc_grants_login ON oidc_grants (login);
CREATE INDEX oidc_grants_user ON oidc_grants (user_id);
CREATE INDEX oidc_grants_application ON oidc_grants (application_id);
CREATE INDEX oidc_grants_ended ON oidc_grants (ended_at);

-- Logouts to deliver. No foreign keys, because user, application and grant may be gone.
CREATE TABLE oidc_logouts (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    application_id INTEGER NOT NULL,
    client_id      TEXT NOT NULL,
    alg            TEXT NOT NULL,
    sub            TEXT NOT NULL,
    sid            TEXT NOT NULL,
    uri            TEXT NOT NULL,
    due_at         INTEGER NOT NULL,
    tries          INTEGER NOT NULL DEFAULT 0,
    lease_until    INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL
);
CREATE INDEX oidc_logouts_due ON oidc_logouts (due_at);

-- Logins that ended lately, so that no code under way becomes a grant of one.
CREATE TABLE oidc_ended_logins (
    login    TEXT PRIMARY KEY,
    ended_at INTEGER NOT NULL
);

-- When a user first logged in at an application.
CREATE TABLE oidc_first_logins (
    application_id INTEGER NOT NULL REFERENCES oidc_clients (application_id) ON DELETE CASCADE,
    user_id        INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    at             INTEGER NOT NULL,
    PRIMARY KEY (application_id, user_id)
);
CREATE INDEX oidc_first_logins_user ON oidc_first_logins (user_id);

-- +goose Down
DROP TABLE oidc_first_logins;
DROP TABLE oidc_ended_logins;
DROP TABLE oidc_logouts;
DROP TABLE oidc_grants;
DROP TABLE oidc_keys;
DROP TABLE oidc_secrets;
DROP TABLE oidc_uris;
DROP TABLE oidc_clients;
