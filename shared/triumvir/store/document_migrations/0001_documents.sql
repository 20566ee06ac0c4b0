-- Why: what clients sent may live in a database of its own, with backups and a size of its own. Beside each payload
-- stands what a state record is made of, because the two databases have no common commit: whoever finds a document
-- without a state record can create the one that is missing.

-- Immutable. What comes after `at` is null in documents that were moved here: they have their state records.
create table order_documents (
    client       text        not null,
    order_id     text        not null,
    payload      text        not null,
    digest       bytea       not null check (octet_length(digest) = 32),
    at           timestamptz not null default clock_timestamp(),
    workflow     text,
    version      integer,
    priority     integer,
    not_before   timestamptz,
    progress     boolean,
    status_queue text,
    trace        text,
    primary key (client, order_id),
    constraint an_order_can_be_made_or_was check (
        (workflow is null) = (version is null) and (workflow is null) = (priority is null)
        and (workflow is null) = (progress is null) and (workflow is null) = (status_queue is null))
);
-- By age, for whoever looks for documents without a state record.
create index order_documents_at on order_documents (at, client, order_id);

-- One row: the name by which a state repository knows the database of its documents.
create table document_store (
    only_one boolean primary key default true check (only_one),
    id       uuid    not null default gen_random_uuid()
);
insert into document_store default values;
