"""A submission that meets its key in the moment in which that is forgotten: it becomes an order, with its document."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final
from uuid import uuid4

import pytest

from tests.integration.supervision.conftest import Desk
from tests.integration.supervision.test_purge import WEEK, Shelf
from triumvir.runtime import acceptance
from triumvir.store.acceptance import Acceptance
from triumvir.store.acceptance import Desk as Acceptor
from triumvir.store.operators import apply_workflow
from triumvir.store.session import Session
from triumvir_submitter import accept as accepting
from triumvir_submitter.accept import Accepted, accept
from triumvir_submitter.batch import Sorted
from triumvir_submitter.door import Door, Prepared

KEY: Final = ("shop", "one")


def submitted(digest: bytes) -> Any:
    made_of = Acceptance(*KEY, digest, "week", 1, 0, None, False, "status.shop", None)
    payload = SimpleNamespace(payload=SimpleNamespace(text='{"again":1}'))
    return SimpleNamespace(key=KEY, acceptance=made_of, digest=digest, message=payload)


async def test_an_order_that_is_made_as_its_key_is_forgotten_has_its_document(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The submitter found the empty document; before it looks for the order, both are gone."""
    await apply_workflow(desk.db, WEEK)
    shelf = Shelf(desk)
    await shelf.put(KEY[1], 8)
    await shelf.purge().step()
    await desk.db.execute("update orders set purged_at = purged_at - interval '91 d'")
    create = acceptance.create

    async def forgotten_before(connection: Any, acceptances: Any, *more: Any) -> Any:
        if not more[1:]:
            await shelf.purge().step()
            assert await desk.db.fetchval("select count(*) from orders") == 0
        return await create(connection, acceptances, *more)

    monkeypatch.setattr(accepting, "create", forgotten_before)
    digest = await desk.db.fetchval("select digest from order_documents")
    submitter = Session(desk.settings, "submitter")
    async with submitter.transaction() as connection:
        accepted = await accept(connection, [submitted(digest)], 0, Acceptor(uuid4(), "test", 10))
    assert [fact.status for fact in accepted.new] == ["received"]
    assert await desk.db.fetchval("select payload from order_documents") == '{"again":1}'
    for session in (submitter, *shelf.sessions):
        await session.close()


@pytest.mark.parametrize("written", [False, True], ids=["was there before", "was written for it"])
async def test_with_two_databases_a_document_that_was_there_before_is_written_again_after_its_order_is_made(
    desk: Desk, written: bool
) -> None:
    deposited: list[Any] = []

    class Documents:
        async def deposit(self, documents: Any, wanted: Any) -> None:
            deposited.extend(documents)

    nothing: Any = None
    documents: Any = Documents()
    door = Door(nothing, nothing, nothing, desk.settings, uuid4(), documents)
    one = submitted(b"d" * 32)
    prepared = Prepared(Sorted(submissions=[one]), {}, frozenset({KEY} if written else ()))
    new: Any = SimpleNamespace(client=KEY[0], order_id=KEY[1])
    await door._deposit_again(Accepted(new=[new]), prepared)
    assert deposited == ([] if written else [(one.acceptance, '{"again":1}')])
