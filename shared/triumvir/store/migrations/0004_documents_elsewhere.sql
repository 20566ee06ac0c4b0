-- Why: documents may live in another database. A service that looked for them in the wrong place would find none and
-- set every order aside, so the state repository remembers where they are, and how far the two were compared.

-- No row: the documents are here. One row: they are in the database of that id, and every document there up to the
-- mark has its state record. The mark is restored together with the state records that it speaks of.
create table documents_elsewhere (
    only_one         boolean     primary key default true check (only_one),
    id               uuid        not null,
    checked_at       timestamptz not null default 'epoch',
    checked_client   text        not null default '',
    checked_order_id text        not null default ''
);
