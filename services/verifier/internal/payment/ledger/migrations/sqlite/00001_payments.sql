-- +goose Up
CREATE TABLE payments (
    id           INTEGER PRIMARY KEY,
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
    month        TEXT NOT NULL DEFAULT '',
    tx           TEXT NOT NULL DEFAULT '',
    reason       TEXT NOT NULL DEFAULT '',
    claimed      INTEGER NOT NULL,
    changed      INTEGER NOT NULL,
    check_at     INTEGER NOT NULL DEFAULT 0,
    UNIQUE (nonce, payer, asset, network)
);
CREATE INDEX payments_open ON payments (check_at) WHERE state IN ('working', 'settling', 'unknown');
CREATE INDEX payments_identifier ON payments (payer, identifier) WHERE identifier <> '';
CREATE INDEX payments_claimed ON payments (claimed);
-- What was sold, apart, so that a payment's last change need not write it again.
CREATE TABLE answers (payment INTEGER PRIMARY KEY, claimed INTEGER NOT NULL, answer BLOB NOT NULL);
CREATE INDEX answers_claimed ON answers (claimed);
CREATE TABLE settlements (month TEXT PRIMARY KEY, reserved INTEGER NOT NULL);
CREATE TABLE owners (id TEXT PRIMARY KEY, alive_until INTEGER NOT NULL);
