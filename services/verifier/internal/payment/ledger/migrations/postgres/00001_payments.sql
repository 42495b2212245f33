-- +goose Up
CREATE TABLE payments (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    network      TEXT NOT NULL,
    asset        TEXT NOT NULL,
    payer        TEXT NOT NULL,
    nonce        TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('working', 'settling', 'settled', 'dead', 'unknown')),
    owner        TEXT NOT NULL,
    deadline     BIGINT NOT NULL, -- moments are Unix milliseconds
    payment      BYTEA NOT NULL,
    request      BYTEA NOT NULL,
    identifier   TEXT NOT NULL,
    resource     TEXT NOT NULL,
    amount       TEXT NOT NULL,
    pay_to       TEXT NOT NULL,
    valid_before BIGINT NOT NULL,
    month        TEXT NOT NULL DEFAULT '',
    tx           TEXT NOT NULL DEFAULT '',
    reason       TEXT NOT NULL DEFAULT '',
    claimed      BIGINT NOT NULL,
    changed      BIGINT NOT NULL,
    check_at     BIGINT NOT NULL DEFAULT 0,
    UNIQUE (nonce, payer, asset, network)
);
CREATE INDEX payments_open ON payments (check_at) WHERE state IN ('working', 'settling', 'unknown');
CREATE INDEX payments_identifier ON payments (payer, identifier) WHERE identifier <> '';
CREATE INDEX payments_claimed ON payments (claimed);
-- What was sold, apart, so that a payment's last change need not write it again.
CREATE TABLE answers (payment BIGINT PRIMARY KEY, claimed BIGINT NOT NULL, answer BYTEA NOT NULL);
CREATE INDEX answers_claimed ON answers (claimed);
CREATE TABLE settlements (month TEXT PRIMARY KEY, reserved BIGINT NOT NULL);
CREATE TABLE owners (id TEXT PRIMARY KEY, alive_until BIGINT NOT NULL);
