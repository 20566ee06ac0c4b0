"""What cannot be rehearsed is said at once, with the fix."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.testing.troupe import SALE, Remote, till_of
from triumvir import Step, Workflow
from triumvir.errors import ConfigurationError, ContractError, DefinitionError
from triumvir.testing import Rehearsal


@pytest.fixture
def remote() -> Remote:
    return Remote()


@pytest.fixture
def rehearsal(remote: Remote) -> Rehearsal:
    return Rehearsal(SALE, agents=[till_of(remote)])


def unknown_step(rehearsal: Rehearsal) -> None:
    rehearsal.fail("pay", permanently="no")


def undo_of_none(rehearsal: Rehearsal) -> None:
    workflow = Workflow("w", 1, [Step("note", agent="records", operation="note")])
    Rehearsal(workflow, agents=[]).undo_fails("note", permanently="no")


def neither(rehearsal: Rehearsal) -> None:
    rehearsal.fail("charge")


def never(rehearsal: Rehearsal) -> None:
    rehearsal.die("charge", times=0)


def backwards(rehearsal: Rehearsal) -> None:
    rehearsal.delay("charge", by=-1)


def nobody(rehearsal: Rehearsal) -> None:
    rehearsal.absent("bank")


def bad_effect(rehearsal: Rehearsal) -> None:
    rehearsal.fail("charge", permanently="no", effect="certain")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (unknown_step, "no step 'pay' in sale; there are charge, reserve, ship"),
        (undo_of_none, "step 'note' has no undo"),
        (neither, "either permanently= or transiently="),
        (never, "times is 0"),
        (backwards, "by is -1"),
        (nobody, "no agent 'bank'; there are till"),
        (bad_effect, "effect must be"),
    ],
)
def test_what_cannot_be_injected_is_said_at_once(rehearsal: Rehearsal, fault: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        fault(rehearsal)


def test_a_setting_that_does_not_exist_is_named(remote: Remote) -> None:
    with pytest.raises(ConfigurationError, match="max_failurs"):
        Rehearsal(SALE, agents=[till_of(remote)], settings={"max_failurs": 1})


def test_an_undo_registered_as_an_operation_is_named(remote: Remote) -> None:
    workflow = Workflow("w", 1, [Step("a", agent="till", operation="reserve", undo="charge")])
    with pytest.raises(DefinitionError, match="'charge', which agent 'till' offers as an operation"):
        Rehearsal(workflow, agents=[till_of(remote)])


def test_what_the_submitter_would_refuse_is_refused(rehearsal: Rehearsal) -> None:
    with pytest.raises(ContractError, match="order_id"):
        rehearsal.run_blocking({"pence": 1}, order_id="with blanks")
    small = Rehearsal(SALE, agents=[], settings={"max_payload_bytes": 1024})
    with pytest.raises(ContractError, match="too_large"):
        small.run_blocking({"note": "x" * 1024})


async def test_in_an_asynchronous_test_run_is_awaited(rehearsal: Rehearsal) -> None:
    with pytest.raises(ConfigurationError, match="await run"):
        rehearsal.run_blocking({"pence": 1})
