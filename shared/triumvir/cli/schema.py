"""``triumvir schema``: the contract, for clients in any language."""

from __future__ import annotations

from typing import Annotated

import typer

from triumvir.cli.contract import asyncapi, json_schemas
from triumvir.cli.output import write_json


def schema(
    json_schema: Annotated[
        bool, typer.Option("--json-schema", help="Only the JSON Schema of every body, by AMQP type.")
    ] = False,
) -> None:
    """Print the contract as AsyncAPI 3: queues, messages, and the JSON Schema of every body.

    \b
    Examples:
      triumvir schema > asyncapi.json
      triumvir schema --json-schema
    """
    write_json(json_schemas() if json_schema else asyncapi())
