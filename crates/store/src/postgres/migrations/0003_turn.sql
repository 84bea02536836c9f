-- Whose turn it is: what only one of several processes does at a time, such as removing expired keys.
CREATE TABLE turn (
    name    text   NOT NULL,
    -- Whoever asks first after this has the next turn.
    next_ms bigint NOT NULL,
    PRIMARY KEY (name)
);
