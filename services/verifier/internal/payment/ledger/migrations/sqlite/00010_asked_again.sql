-- The index finds what a payer has bought for the same request. asked_again counts how
-- often a payer got the answer of an earlier payment on a day (Unix milliseconds of its
-- beginning).
-- +goose Up
CREATE INDEX payments_asked ON payments (payer, request, claimed) WHERE (state = 'settled' OR state = 'settling' OR state = 'unknown');
CREATE TABLE asked_again (payer TEXT NOT NULL, day INTEGER NOT NULL, times INTEGER NOT NULL, PRIMARY KEY (payer, day));
