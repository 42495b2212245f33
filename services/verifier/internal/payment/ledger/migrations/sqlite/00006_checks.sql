-- Up to which claim the payments that have ended were compared with the chain
-- again, and until when a process does that. Those of before are not looked at.
-- +goose Up
CREATE TABLE checks (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    up_to     INTEGER NOT NULL, -- Unix milliseconds
    taken_for INTEGER NOT NULL  -- Unix milliseconds
);
INSERT INTO checks (id, up_to, taken_for) SELECT 1, COALESCE(max(claimed), 0), 0 FROM payments;
