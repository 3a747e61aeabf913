#!/usr/bin/env python3
"""Asks another tool about a recording and turns its answer into the shape of oracle.py.

    rivals.py NAME HARNESS RECORDING BIN   BIN is the folder with the tool's command

Prints {"columns": [...], "agents": {ID: {...}}, "total": {KIND: COUNT}}. `columns` names what the tool says anything
about; what it does not speak of is not held against it. `total` is the session's tokens, where no agent has them. Each run gets a home folder of its own that holds a copy of the recording
and nothing else, so the tool reads no session of the person who runs this and leaves nothing behind.
"""
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

LIMIT_SECONDS = 60


# Where a harness keeps what a recording has: the name in the recording, and the place below the home folder.
PLACES = {
    "claude-code": {"projects": ".claude/projects"},
    "codex": {"sessions": ".codex/sessions"},
    "copilot": {"dot_copilot": ".copilot"},
    "gemini": {"dot_gemini_tmp": ".gemini/tmp"},
    "opencode": {"opencode.db": ".local/share/opencode/opencode.db", "storage": ".local/share/opencode/storage"},
    "qwen": {"dot_qwen": ".qwen"},
}


class Home:
    """A home folder with one recording in it."""

    def __init__(self, harness, recording, folder):
        self.harness = harness
        self.path = pathlib.Path(folder)
        for name, place in PLACES[harness].items():
            source, target = recording / name, self.path / place
            if source.is_dir():
                shutil.copytree(source, target)
            elif source.is_file():
                target.parent.mkdir(parents=True)
                shutil.copy2(source, target)
        ended = time.time() - 2 * 3600  # some take a file that changed of late for an agent at work
        for path in self.path.rglob("*"):
            os.utime(path, (ended, ended))
        self.session = json.loads((recording / "truth.json").read_text(encoding="utf-8"))["session"]["id"]
        if harness == "claude-code":
            mains = [p for p in (self.path / ".claude/projects").glob("*/*.jsonl") if not p.name.startswith("agent-")]
            self.transcript = min(mains, key=lambda path: (path.stem != self.session, path))
            self.session = self.transcript.stem

    def run(self, bin_folder, *words):
        environment = {"HOME": str(self.path), "PATH": "/usr/local/bin:/usr/bin:/bin",
                       "LANG": "C.UTF-8", "TERM": "dumb"}
        if self.harness == "claude-code":
            environment["CLAUDE_CONFIG_DIR"] = str(self.path / ".claude")
        command = [str(pathlib.Path(bin_folder).resolve() / words[0]), *words[1:]]
        done = subprocess.run(command, env=environment, cwd=self.path, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=LIMIT_SECONDS, check=False)
        if done.returncode != 0:
            complaint = (done.stderr or done.stdout).strip().splitlines() or ["said nothing"]
            raise SystemExit(f"{words[0]} exited with {done.returncode}: {complaint[-1]}")
        return done.stdout


def agents_tree(home, bin_folder):
    """It has counts of calls by tool and the output tokens of each agent. Of Claude Code and Codex."""
    words = {"done": "completed", "completed": "completed", "failed": "failed", "stopped": "stopped", "killed": "stopped",
             "running": "running", "stale": "lost", "idle": "lost"}  # `status` tells more than `state`
    answer = json.loads(home.run(bin_folder, "agents-tree", "--json", "--provider", home.harness.removesuffix("-code"), home.session))
    agents = {}

    def visit(node, name, parent):
        detail = node.get("detail") or {}
        status = words.get(node.get("status"), words.get(node.get("state")))
        agents[name] = {"parent": parent, "status": status, "tool_counts": detail.get("tools") or {},
                        "usage": {"output_tokens": detail.get("output_tokens")}}
        for child in node.get("children") or []:
            visit(child, child["id"], name)

    for session in answer["sessions"]:
        visit(session["main"], "root", None)
        for child in session["agents"]:
            visit(child, child["id"], "root")
    agents["root"]["status"] = None  # of the main thread it says only whether a process runs
    return ["parents", "owners", "endings", "tokens"], agents


