-- What operators decided and what was paid back elsewhere. Both are only ever added to.
-- +goose Up
CREATE TABLE decisions (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payment    BIGINT NOT NULL,
    at         BIGINT NOT NULL, -- Unix milliseconds
    by_whom    TEXT NOT NULL,
    from_state TEXT NOT NULL,
    to_state   TEXT NOT NULL,
    tx         TEXT NOT NULL,
    note       TEXT NOT NULL
);
CREATE TABLE refunds (
    id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payment BIGINT NOT NULL,
    at      BIGINT NOT NULL, -- Unix milliseconds
    by_whom TEXT NOT NULL,
    tx      TEXT NOT NULL,
    amount  TEXT NOT NULL,
    proven  BIGINT NOT NULL, -- 1: a node showed the transfer
    note    TEXT NOT NULL,
    UNIQUE (payment, tx)
);
CREATE INDEX decisions_payment ON decisions (payment);
CREATE INDEX refunds_tx ON refunds (tx);
-- +goose StatementBegin
CREATE FUNCTION only_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% are only added', TG_TABLE_NAME;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER decisions_kept BEFORE UPDATE OR DELETE ON decisions FOR EACH ROW EXECUTE FUNCTION only_added();
CREATE TRIGGER refunds_kept BEFORE UPDATE OR DELETE ON refunds FOR EACH ROW EXECUTE FUNCTION only_added();
