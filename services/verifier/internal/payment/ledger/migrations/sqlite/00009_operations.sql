-- What was sold and over which protocol. Rows without an operation are of before: the
-- last part of their resource names it.
-- +goose Up
ALTER TABLE payments ADD COLUMN operation TEXT NOT NULL DEFAULT '';
ALTER TABLE payments ADD COLUMN transport TEXT NOT NULL DEFAULT 'http';
