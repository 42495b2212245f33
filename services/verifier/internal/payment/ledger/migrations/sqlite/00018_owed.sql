-- owed is 1 where a payment was settled while no call waited for its answer: the payer gets it
-- for another payment too, however often they have asked again.
-- +goose Up
ALTER TABLE payments ADD COLUMN owed INTEGER NOT NULL DEFAULT 0;
