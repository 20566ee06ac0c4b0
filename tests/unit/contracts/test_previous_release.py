"""Messages of the previous release, whose processes run beside those of this one while it is deployed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.previous import KEPT
from tests.unit.contracts.samples import SAMPLES
from triumvir.contracts.codec import decode, encode

BEFORE = {path.stem: path.read_bytes() for path in sorted((KEPT / "messages").glob("*.json"))}


@pytest.mark.parametrize("type_", BEFORE)
def test_a_message_of_the_previous_release_is_read_with_all_that_it_says(type_: str) -> None:
    said = json.loads(encode(decode(type_, BEFORE[type_])))
    assert _subset(json.loads(BEFORE[type_]), said)


@pytest.mark.parametrize("type_", BEFORE)
def test_a_message_of_this_release_says_all_that_the_previous_one_reads(type_: str) -> None:
    assert json.loads(BEFORE[type_]).keys() <= json.loads(encode(SAMPLES[type_])).keys()


def test_every_type_of_message_is_kept() -> None:
    assert len(BEFORE) == 10


def _subset(part: dict[str, Any], whole: dict[str, Any]) -> bool:
    return part == {name: whole.get(name) for name in part}
