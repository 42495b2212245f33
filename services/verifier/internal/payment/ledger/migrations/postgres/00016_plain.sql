-- plain is 1 where the payer's own key signed. Any other copy may be made by anyone who knows
-- the payer's address, so its failures do not count against the payer's own copies. Until money has moved
-- by it, its nonce is followed by + and its digest. Rows of before cannot be told apart: 1.
-- +goose Up
ALTER TABLE payments ADD COLUMN plain BIGINT NOT NULL DEFAULT 1;
