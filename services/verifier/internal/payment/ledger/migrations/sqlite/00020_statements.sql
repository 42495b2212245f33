-- What an operator has closed a month with, a row for each token; of a month without sales one
-- with no network. It is only ever added to: what changes afterwards is a correction.
-- +goose Up
CREATE TABLE statements (
    month    TEXT NOT NULL,
    network  TEXT NOT NULL,
    asset    TEXT NOT NULL,
    payments INTEGER NOT NULL,
    amount   TEXT NOT NULL,
    refunded TEXT NOT NULL,
    closed   INTEGER NOT NULL, -- Unix milliseconds
    by_whom  TEXT NOT NULL,
    PRIMARY KEY (month, network, asset)
);
-- +goose StatementBegin
CREATE TRIGGER statements_update BEFORE UPDATE ON statements BEGIN SELECT RAISE(ABORT, 'statements are only added'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER statements_delete BEFORE DELETE ON statements BEGIN SELECT RAISE(ABORT, 'statements are only added'); END;
-- +goose StatementEnd
