-- +goose Up
CREATE TABLE payments (
    network      TEXT NOT NULL,
    asset        TEXT NOT NULL,
    payer        TEXT NOT NULL,
    nonce        TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('working', 'settling', 'settled', 'dead', 'unknown')),
    owner        TEXT NOT NULL,
    deadline     INTEGER NOT NULL, -- moments are Unix milliseconds
    payment      BLOB NOT NULL,
    request      BLOB NOT NULL,
    identifier   TEXT NOT NULL,
    resource     TEXT NOT NULL,
    amount       TEXT NOT NULL,
    pay_to       TEXT NOT NULL,
    valid_before INTEGER NOT NULL,
    call         BLOB,
    answer       BLOB,
    month        TEXT NOT NULL DEFAULT '',
    tx           TEXT NOT NULL DEFAULT '',
    reason       TEXT NOT NULL DEFAULT '',
    claimed      INTEGER NOT NULL,
    changed      INTEGER NOT NULL,
    check_at     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (network, asset, payer, nonce)
);
CREATE INDEX payments_open ON payments (check_at) WHERE state IN ('working', 'settling', 'unknown');
CREATE INDEX payments_identifier ON payments (payer, identifier) WHERE identifier <> '';
CREATE INDEX payments_claimed ON payments (claimed);
CREATE INDEX payments_answered ON payments (changed) WHERE answer IS NOT NULL;
CREATE TABLE settlements (month TEXT PRIMARY KEY, reserved INTEGER NOT NULL);
CREATE TABLE owners (id TEXT PRIMARY KEY, alive_until INTEGER NOT NULL);
