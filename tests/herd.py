"""Orders whose deadline passed together, as an outage leaves them: rows with everything that belongs to them."""

from __future__ import annotations

from typing import Final

import asyncpg

from triumvir.runtime import refs
from triumvir.runtime.refs import StatusRef

_PER_OUTBOX_ROW: Final = 50
_ORDERS: Final = """
    with documents as (
        insert into order_documents (client, order_id, payload, digest, at)
        select $1, $2 || n, $5, sha256(convert_to($2 || n, 'UTF8')), clock_timestamp() - interval '1 hour'
        from generate_series(1, $3::int) n returning order_id, digest
    )
    insert into orders (client, order_id, workflow, version, digest, state, locked_by, fence, attempt, step, sent_at,
                        complete_by, rank, sequence, history, status_queue, received_at)
    select $1, order_id, $4, 1, digest, 'processing', gen_random_uuid(), 1000, 1, 1,
           clock_timestamp() - interval '59 minutes', clock_timestamp() - interval '58 minutes',
           (extract(epoch from clock_timestamp() - interval '1 hour') * 1000000)::bigint, 1, 2, 'status.' || $1,
           clock_timestamp() - interval '1 hour'
    from documents returning no
"""
_STEPS: Final = """
    insert into steps (no, step_no, attempt, state) select unnest($1::bigint[]), 1, 1, 'running'
"""
_HISTORY: Final = """
    insert into transitions (no, n, at, who, from_state, to_state, why, step_no, status, sequence)
    select no, row.* from unnest($1::bigint[]) as no, (values
        (1, clock_timestamp() - interval '1 hour', 'before', 'pending', 'pending', 'received', null::smallint,
         'received', 1),
        (2, clock_timestamp() - interval '59 minutes', 'before', 'pending', 'processing', 'run the first step',
         1::smallint, null, null)
    ) as row
"""
_INBOX: Final = """
    insert into inbox (no, step_no, direction, fence, owner, complete_by, state, calls, tries)
    select no, 1, 'do', 1000, gen_random_uuid(), clock_timestamp() - interval '58 minutes', 'running', 1, 1
    from unnest($1::bigint[]) as no
"""


async def make_herd(
    database: asyncpg.Connection,
    client: str,
    count: int,
    *,
    workflow: str,
    begun: bool = True,
    prefix: str = "herd-",
    payload: str = "{}",
    told: bool = True,
) -> list[int]:
    """``count`` orders of ``client``, ``<prefix><n>`` from 1, sent to an agent an hour ago and never answered;
    their numbers. ``begun``: an agent, dead since, called once for each. With ``told``, that each was received is in
    the outbox.
    """
    async with database.transaction():
        rows = await database.fetch(_ORDERS, client, prefix, count, workflow, payload)
        nos = sorted(row["no"] for row in rows)
        for statement in (_STEPS, _HISTORY, *([_INBOX] if begun else [])):
            await database.execute(statement, nos)
        await database.execute(
            "insert into admission (scope, instance, open) values ('orders', gen_random_uuid(), $1)", count
        )
        if told:
            pages = [nos[at : at + _PER_OUTBOX_ROW] for at in range(0, count, _PER_OUTBOX_ROW)]
            await database.execute(
                "insert into outbox (lease, refs) select clock_timestamp(), unnest($1::text[])",
                [refs.write([StatusRef(no, 1) for no in page]) for page in pages],
            )
    await database.execute("analyze orders, steps, inbox, outbox")
    return nos
