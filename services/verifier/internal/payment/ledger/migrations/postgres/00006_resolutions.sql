-- Who decided by hand what became of a payment, and why.
-- +goose Up
CREATE TABLE resolutions (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payment    BIGINT NOT NULL,
    at         BIGINT NOT NULL, -- Unix milliseconds
    by_whom    TEXT NOT NULL,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    tx         TEXT NOT NULL,
    why        TEXT NOT NULL
);
