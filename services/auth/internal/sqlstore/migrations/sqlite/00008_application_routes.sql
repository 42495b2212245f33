-- +goose Up
-- Where the proxy finds an application. One without a row is led to by lines of the operator's, or not at all.
CREATE TABLE application_routes (
    application_id INTEGER PRIMARY KEY REFERENCES applications (id) ON DELETE CASCADE,
    upstream       TEXT NOT NULL, -- http://host:port or https://host:port
    strip          INTEGER NOT NULL DEFAULT 0,
    user_header    TEXT NOT NULL DEFAULT '',
    tls_pin        TEXT NOT NULL DEFAULT '', -- SHA-256 of the public key, hexadecimal; '' until a proxy has seen it
    recipe         TEXT NOT NULL DEFAULT '',
    changed_at     INTEGER NOT NULL,
    changed_by     INTEGER NOT NULL -- no foreign key, because that admin may be gone; 0: a command
);

CREATE TABLE application_icons (
    application_id INTEGER PRIMARY KEY REFERENCES applications (id) ON DELETE CASCADE,
    sha256         TEXT NOT NULL, -- of png, hexadecimal
    png            BLOB NOT NULL
);
CREATE INDEX application_icons_sha256 ON application_icons (sha256);

-- Whether anybody has been led to the application yet. Those that are there by now have been.
ALTER TABLE applications ADD COLUMN reached INTEGER NOT NULL DEFAULT 1;

-- +goose Down
ALTER TABLE applications DROP COLUMN reached;
DROP TABLE application_icons;
DROP TABLE application_routes;
