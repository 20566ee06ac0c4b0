"""Finding the agents named on the command line: ``module:attribute``."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

from triumvir.agent import Agent
from triumvir.errors import DefinitionError


def load(targets: Sequence[str]) -> dict[str, Agent]:
    """The agents by name, checked. DefinitionError says which target is wrong, and how to write it."""
    if not targets:
        raise DefinitionError("no agent is named; write: triumvir run agent package.module:attribute")
    if "" not in sys.path:
        sys.path.insert(0, "")
    agents: dict[str, Agent] = {}
    for target in targets:
        agent = _load_one(target)
        if agent.name in agents:
            raise DefinitionError(f"{target}: another agent of this process is called {agent.name!r} too")
        agent.check()
        agents[agent.name] = agent
    return agents


def _load_one(target: str) -> Agent:
    module_name, colon, attribute = target.partition(":")
    if not colon or not module_name or not attribute:
        raise DefinitionError(f"{target!r} names no agent; write package.module:attribute")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise DefinitionError(f"{target!r}: {error}; run it where that module can be imported") from None
    if not hasattr(module, attribute):
        raise DefinitionError(f"{target!r}: {module_name} has no {attribute!r}{_offered(module, attribute)}")
    found = getattr(module, attribute)
    if not isinstance(found, Agent):
        raise DefinitionError(f"{target!r} is {type(found).__name__}, not a triumvir.Agent")
    return found


def _offered(module: ModuleType, attribute: str) -> str:
    """What may have been meant: agents whose name is like it, else all agents of the module."""
    agents = [name for name, value in vars(module).items() if isinstance(value, Agent)]
    meant = difflib.get_close_matches(attribute, agents) or agents
    return f"; did you mean {' or '.join(map(repr, meant))}?" if meant else ", and no triumvir.Agent at all"
