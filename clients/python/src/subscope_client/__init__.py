"""Publish subagent events to a subscope hub, query it, and follow its live feed."""

from .client import Client, HubError
from .publish import Call, Publisher, PublishError, Run, StopRequested

__all__ = ["Call", "Client", "HubError", "PublishError", "Publisher", "Run", "StopRequested"]
