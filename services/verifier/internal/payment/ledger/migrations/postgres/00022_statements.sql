-- What an operator has closed a month with, a row for each token; of a month without sales one
-- with no network. It is only ever added to: what changes afterwards is a correction.
-- +goose Up
CREATE TABLE statements (
    month    TEXT NOT NULL,
    network  TEXT NOT NULL,
    asset    TEXT NOT NULL,
    payments BIGINT NOT NULL,
    amount   TEXT NOT NULL,
    refunded TEXT NOT NULL,
    closed   BIGINT NOT NULL, -- Unix milliseconds
    by_whom  TEXT NOT NULL,
    PRIMARY KEY (month, network, asset)
);
CREATE TRIGGER statements_kept BEFORE UPDATE OR DELETE ON statements FOR EACH ROW EXECUTE FUNCTION only_added();
