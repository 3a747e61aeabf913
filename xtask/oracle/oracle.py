#!/usr/bin/env python3
"""Works out what a recording of Claude Code must give, from its transcript files alone.

    oracle.py RECORDING            prints {"agents": {ID: {...}}} as JSON
    oracle.py RECORDING --check    also fails where that differs from the recording's truth.json

This is the yardstick of `cargo xtask truth`. It shares no code with the decoders on purpose: plain JSON, whole
files in memory, one rule after the other. The rules are those of the design: links from meta.json, else from a
spawn call's result, else the exact prompt; a call belongs to the file (or sidechain) it stands in; endings by
the order of evidence; tokens once for each message id, the last line counts.
"""
import json
import pathlib
import re
import sys

SPAWN_TOOLS = ("Task", "Agent")
NOTE = re.compile(r"<task-notification>.*?<task-id>([^<]+)</task-id>.*?<status>([^<]+)</status>", re.S)
NOTE_STATUS = {"completed": "completed", "failed": "failed", "killed": "stopped", "stopped": "stopped"}
KINDS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_creation_input_tokens",
}


def read(path):
    """Returns the objects of a JSON Lines file. A recording is whole: a line that is none is an error."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def main_transcripts(recording):
    return sorted(p for p in recording.glob("projects/*/*.jsonl") if not p.name.startswith("agent-"))


def blocks(row):
    content = (row.get("message") or {}).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b for b in content or [] if isinstance(b, dict)]


def text_of(row):
    return "\n".join(b.get("text", "") for b in blocks(row) if b.get("type") == "text")


def talk(rows):
    """The lines of the conversation; bookkeeping and lines that the harness puts in are none."""
    return [r for r in rows if r.get("type") in ("user", "assistant") and not r.get("isMeta")]


def sidechains(rows):
    """Splits the sidechain lines of a main transcript (1.0.x) by following parentUuid; each chain in order."""
    chain_of, chains = {}, []
    for row in rows:
        chain = chain_of.get(row.get("parentUuid"))
        if chain is None:
            chain = []
            chains.append(chain)
        chain.append(row)
        chain_of[row.get("uuid")] = chain
    return chains


class Agent:
    def __init__(self, name, rows, meta=None):
        self.name, self.rows, self.meta = name, talk(rows), meta or {}
        self.parent, self.call = None, self.meta.get("toolUseId")
        self.ends = {}  # rank of the evidence, the strongest is the smallest -> status

    def prompt(self):
        return text_of(self.rows[0]) if self.rows else ""

    def calls(self):
        """Tool calls by id, in order, each once."""
        found = {}
        for row in self.rows:
            if row["type"] == "assistant":
                for block in blocks(row):
                    if block.get("type") == "tool_use":
                        found.setdefault(block["id"], block)
        return found

    def results(self):
        for row in self.rows:
            for block in blocks(row) if row["type"] == "user" else []:
                if block.get("type") == "tool_result":
                    yield block["tool_use_id"], block, row

    def usage(self):
        """Tokens by kind: the last line of each API response, as earlier ones may hold placeholders."""
        last = {}
        for row in self.rows:
            message = row.get("message") or {}
            if row["type"] == "assistant" and message.get("model") != "<synthetic>" and message.get("usage"):
                last[message["id"]] = message["usage"]
        return {kind: sum(u.get(key) or 0 for u in last.values()) for kind, key in KINDS.items()}

    def last_line(self):
        """What the agent's own last line says of its ending, or None."""
        if not self.rows:
            return None
        row = self.rows[-1]
        message = row.get("message") or {}
        if row.get("isApiErrorMessage"):
            return "failed"
        if row["type"] == "user":
            return "stopped" if text_of(row).startswith("[Request interrupted") else None
        if message.get("stop_reason") == "end_turn":
            return "completed"
        has_call = any(b.get("type") == "tool_use" for b in blocks(row))
        is_last_word = bool(text_of(row)) and not has_call and message.get("stop_reason") is None
        return "completed" if is_last_word else None

    def status(self):
        return self.ends[min(self.ends)] if self.ends else "lost"


def load(recording):
    """Returns the agents of a recording, root first, and all lines."""
    rows = [row for path in main_transcripts(recording) for row in read(path)]
    agents = [Agent("root", [r for r in rows if not r.get("isSidechain")])]
    for number, chain in enumerate(sidechains([r for r in rows if r.get("isSidechain")]), 1):
        agents.append(Agent(f"agent-{number}", chain))
    for path in sorted(recording.glob("projects/**/agent-*.jsonl")):
        meta_path = path.with_suffix(".meta.json")
        meta = json.loads(meta_path.read_text()) if meta_path.exists() else None
        lines = read(path)
        rows += lines
        agents.append(Agent(path.stem.removeprefix("agent-"), lines, meta))
    drop_copies(agents)
    return agents, rows


def drop_copies(agents):
    """A forked agent's file opens with a copy of its parent's last message: the copy is nobody's."""
    own = {block["id"] for block in (b for r in agents[0].rows for b in blocks(r)) if block.get("type") == "tool_use"}
    for agent in agents[1:]:
        if agent.meta.get("isFork"):
            agent.rows = [
                row for row in agent.rows
                if not any(b.get("type") == "tool_use" and b["id"] in own for b in blocks(row))
            ]


