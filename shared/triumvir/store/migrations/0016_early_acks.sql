-- Why: a request that may take longer than the broker waits for an acknowledgement is acknowledged as soon as it is
-- begun. From then on its inbox row is all there is, and the outbox of its reply. Processes of the release before write
-- none of these columns, and what they leave in them belongs to an older fence.

-- What a reply needs beside the row, as JSON, and the fence that it is for; null for requests that are acknowledged
-- after their reply.
alter table inbox add column early text;
alter table inbox add column early_fence bigint;
-- From when on somebody else publishes the reply: set with the outcome, moved by whoever does it, null once it is
-- confirmed. Nothing that other requests change is in the index.
alter table inbox add column reply_due timestamptz;
alter table inbox add column replied_at timestamptz;
create index inbox_reply_due on inbox (reply_due) where reply_due is not null;
