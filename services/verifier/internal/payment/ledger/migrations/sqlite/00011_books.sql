-- What operators decided and what was paid back elsewhere. Both are only ever added to.
-- +goose Up
CREATE TABLE decisions (
    id         INTEGER PRIMARY KEY,
    payment    INTEGER NOT NULL,
    at         INTEGER NOT NULL, -- Unix milliseconds
    by_whom    TEXT NOT NULL,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    tx         TEXT NOT NULL,
    note       TEXT NOT NULL
);
CREATE TABLE refunds (
    id      INTEGER PRIMARY KEY,
    payment INTEGER NOT NULL,
    at      INTEGER NOT NULL, -- Unix milliseconds
    by_whom TEXT NOT NULL,
    tx      TEXT NOT NULL,
    amount  TEXT NOT NULL,
    proven  INTEGER NOT NULL, -- 1: a node showed the transfer
    note    TEXT NOT NULL,
    UNIQUE (payment, tx)
);
CREATE INDEX decisions_payment ON decisions (payment);
CREATE INDEX refunds_tx ON refunds (tx);
-- +goose StatementBegin
CREATE TRIGGER decisions_update BEFORE UPDATE ON decisions BEGIN SELECT RAISE(ABORT, 'decisions are only added'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER decisions_delete BEFORE DELETE ON decisions BEGIN SELECT RAISE(ABORT, 'decisions are only added'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER refunds_update BEFORE UPDATE ON refunds BEGIN SELECT RAISE(ABORT, 'refunds are only added'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER refunds_delete BEFORE DELETE ON refunds BEGIN SELECT RAISE(ABORT, 'refunds are only added'); END;
-- +goose StatementEnd
