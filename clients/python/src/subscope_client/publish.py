"""Publishes what the subagents of an agent do."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import uuid
from types import TracebackType
from typing import Any, Unpack

from .http import OPENER, request, token
from .model import PublishedEvent, PublishedEventKind, PublishedFields

#: Environment variable with the address of the hub.
ADDRESS = "CPE_SUBAGENT_LOGGING_ADDRESS"
#: Seconds for one delivery.
TIMEOUT = 5.0


class PublishError(Exception):
    """An event could not be delivered; its run must end."""


class StopRequested(Exception):
    """A person asked the run to stop; end it with the status `stopped`."""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


class Publisher:
    """Publishes events to an address of this machine; to none, it does nothing."""

    def __init__(self, address: str | None, *, token: str | None = None, timeout: float = TIMEOUT) -> None:
        self._address = address.rstrip("/") if address else None
        self._token = token
        self._timeout = timeout

    @classmethod
    def from_env(cls) -> Publisher:
        """Returns a publisher to the address in `CPE_SUBAGENT_LOGGING_ADDRESS`."""
        return cls(os.environ.get(ADDRESS))

    def publish(
        self, kind: PublishedEventKind, name: str, run_id: str, **fields: Unpack[PublishedFields]
    ) -> None:
        """Publishes one event.

        Raises PublishError if it cannot be delivered (a warning for `subagent_end`), and StopRequested if a person
        asked the run to stop.
        """
        if self._address is None:
            return
        event: PublishedEvent = {
            "subagentName": name,
            "subagentRunId": run_id,
            "timestamp": time.time_ns() // 1_000_000,
            "type": kind,
            "eventId": str(uuid.uuid4()),
            **fields,
        }
        body = json.dumps(event, separators=(",", ":")).encode()
        try:
            post = request(self._address + "/subagent-events", token(self._token), body)
            with OPENER.open(post, timeout=self._timeout) as answer:
                is_stopped = bool(json.loads(answer.read() or b"{}").get("stop", False))
        except (urllib.error.URLError, OSError, ValueError) as error:
            message = f"{kind} of run {run_id} could not be delivered: {error}"
            if kind != "subagent_end":
                raise PublishError(message) from error
            print("warning:", message, file=sys.stderr)
            return
        if is_stopped and kind != "subagent_end":
            raise StopRequested(f"a person asked run {run_id} to stop")

    def run(self, name: str, *, prompt: str, **fields: Unpack[PublishedFields]) -> Run:
        """Returns a run of a subagent, for `with`: its start and its end are published."""
        return Run(self, name, prompt, fields)


class Run:
    """A run of a subagent. An exception in its block is its error, StopRequested its status `stopped`."""

    def __init__(self, publisher: Publisher, name: str, prompt: str, fields: PublishedFields) -> None:
        self._publisher = publisher
        self.name = name
        #: Id of the run; `parentRunId` of runs that it starts.
        self.id = str(uuid.uuid4())
        #: What the subagent answers.
        self.result: Any = None
        self._prompt = prompt
        self._fields = fields

    def __enter__(self) -> Run:
        start: PublishedFields = {"payload": self._prompt, **self._fields}
        self._publisher.publish("subagent_start", self.name, self.id, **start)
        return self

    def thought(self, text: str) -> None:
        """Publishes a thought."""
        self._publisher.publish("thought_trace", self.name, self.id, payload=text)

    def call(self, tool: str, arguments: Any) -> Call:
        """Returns a tool call, for `with`: the call and its result are published."""
        return Call(self._publisher, self, tool, arguments)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        end: PublishedFields = {}
        if isinstance(error, StopRequested):
            end["status"] = "stopped"
        elif error is not None:
            end["payload"] = str(error) or type(error).__name__
        elif self.result is not None:
            end["result"] = _text(self.result)
        self._publisher.publish("subagent_end", self.name, self.id, **end)
        return isinstance(error, StopRequested)


class Call:
    """A tool call. An exception in its block is its error."""

    def __init__(self, publisher: Publisher, run: Run, tool: str, arguments: Any) -> None:
        self._publisher = publisher
        self._run = run
        self._tool = tool
        self._arguments = arguments
        self.id = str(uuid.uuid4())
        #: What the tool returns.
        self.result: Any = ""

    def _publish(self, kind: PublishedEventKind, **fields: Unpack[PublishedFields]) -> None:
        call: PublishedFields = {"toolName": self._tool, "toolCallId": self.id, **fields}
        self._publisher.publish(kind, self._run.name, self._run.id, **call)

    def __enter__(self) -> Call:
        self._publish("tool_call", payload=_text(self._arguments))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._publish("tool_result", payload=_text(self.result))
        elif not isinstance(error, (StopRequested, PublishError)):
            self._publish("tool_result", payload=str(error) or type(error).__name__, isError=True)