def agentsview(home, bin_folder):
    """Its store has a row for each transcript, with parent, outcome and calls; tokens stand with the messages."""
    words = {"completed": "completed", "errored": "failed", "failed": "failed", "abandoned": "lost"}
    try:
        home.run(bin_folder, "agentsview", "sync")
        store = sqlite3.connect(home.path / ".agentsview/sessions.db")
        sessions = store.execute("select id, parent_session_id, outcome from sessions").fetchall()
        calls = store.execute("select session_id, tool_use_id, tool_name from tool_calls").fetchall()
        tokens = store.execute("select session_id, token_usage from messages where token_usage != ''").fetchall()
        store.close()
    finally:
        home.run(bin_folder, "agentsview", "daemon", "stop")

    def name(session):
        session = (session or "").removeprefix(f"{home.harness}:")
        return "root" if session == home.session else session.removeprefix("agent-")

    agents = {name(s): {"parent": name(p) or None, "status": words.get(o), "calls": {}, "usage": {}} for s, p, o in sessions}
    for session, call, tool in calls:
        agents[name(session)]["calls"][call] = tool
    kinds = {"input_tokens": "input_tokens", "output_tokens": "output_tokens", "cache_read_input_tokens": "cache_read_tokens",
             "cache_creation_input_tokens": "cache_write_tokens"}
    if home.harness == "opencode":
        del kinds["output_tokens"]  # without those of thoughts, of which it does not speak
    for session, text in tokens:
        usage, said = agents[name(session)]["usage"], json.loads(text)
        for key, kind in kinds.items():
            usage[kind] = usage.get(kind, 0) + (said.get(key) or 0)
    return ["parents", "owners", "endings", "tokens", "sums"], agents


def claude_code_log(home, bin_folder):
    """Its JSON is the page as a tree: an agent's lines stand below the call that started it. Tokens only by line."""
    page = home.path / "page.json"
    home.run(bin_folder, "claude-code-log", str(home.transcript), "-o", str(page), "--no-cache")
    agents = {"root": {"parent": None, "calls": {}}}

    def visit(node, owner, call=None):
        if not node.get("is_sidechain"):
            mine = "root"
        else:  # 1.0.x has no agent ids: the call below whose result the lines stand is the oracle's name for it
            mine = node.get("agent_id") or (call if owner == "root" and call else owner)
        if node.get("type") == "tool_result":
            call = node["content"]["tool_use_id"]
        if mine not in agents:
            agents[mine] = {"parent": owner, "calls": {}}
        if node.get("type") == "tool_use":
            content = node["content"]
            agents[mine]["calls"][content["tool_use_id"]] = content["tool_name"]
        for child in node.get("children") or []:
            visit(child, mine, call)

    for message in json.loads(page.read_text(encoding="utf-8"))["messages"]:
        visit(message, "root")
    return ["parents", "owners"], agents


def tracon(home, bin_folder):
    """A flat list of agents with a state each."""
    words = {"DONE": "completed", "STOPPED": "stopped", "ORPHANED": "lost", "STALLED": "running", "RUNNING": "running",
             "WORKING": "running", "BLOCKED": "running", "WAITING": "running", "STARTING": "running", "IDLE": "running"}
    try:
        text = home.run(bin_folder, "tracon", "--once", "--json", "--no-judge", "--session", home.session)
    except SystemExit as failure:
        if "with subagents found" not in str(failure):
            raise
        text = '{"agents": []}'  # an answer: it sees no subagents there
    listed = json.loads(text)["agents"]
    return ["endings"], {agent["id"]: {"status": words.get(agent["state"])} for agent in listed}


def ccusage(home, bin_folder):
    """Tokens of each session; what belongs together it does not say. Its output may be without thoughts, its total is not."""
    listed = json.loads(home.run(bin_folder, "ccusage", "session", "--json", "--offline"))["session"]
    kinds = {"inputTokens": "input_tokens", "cacheReadTokens": "cache_read_tokens", "cacheCreationTokens": "cache_write_tokens",
             "totalTokens": "total_tokens"}
    return ["sums"], {}, {kind: sum(row[key] for row in listed) for key, kind in kinds.items()}


def tokscale(home, bin_folder):
    """Tokens of each session and model."""
    words = ("models", "--json", "--no-spinner", "--group-by", "client,session,model", "--home", str(home.path))
    listed = json.loads(home.run(bin_folder, "tokscale", *words))["entries"]
    kinds = {"input_tokens": ["input"], "output_tokens": ["output", "reasoning"], "cache_read_tokens": ["cacheRead"],
             "cache_write_tokens": ["cacheWrite"]}
    return ["sums"], {}, {kind: sum(row[key] for row in listed for key in keys) for kind, keys in kinds.items()}


RIVALS = {"agents-tree": agents_tree, "agentsview": agentsview, "claude-code-log": claude_code_log, "tracon": tracon,
          "ccusage": ccusage, "tokscale": tokscale}

if __name__ == "__main__":
    tool, kept_by, where, folder_of_tool = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]
    with tempfile.TemporaryDirectory() as temporary:
        said, found, *sums = RIVALS[tool](Home(kept_by, where, temporary), folder_of_tool)
    json.dump({"columns": said, "agents": found, "total": sums[0] if sums else None}, sys.stdout)
