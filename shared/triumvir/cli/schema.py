"""``triumvir schema``: the contract, for clients in any language."""

from __future__ import annotations

from typing import Annotated

import typer

from triumvir.cli.contract import asyncapi, json_schemas
from triumvir.cli.output import write_json
from triumvir.cli.workflow_schema import workflow_schema


def schema(
    json_schema: Annotated[
        bool, typer.Option("--json-schema", help="Only the JSON Schema of every body, by AMQP type.")
    ] = False,
    workflow: Annotated[
        bool, typer.Option("--workflow", help="The JSON Schema of workflows in YAML or JSON, for editors.")
    ] = False,
) -> None:
    """Print the contract as AsyncAPI 3: queues, messages, and the JSON Schema of every body.

    \b
    Examples:
      triumvir schema > asyncapi.json
      triumvir schema --json-schema
      triumvir schema --workflow > workflow.schema.json
    """
    if workflow:
        write_json(workflow_schema())
    else:
        write_json(json_schemas() if json_schema else asyncapi())