def link(agents):
    """Finds who started whom. The spawn call's owner is the parent."""
    owners = {}
    for agent in agents:
        for call in agent.calls():
            owners.setdefault(call, agent)
    children = agents[1:]
    for agent in agents:
        for call, _, row in agent.results():
            result = row.get("toolUseResult")
            launched = result.get("agentId") if isinstance(result, dict) else None
            for child in children:
                is_spawn = agent.calls().get(call, {}).get("name") in SPAWN_TOOLS
                is_forked = isinstance(result, dict) and result.get("status") == "forked"  # a skill that runs as an agent
                if child.name == launched and not child.call and (is_spawn or is_forked):
                    child.call = call
    taken = {child.call for child in children if child.call}
    for child in children:
        if child.call:
            continue
        for agent in agents:
            for call, block in agent.calls().items():
                is_spawn = block.get("name") in SPAWN_TOOLS and call not in taken
                if is_spawn and not child.call and block["input"].get("prompt") == child.prompt():
                    child.call = call
                    taken.add(call)
    for child in children:
        owner = owners.get(child.call)
        child.parent = owner.name if owner and owner is not child else None
        if child.name.startswith("agent-") and child.call:
            child.name = child.call  # no id on this wire: the spawn call's stands in for it


def notes(row):
    """The task notifications that a line carries, whatever kind of line it is."""
    attached = (row.get("attachment") or {}).get("prompt")
    for text in (row.get("content"), attached, text_of(row)):
        if isinstance(text, str) and "<task-notification>" in text:
            yield from NOTE.findall(text)


def conclude(agents, rows):
    """Gathers each agent's evidence of an ending; rank 1 is the strongest."""
    by_name = {agent.name: agent for agent in agents}
    by_call = {agent.call: agent for agent in agents if agent.call}
    for row in rows:
        for name, word in notes(row):
            if name in by_name and word in NOTE_STATUS:
                by_name[name].ends[1] = NOTE_STATUS[word]
    for owner in agents:
        calls = owner.calls()
        for call, block, row in owner.results():
            tool, result = calls.get(call, {}), row.get("toolUseResult")
            target = by_name.get((tool.get("input") or {}).get("task_id"))
            if tool.get("name") == "TaskStop" and target and not block.get("is_error"):
                target.ends[2] = "stopped"
            child = by_call.get(call)
            if child and tool.get("name") in SPAWN_TOOLS:
                says = result.get("status") if isinstance(result, dict) else None
                shape = child.meta.get("requestShape")
                waits = shape == "foreground" if shape else not tool["input"].get("run_in_background")
                if block.get("is_error"):
                    interrupted = result == "User rejected tool use"
                    child.ends[3] = "stopped" if interrupted else "failed"
                elif says == "completed" or (says is None and waits):
                    child.ends[3] = "completed"
    for agent in agents:
        if agent.last_line():
            agent.ends[4] = agent.last_line()
        if agent.meta.get("finished"):
            agent.ends[5] = "completed"


def work_out(recording):
    agents, rows = load(recording)
    link(agents)
    conclude(agents, rows)
    return {
        a.name: {"parent": a.parent, "spawned_by": a.call, "status": a.status(), "usage": a.usage(),
                 "calls": {call: block["name"] for call, block in a.calls().items()},
                 "warmup": a.prompt() == "Warmup"}
        for a in agents
    }


def differences(found, truth):
    """Compares with truth.json: a list of sentences, empty if all is equal."""
    wrong = []
    wanted = {agent["id"]: agent for agent in truth["agents"]}
    for name in wanted.keys() | found.keys():
        if name not in wanted or name not in found:
            if not wanted.get(name, {}).get("optional"):
                wrong.append(f"{name}: only {'in truth.json' if name in wanted else 'found by the oracle'}")
            continue
        want, have = wanted[name], found[name]
        usage = {kind: (want["usage"] or {}).get(kind, 0) for kind in KINDS}
        pairs = [("calls", {tool["id"]: tool["name"] for tool in want["tools"]}, have["calls"]), ("usage", usage, have["usage"])]
        if not want.get("optional"):
            pairs += [("parent", want["parent_id"], have["parent"]), ("spawned_by", want["spawned_by"], have["spawned_by"])]
        wrong += [f"{name}: {what} is {b!r}, truth.json has {a!r}" for what, a, b in pairs if a != b]
        if have["status"] not in want["status"]:
            wrong.append(f"{name}: status is {have['status']}, truth.json has {want['status']}")
    return sorted(wrong)


if __name__ == "__main__":
    where = pathlib.Path(sys.argv[1])
    agents_found = work_out(where)
    if "--check" in sys.argv[2:]:
        complaints = differences(agents_found, json.loads((where / "truth.json").read_text()))
        for complaint in complaints:
            print(f"{where}: {complaint}", file=sys.stderr)
        if complaints:
            sys.exit(1)
    json.dump({"agents": agents_found}, sys.stdout)
