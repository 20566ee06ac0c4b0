"""How the data of a workflow is to be handled: said in its definition, and part of the version that orders keep."""

from __future__ import annotations

from typing import Any

import pytest

from triumvir.errors import DefinitionError
from triumvir.store.operators import differences
from triumvir.workflow import Step, Workflow


def workflow(**said: Any) -> Workflow:
    return Workflow("w", 1, [Step("a", agent="a", operation="a")], **said)


def test_a_definition_keeps_what_it_says_of_its_data() -> None:
    secret = workflow(classification="confidential", retention_days=30)
    assert Workflow.from_json(secret.to_json()) == secret
    assert (secret.is_confidential, workflow().is_confidential) == (True, False)


def test_a_definition_that_says_nothing_has_the_digest_it_always_had() -> None:
    assert "classification" not in workflow().to_json()
    assert "retention" not in workflow().to_json()


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"classification": "secret"}, "classification is 'secret'; give 'open' or 'confidential'"),
        ({"retention_days": 0}, "retention_days is 0; give a whole number of days from 1 to 36500"),
        ({"retention_days": True}, "retention_days is True"),
        ({"retention_days": "30"}, "retention_days is '30'"),
    ],
)
def test_a_wrong_word_is_refused_with_the_fix(said: dict[str, Any], problem: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        workflow(**said)
    assert problem in str(caught.value)


def test_a_version_that_handles_its_data_otherwise_is_another_one() -> None:
    found = differences(workflow(), workflow(classification="confidential", retention_days=30))
    assert found == ["classification was 'open', is 'confidential'", "retention_days was None, is 30"]
