"""What an author of agents imports."""

from triumvir.agent.authoring import Agent
from triumvir.agent.context import Context
from triumvir.errors import Permanent, Transient

__all__ = ["Agent", "Context", "Permanent", "Transient"]
