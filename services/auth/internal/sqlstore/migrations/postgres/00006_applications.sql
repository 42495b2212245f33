-- +goose Up
-- "groups" is a keyword of both dialects.
CREATE TABLE user_groups (
    id   BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    slug TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL
);

CREATE TABLE group_members (
    group_id BIGINT NOT NULL REFERENCES user_groups (id) ON DELETE CASCADE,
    user_id  BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    PRIMARY KEY (group_id, user_id)
);
CREATE INDEX group_members_user ON group_members (user_id);

-- What stands behind the guard, and who may use it.
CREATE TABLE applications (
    id            BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    slug          TEXT NOT NULL UNIQUE,
    name          TEXT NOT NULL,
    description   TEXT NOT NULL DEFAULT '',
    url           TEXT NOT NULL UNIQUE, -- /path/, or an origin in its one spelling
    rule          TEXT NOT NULL CHECK (rule IN ('login', 'admin', 'group')),
    group_id      BIGINT REFERENCES user_groups (id), -- no CASCADE: a rule does not lose its group
    second_factor BOOLEAN NOT NULL DEFAULT FALSE,
    tokens        BOOLEAN NOT NULL DEFAULT FALSE,
    color         TEXT NOT NULL,
    position      BIGINT NOT NULL DEFAULT 0,
    CHECK ((rule = 'group') = (group_id IS NOT NULL))
);
CREATE INDEX applications_group ON applications (group_id);

-- App tokens. The token itself is not stored.
CREATE TABLE app_tokens (
    id           BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    token_hash   TEXT NOT NULL UNIQUE, -- SHA-256, hexadecimal
    prefix       TEXT NOT NULL,        -- what is shown of the token
    name         TEXT NOT NULL,
    user_id      BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_by   BIGINT NOT NULL, -- no foreign key, because that admin may be gone
    read_only    BOOLEAN NOT NULL DEFAULT FALSE,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT, -- NULL: never
    revoked_at   BIGINT,
    last_used_at BIGINT
);
CREATE INDEX app_tokens_user ON app_tokens (user_id);

-- By id, so that a new application with the slug of a deleted one has no tokens.
CREATE TABLE app_token_scopes (
    token_id       BIGINT NOT NULL REFERENCES app_tokens (id) ON DELETE CASCADE,
    application_id BIGINT NOT NULL REFERENCES applications (id) ON DELETE CASCADE,
    PRIMARY KEY (token_id, application_id)
);
CREATE INDEX app_token_scopes_application ON app_token_scopes (application_id);

-- +goose Down
DROP TABLE app_token_scopes;
DROP TABLE app_tokens;
DROP TABLE applications;
DROP TABLE group_members;
DROP TABLE user_groups;
