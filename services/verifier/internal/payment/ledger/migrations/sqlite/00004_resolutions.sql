-- Who decided by hand what became of a payment, and why.
-- +goose Up
CREATE TABLE resolutions (
    id         INTEGER PRIMARY KEY,
    payment    INTEGER NOT NULL,
    at         INTEGER NOT NULL, -- Unix milliseconds
    by_whom    TEXT NOT NULL,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    tx         TEXT NOT NULL,
    why        TEXT NOT NULL
);
