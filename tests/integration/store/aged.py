"""A database as it is after a million orders: nearly all of them finished, some thousands alive."""

from __future__ import annotations

from typing import Final

import asyncpg

from tests.servers import SCHEMA

FINISHED: Final = 1_000_000
WAITING: Final = 2_000
BEGUN: Final = 500
RUNNING: Final = 1_000
HELD: Final = 500
COMMANDS_TAKEN: Final = 50_000
COMMANDS_WAITING: Final = 200
UNSENT: Final = 20_000
LETTERS_SETTLED: Final = 50_000
LETTERS_OPEN: Final = 500
REPLAYS: Final = 100
REPLIES_DUE: Final = 500
BEGUN_BY_AGENTS: Final = 50_000
PURGED: Final = 20_000
RETENTION: Final = '{"retention_days": 300}'
"""Of the workflow of all orders: a quarter of them is due."""

_ORDER: Final = """
    insert into orders (client, order_id, workflow, version, digest, state, fence, attempt, step, rank, status_queue,
                        sequence, history, locked_by, complete_by, wake_at, held_by, ended_at)
    select 'client-' || lpad((n * 20 / $1)::text, 2, '0'), {prefix} || lpad(n::text, 8, '0'), 'shop', 1, '\\x00',
           {columns} from generate_series(0, $1 - 1) as n
"""
_ALIVE: Final = "'status.x', 3, 4,"
_ENDED: Final = "clock_timestamp() - n % 400 * interval '1 d'"
_FINISHED: Final = f"'processed', n, 1, 3, n, {_ALIVE} null, null, null, null, {_ENDED}"
_WAITING: Final = f"'pending', 0, 0, null, n, {_ALIVE} null, null, null, null, null"
_BEGUN: Final = f"'pending', n, 1, 1, n, {_ALIVE} null, null, null, null, null"
_RUNNING: Final = f"""
    'processing', n, 1, 1, n, {_ALIVE} gen_random_uuid(), clock_timestamp() + (n - $1 / 2) * interval '1 s',
    clock_timestamp() + (n - $1 / 3) * interval '1 s', null, null
"""
_HELD: Final = f"'pending', 0, 0, null, n, {_ALIVE} null, null, null, 'agent:a' || n % 5, null"
_INBOX: Final = """
    insert into inbox (no, step_no, direction, fence, state, calls, reply, early, early_fence, reply_due, complete_by)
    select no, 1, 'do', 1, 'succeeded', 1, '{}', '{}', 1,
           case when n <= $1 then clock_timestamp() - n * interval '1 s' end,
           case when n <= $2 then ended_at end
    from (select no, ended_at, row_number() over (order by no) as n from orders where state = 'processed') as o
"""
_LETTERS: Final = """
    insert into dead_letters (id, queue, reason, detail, client, headers, body, settlement, settled_at,
                              replay_asked_at)
    select gen_random_uuid(), 'orders', 'invalid', 'x', 'client-00', '{}', '\\x00',
           case when n > $2 then 'discarded' end, case when n > $2 then clock_timestamp() end,
           case when n <= $3::int then clock_timestamp() end
    from generate_series(1, $1::int + $2::int) as n
"""


async def fill(url: str) -> None:
    """Orders with a step each, in every state, commands, letters, outbox rows; then what autovacuum would have done."""
    connection = await asyncpg.connect(
        url, server_settings={"search_path": SCHEMA, "synchronous_commit": "off"}
    )
    try:
        for prefix, count, columns in (
            ("'done-'", FINISHED, _FINISHED),
            ("'waiting-'", WAITING, _WAITING),
            ("'begun-'", BEGUN, _BEGUN),
            ("'running-'", RUNNING, _RUNNING),
            ("'held-'", HELD, _HELD),
        ):
            await connection.execute(_ORDER.format(prefix=prefix, columns=columns), count)
        await connection.execute(_INBOX, REPLIES_DUE, BEGUN_BY_AGENTS)
        await connection.execute(
            "insert into steps (no, step_no, attempt, state, effect, result)"
            " select no, 1, 1, 'completed', 'certain', '{}' from orders where state = 'processed' order by no"
        )
        await connection.execute(
            "insert into workflows (name, version, definition, digest) values ('shop', 1, $1, sha256('x'))",
            RETENTION,
        )
        await connection.execute(
            "update orders set purged_at = clock_timestamp() - no % 100 * interval '1 d', document_left = no % 1000 = 0"
            " where no <= $1",
            PURGED,
        )
        await connection.execute(
            "insert into commands (client, order_id, message_id, kind, taken_at)"
            " select client, order_id, order_id, 'cancel', clock_timestamp() from orders order by no limit $1",
            COMMANDS_TAKEN,
        )
        await connection.execute(
            "insert into commands (client, order_id, message_id, kind)"
            " select client, order_id, order_id, 'cancel' from orders where state = 'processing' limit $1",
            COMMANDS_WAITING,
        )
        await connection.execute(
            "insert into outbox (lease, refs)"
            " select clock_timestamp() + (n - $1 / 2) * interval '1 s', '[]' from generate_series(1, $1) as n",
            UNSENT,
        )
        await connection.execute(_LETTERS, LETTERS_SETTLED, LETTERS_OPEN, REPLAYS)
        await connection.execute("vacuum analyze")
    finally:
        await connection.close()
