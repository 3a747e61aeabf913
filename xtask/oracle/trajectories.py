"""Checks ATIF documents of subscope with two validators, and has subscope read documents of every version.

usage: trajectories.py SUBSCOPE FOLDER RECORDING…; prints a line that begins with WRONG for each thing that is not as it should be.
"""

import json
import os
import subprocess
import sys

from atif import Trajectory
from harbor.utils.trajectory_validator import TrajectoryValidator

PROGRAM, FOLDER, *RECORDINGS = sys.argv[1:]
ENVIRONMENT = {
    "HOME": os.path.join(FOLDER, "home"),
    "PATH": os.environ["PATH"],
    "SUBSCOPE_NO_AUTOSTART": "1",
}


def run(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, env=ENVIRONMENT)


def wrong(what, why):
    print(f"WRONG {what}: {why}")


def validate(path, document, what):
    """Checks a document with both validators."""
    try:
        Trajectory.model_validate(document)
    except ValueError as error:
        wrong(what, f"atif: {error}")
    validator = TrajectoryValidator()
    if not validator.validate(path):
        wrong(what, f"harbor: {validator.errors[:3]}")


def check_sums(document, tree, what):
    """Tokens of steps are those of rows; each agent is a trajectory; each spawn call that is there has a ref."""
    rows = {row["id"]: row for row in tree["agents"]}
    trajectories = [document, *document.get("subagent_trajectories", [])]
    if [one["trajectory_id"] for one in trajectories] != [row["id"] for row in tree["agents"]]:
        wrong(what, "other agents than in the tree")
    refs, calls = {}, set()
    for one in trajectories:
        row = rows[one["trajectory_id"]]
        total = 0
        for step in one["steps"]:
            metrics = step.get("metrics", {})
            total += metrics.get("prompt_tokens", 0) + metrics.get("completion_tokens", 0)
            calls |= {call["tool_call_id"] for call in step.get("tool_calls", [])}
            for result in step.get("observation", {}).get("results", []):
                for ref in result.get("subagent_trajectory_ref", []):
                    refs[ref["trajectory_id"]] = result["source_call_id"]
        usage = (row["usage"] or {}).get("total_tokens", 0)
        known = one["final_metrics"]
        stated = known.get("total_prompt_tokens", 0) + known.get("total_completion_tokens", 0)
        if stated != usage or (row["messages"] and total != usage):
            wrong(what, f"{one['trajectory_id']}: {total} and {stated} tokens, {usage} in the tree")
        if len(one["steps"]) != known["total_steps"]:
            wrong(what, "another number of steps")
    for row in rows.values():
        call = row["spawned_by"]
        if call in calls and refs.get(row["id"]) != call:
            wrong(what, f"no ref from {call} to {row['id']}")


def check_recordings():
    first, second = os.path.join(FOLDER, "first.json"), os.path.join(FOLDER, "second.json")
    count = agents = 0
    for recording in RECORDINGS:
        tree = run("tree", recording, "--json")
        if tree.returncode:
            # A part of a recording, or several sessions in one file.
            continue
        if run("export", recording, "--as", "atif", "-o", first).returncode:
            wrong(recording, "not exported")
            continue
        with open(first) as file:
            text = file.read()
        document = json.loads(text)
        validate(first, document, recording)
        check_sums(document, json.loads(tree.stdout), recording)
        again = run("export", first, "--as", "atif", "-o", second)
        with open(second) as file:
            if again.returncode or again.stderr:
                wrong(recording, again.stderr.decode())
            elif file.read() != text:
                print(f"other  {recording}: exported again it is another document")
        count += 1
        agents += 1 + len(document.get("subagent_trajectories", []))
    print(f"{count} documents with {agents} trajectories")
    if count < 250:
        wrong("recordings", f"{count} of {len(RECORDINGS)}")


def sample(minor):
    """A document with everything that a version has."""
    version = f"ATIF-v1.{minor}"
    call = {"tool_call_id": "c1", "function_name": "task", "arguments": {"n": 1}}
    result = {"source_call_id": "c1", "content": "fine"}
    metrics = {"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4, "cost_usd": 0.001, "logprobs": [-0.1, -0.2]}
    ask = {"step_id": 3, "timestamp": "2026-01-01T00:00:02Z", "source": "agent", "model_name": "m", "message": "",
           "reasoning_content": "hm", "tool_calls": [call], "observation": {"results": [result]}, "metrics": metrics}
    if minor >= 3:
        metrics["completion_token_ids"] = [1, 2]
    if minor >= 4:
        metrics["prompt_token_ids"] = [3]
    if minor >= 5:
        ask["is_copied_context"] = False
    user = {"step_id": 2, "timestamp": "2026-01-01T00:00:01+00:00", "source": "user", "message": "Do it."}
    if minor >= 6:
        user["message"] = [{"type": "text", "text": "Do it."},
                           {"type": "image", "source": {"media_type": "image/png", "path": "https://x.test/a.png"}}]
    last = {"step_id": 4, "source": "agent", "message": "Done.", "reasoning_effort": "high"}
    document = {
        "schema_version": version, "session_id": f"sample-{minor}",
        "agent": {"name": "sample", "version": "1", "model_name": "m", "tool_definitions": [{"type": "function"}]},
        "steps": [{"step_id": 1, "source": "system", "message": "Be brief."}, user, ask, last],
        "notes": "made by hand",
        "final_metrics": {"total_prompt_tokens": 9, "total_completion_tokens": 2, "total_steps": 4},
    }
    result["subagent_trajectory_ref"] = [{"trajectory_path": "https://x.test/sub.json", "session_id": "sub"}]
    if minor >= 7:
        call["extra"] = {"timeout": 5}
        last["llm_call_count"] = 2
        document["trajectory_id"] = "top"
        result["subagent_trajectory_ref"] = [{"trajectory_id": "sub"}]
        document["subagent_trajectories"] = [{
            "schema_version": version, "trajectory_id": "sub", "agent": {"name": "worker", "version": "1"},
            "steps": [{"step_id": 1, "source": "user", "message": "Work."},
                      {"step_id": 2, "source": "agent", "message": "Worked."}]}]
    if minor >= 8:
        user["message"].append({"type": "audio", "source": {"media_type": "audio/wav", "path": "https://x.test/a.wav"}})
    return document


def check_samples():
    path = os.path.join(FOLDER, "sample.json")
    for minor in range(9):
        with open(path, "w") as file:
            json.dump(sample(minor), file)
        validate(path, sample(minor), f"sample 1.{minor}")
        read = run("tree", path, "--json")
        if read.returncode:
            wrong(f"sample 1.{minor}", read.stderr.decode())
            continue
        root, *below = json.loads(read.stdout)["agents"]
        usage = root["usage"] or {}
        found = [root["status"], root["tool_calls"], root["messages"], usage["total_tokens"], len(below)]
        if found != ["completed", 1, 3 if minor >= 7 else 2, 11, int(minor >= 7)]:
            wrong(f"sample 1.{minor}", found)
        if below and (below[0]["parent_id"], below[0]["spawned_by"], below[0]["type"]) != ("root", "c1", "worker"):
            wrong(f"sample 1.{minor}", below[0])
    print("9 documents of versions 1.0 to 1.8 read")


check_recordings()
check_samples()
