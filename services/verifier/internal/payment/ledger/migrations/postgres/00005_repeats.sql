-- How often a settling was asked for again, in which months a settlement is
-- reserved for that, and when a payment that is not settled was last looked up on the chain.
-- +goose Up
ALTER TABLE payments ADD COLUMN repeats BIGINT NOT NULL DEFAULT 0;
ALTER TABLE payments ADD COLUMN again TEXT NOT NULL DEFAULT '';
ALTER TABLE payments ADD COLUMN looked BIGINT NOT NULL DEFAULT 0;
