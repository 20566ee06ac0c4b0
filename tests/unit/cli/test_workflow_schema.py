"""The JSON Schema of a file of workflows says what the reader of files says."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.house.source import ROOT
from triumvir.cli.workflow_schema import workflow_schema
from triumvir.workflow.keys import (
    STEP_KEYS,
    STEP_NEEDS,
    WAIT_KEYS,
    WAIT_NEEDS,
    WORKFLOW_KEYS,
    WORKFLOW_NEEDS,
)

PUBLISHED = ROOT / "docs" / "contract" / "workflow.schema.json"


def test_the_published_schema_is_the_one_of_this_release() -> None:
    assert json.loads(PUBLISHED.read_text()) == workflow_schema(), (
        "meant so? triumvir schema --workflow > docs/contract/workflow.schema.json"
    )


def test_it_knows_the_keys_of_the_reader() -> None:
    known: dict[str, Any] = workflow_schema()["$defs"]
    workflow, step, wait = known["workflow"], known["step"], known["wait"]
    assert (tuple(workflow["properties"]), workflow["required"]) == (WORKFLOW_KEYS, list(WORKFLOW_NEEDS))
    assert (tuple(step["properties"]), step["required"]) == (STEP_KEYS, list(STEP_NEEDS))
    assert (tuple(wait["properties"]), wait["required"]) == (WAIT_KEYS, list(WAIT_NEEDS))
    assert workflow["additionalProperties"] is step["additionalProperties"] is False
    assert wait["additionalProperties"] is False


def test_its_patterns_take_what_the_reader_takes() -> None:
    step: dict[str, Any] = workflow_schema()["$defs"]["step"]["properties"]
    durations = step["complete_within"]["pattern"]
    assert [bool(re.search(durations, text)) for text in ("1m30s", "0.5h", "30", "soon", "")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert re.search(step["agent"]["pattern"], "gift-cards")
    assert not re.search(step["agent"]["pattern"], "Gift Cards")
