"""The published contract is what the models say, and each of its references leads somewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.house.source import ROOT
from triumvir.cli.contract import asyncapi, json_schemas
from triumvir.contracts.codec import types

PUBLISHED = ROOT / "docs" / "contract" / "asyncapi.json"


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for member in value.values():
            yield from references(member)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_the_published_contract_is_the_one_of_the_models() -> None:
    assert json.loads(PUBLISHED.read_text()) == json.loads(json.dumps(asyncapi())), (
        "meant so? triumvir schema > docs/contract/asyncapi.json"
    )


def test_every_reference_leads_somewhere() -> None:
    document = asyncapi()
    found = [reference for reference in references(document) if reference.startswith("#/c")]
    assert found
    for reference in found:
        target: Any = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


def test_every_type_that_crosses_the_wire_has_a_schema_with_its_required_members() -> None:
    schemas = json_schemas()
    assert set(schemas) == set(types())
    assert schemas["order.submit.v1"]["required"] == ["order_id", "workflow", "payload"]
    assert schemas["order.submit.v1"]["properties"]["payload"]["type"] == "object"
