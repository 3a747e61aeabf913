"""An agent that publishes what its subagent does, with Python's standard library alone.

    CPE_SUBAGENT_LOGGING_ADDRESS=http://127.0.0.1:7337 python3 publish.py FILE...
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

# Where the system does not tell a hub whose a connection is (macOS), it asks for the token beside its socket.
DATA = os.environ.get("SUBSCOPE_DATA_DIR") or os.path.join(
    os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "subscope")
ADDRESS = os.environ.get("CPE_SUBAGENT_LOGGING_ADDRESS", "").rstrip("/")
# The address is this machine's: no proxy stands between.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def authorization():
    """The header that shows the token, where there is one."""
    try:
        with open(os.path.join(DATA, "token"), encoding="utf-8") as file:
            return {"authorization": "Bearer " + file.read().strip()}
    except OSError:
        return {}


def publish(kind, name, run_id, **more):
    """Publishes one event, and raises where it cannot be delivered: let that end the subagent's run.

    Returns whether a user asks that the run stop (`subscope stop`): end it then, with the status "stopped".
    `more` may have toolName, toolCallId, payload, result, isError, parentRunId, tokenUsage and so on. A payload is text,
    or JSON as text.
    """
    if not ADDRESS:
        return False
    event = {"subagentName": name, "subagentRunId": run_id, "timestamp": time.time_ns() // 1_000_000, "type": kind}
    # With an id of its own it counts once, however often it is posted.
    body = json.dumps({**event, "eventId": str(uuid.uuid4()), **more}, separators=(",", ":")).encode()
    headers = {"content-type": "application/json", **authorization()}
    request = urllib.request.Request(ADDRESS + "/subagent-events", body, headers, method="POST")
    try:
        # Any status of success is one; every other one raises. The limit is on each step of the exchange.
        with OPENER.open(request, timeout=5) as answer:
            return json.loads(answer.read() or b"{}").get("stop", False)
    except (urllib.error.URLError, OSError) as error:
        said = f"{kind} {more.get('toolName', '')} of run {run_id} could not be delivered: {error}"
        if kind != "subagent_end":
            raise RuntimeError(said) from error
        print("warning:", said, file=sys.stderr)
    return False


def count_lines(path):
    """A subagent with one tool."""
    run_id = str(uuid.uuid4())
    publish("subagent_start", "counter", run_id, payload=f"Count the lines of {path}.")
    call = {"toolName": "read", "toolCallId": str(uuid.uuid4())}
    if publish("tool_call", "counter", run_id, **call, payload=json.dumps({"path": path})):
        publish("subagent_end", "counter", run_id, status="stopped")
        return
    try:
        with open(path, encoding="utf-8") as file:
            lines = len(file.readlines())
    except OSError as error:
        publish("tool_result", "counter", run_id, **call, payload=str(error), isError=True)
        publish("subagent_end", "counter", run_id, payload=str(error))
        return
    publish("tool_result", "counter", run_id, **call, payload=f"{lines} lines")
    publish("subagent_end", "counter", run_id, result=f"{lines} lines")


for argument in sys.argv[1:]:
    count_lines(argument)
