"""Tries OTLP of subscope on real programs: Arize Phoenix as a receiver, rotel between, an OpenTelemetry Collector as a sender.

usage: otel.py SUBSCOPE FOLDER PHOENIX ROTEL COLLECTOR FIXTURES; prints a line that begins with WRONG for each thing that is not as it should be.
PHOENIX, ROTEL and COLLECTOR are the programs; ROTEL and COLLECTOR may be `-`: then what they are for is left out.
"""

import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

SUBSCOPE, FOLDER, PHOENIX, ROTEL, COLLECTOR, FIXTURES = sys.argv[1:]
RECORDED = os.path.join(FIXTURES, "claude-code/2.1.330")
SCENARIOS = ["k-big", "c-nested", "d-background", "b-parallel", "g-resume"]
KINDS = {"invoke_agent": "AGENT", "execute_tool": "TOOL", "chat": "LLM"}
started = []


def report(text):
    print(text, flush=True)


def wrong(what, why):
    print(f"WRONG {what}: {why}", flush=True)


def check(what, found, should):
    if found != should:
        wrong(what, f"{found}, should be {should}")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def get(url, body=None, kind="application/json"):
    headers = {"content-type": kind} if body is not None else {}
    with urllib.request.urlopen(urllib.request.Request(url, data=body, headers=headers), timeout=30) as answer:
        return answer.read()


def wait_for(what, holds, seconds=900):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found = holds()
            if found:
                return found
        except (OSError, urllib.error.URLError, ValueError, KeyError):
            pass
        time.sleep(0.2)
    raise SystemExit(f"WRONG {what}: not within {seconds} s")


def start(name, words, **environment):
    log = open(os.path.join(FOLDER, f"{name}.log"), "ab")
    process = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, **environment})
    started.append(process)
    return process


def end(process, by=signal.SIGTERM):
    process.send_signal(by)
    process.wait(60)
    started.remove(process)


def home(name, scenarios=()):
    """Makes a home with the transcripts of these recordings; returns its environment."""
    folder = os.path.join(FOLDER, name)
    shutil.rmtree(folder, ignore_errors=True)
    projects = os.path.join(folder, ".claude/projects")
    os.makedirs(projects)
    for scenario in scenarios:
        shutil.copytree(os.path.join(RECORDED, scenario, "projects"), projects, dirs_exist_ok=True)
    return {"HOME": folder, "PATH": os.environ["PATH"], "SUBSCOPE_NO_AUTOSTART": "1"}


def subscope(*words, env, expect=0):
    ran = subprocess.run([SUBSCOPE, *words], capture_output=True, env=env)
    if ran.returncode != expect:
        wrong(" ".join(words), f"exit {ran.returncode}: {ran.stderr.decode()[-300:]}")
    return ran


def main_of(scenario):
    """The main transcript of a recording: the file beside the folder of its agents, or the only one."""
    below = os.path.join(RECORDED, scenario, "projects")
    files = [os.path.join(at, file) for at, _, names in os.walk(below) for file in names]
    mains = [file for file in files if file.endswith(".jsonl") and "/subagents/" not in file and not os.path.basename(file).startswith("agent-")]
    return sorted(mains)[0]


def value(attribute):
    return next(iter(attribute["value"].values()))


def exported(*words, env):
    """The spans of an export by id: name, parent, operation, trace."""
    spans = {}
    for line in subscope("export", *words, "--as", "otlp", env=env).stdout.splitlines():
        for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            attributes = {one["key"]: value(one) for one in span["attributes"]}
            spans[span["spanId"]] = (
                span["name"],
                span.get("parentSpanId") or None,
                KINDS[attributes["gen_ai.operation.name"]],
                span["traceId"],
            )
    return spans


def tokens(tree):
    """Input with both kinds of cache, and output, of all agents."""
    usages = [agent["usage"] for agent in tree["agents"] if agent["usage"]]
    inputs = ["input_tokens", "cache_read_tokens", "cache_write_tokens"]
    return [sum(usage[kind] for usage in usages for kind in inputs), sum(usage["output_tokens"] for usage in usages)]


class Phoenix:
    def __init__(self, name):
        self.folder = os.path.join(FOLDER, name)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        self.process = start(
            "phoenix",
            [PHOENIX, "serve"],
            PHOENIX_WORKING_DIR=self.folder,
            PHOENIX_HOST="127.0.0.1",
            PHOENIX_PORT=str(self.port),
            PHOENIX_GRPC_PORT=str(free_port()),
            PHOENIX_TELEMETRY_ENABLED="false",
        )
        wait_for("phoenix answers", lambda: get(f"{self.url}/healthz"))

    def all(self, what):
        rows, cursor = [], ""
        while True:
            page = json.loads(get(f"{self.url}/v1/projects/default/{what}?limit=1000&cursor={cursor}"))
            rows += page["data"]
            cursor = page.get("next_cursor")
            if not cursor:
                return rows

    def spans(self):
        rows = self.all("spans")
        ids = [row["context"]["span_id"] for row in rows]
        if len(ids) != len(set(ids)):
            wrong("phoenix", f"{len(ids)} spans of {len(set(ids))} ids")
        return {
            row["context"]["span_id"]: (row["name"], row["parent_id"], row["span_kind"], row["context"]["trace_id"])
            for row in rows
        }

    def settled(self, count):
        """The spans, once as many are there: Phoenix answers before it has stored them."""
        wait_for(f"phoenix has {count} spans", lambda: len(self.all("spans")) >= count)
        time.sleep(1)
        return self.spans()

    def tokens(self, session):
        """Input and output of the spans of a session."""
        sums = [0, 0]
        for row in self.all("spans"):
            attributes = row["attributes"]
            if attributes.get("session.id") == session:
                for place, kind in enumerate(["prompt", "completion"]):
                    sums[place] += int(attributes.get(f"llm.token_count.{kind}", 0))
        return sums


def check_phoenix(phoenix):
    env, expected, sums = home("plain"), {}, {}
    for scenario in SCENARIOS:
        main = main_of(scenario)
        expected |= exported(main, env=env)
        tree = json.loads(subscope("tree", main, "--json", env=env).stdout)
        sums[tree["session"]["id"]] = tokens(tree)
        for _ in range(3):
            subscope("export", main, "--as", "otlp", "--to", phoenix.url, env=env)
    check("spans pushed three times", phoenix.settled(len(expected)) == expected, True)
    for session, should in sums.items():
        check(f"tokens of {session}", phoenix.tokens(session), should)
    report(f"phoenix: {len(expected)} spans of {len(sums)} sessions, pushed three times, are there once; parents, kinds and tokens are those of the trees")


class Slow:
    """Passes posted requests on, each after a pause, so that a push through it is in its middle for as long as is needed."""

    def __init__(self, to, pause=0.5):
        slow = self
        self.passed = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                time.sleep(pause)
                kept = {name: self.headers[name] for name in ["content-type", "content-encoding"] if self.headers[name]}
                try:
                    with urllib.request.urlopen(urllib.request.Request(to + self.path, data=body, headers=kept), timeout=30) as answer:
                        status, said = answer.status, answer.read()
                        slow.passed += 1
                except OSError:
                    status, said = 503, b""
                try:
                    self.send_response(status)
                    self.send_header("content-type", "application/x-protobuf")
                    self.send_header("content-length", str(len(said)))
                    self.end_headers()
                    self.wfile.write(said)
                except OSError:
                    pass  # The sender was killed.

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


KILLED = ["k-big", "c-nested", "d-background", "b-parallel", "g-resume", "a-single", "c-deep", "e-taskstop", "n-worktrees", "l-hostile-output"]


def check_kills():
    env = home("killed", KILLED)
    expected = {}
    for scenario in KILLED:
        expected |= exported(main_of(scenario), env=env)
    subscope("index", env=env)
    fresh = Phoenix("phoenix-killed")
    # Each session is a request of its own at least.
    slow = Slow(fresh.url)
    words = [SUBSCOPE, "export", "--all", "--as", "otlp", "--to", slow.url]
    push = lambda: subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    counts = []
    for requests in [1, 3, 6]:
        before, pushing = slow.passed, push()
        wait_for(f"{requests} requests are pushed", lambda: slow.passed >= before + requests, 60)
        pushing.kill()
        pushing.wait()
        # Phoenix answers before it has stored them.
        time.sleep(2)
        counts.append(len(fresh.all("spans")))
    if not all(0 < count < len(expected) for count in counts):
        wrong("kills", f"after {counts} of {len(expected)} spans: not in the middle of the push")
    # The receiver is killed while it is pushed to, and is back before the push gives up or after it.
    before, pushing = slow.passed, push()
    wait_for("two requests are pushed", lambda: slow.passed >= before + 2, 60)
    end(fresh.process, signal.SIGKILL)
    fresh.start()
    pushing.wait(120)
    subscope("export", "--all", "--as", "otlp", "--to", slow.url, env=env)
    check("spans after kills", fresh.settled(len(expected)) == expected, True)
    report(f"kills: pushes killed after {counts} of {len(expected)} spans, and the receiver once: all are there once")
    end(fresh.process)


class Hub:
    def __init__(self, name, *options):
        self.env = home(name)
        self.words = [SUBSCOPE, "serve", "--listen", "127.0.0.1:0", *options]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.env)
        started.append(self.process)
        self.url = self.process.stdout.readline().decode().strip()

    def tree(self, session):
        return json.loads(get(f"{self.url}/api/v1/sessions/{session}/tree"))

    def metric(self, name):
        lines = get(f"{self.url}/metrics").decode().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"subscope_{name} "))


def rows(tree):
    keys = ["id", "parent_id", "spawned_by", "depth", "type", "usage"]
    calls = lambda agent: sorted((call["id"] or "", call["name"], call["status"], call["basis"]) for call in agent["tools"])
    return sorted((json.dumps([agent[key] for key in keys]), calls(agent)) for agent in tree["agents"])


def recorded_requests():
    folder = os.path.join(RECORDED, "j-otel-nested")
    for name in ["otel-logs.jsonl", "otel-traces.jsonl", "otel-metrics.jsonl"]:
        with open(os.path.join(folder, name)) as lines:
            for line in map(json.loads, lines):
                yield "/v1/" + line["path"].rsplit("/", 1)[1], line["body"]


def rotel(to):
    port = free_port()
    words = [ROTEL, "start", "--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}"]
    words += ["--exporter", "otlp", "--otlp-exporter-endpoint", to, "--otlp-exporter-protocol", "http"]
    process = start("rotel", [*words, "--pid-file", os.path.join(FOLDER, f"rotel-{port}.pid")])
    url = f"http://127.0.0.1:{port}"
    wait_for("rotel answers", lambda: socket.create_connection(("127.0.0.1", port), 1).close() or True)
    return process, url


def check_rotel_in():
    session = "78ab64e8-70c9-40a8-8a29-2204cf979037"
    direct, between = Hub("direct"), Hub("between")
    process, url = rotel(between.url)
    for path, body in recorded_requests():
        get(direct.url + path, json.dumps(body).encode())
        get(url + path, json.dumps(body).encode())
    expected = rows(direct.tree(session))
    wait_for("the tree behind rotel is that of the records", lambda: rows(between.tree(session)) == expected, 60)
    count = direct.metric("otlp_records_total")
    wait_for(f"{count} records come through rotel", lambda: between.metric("otlp_records_total") == count, 60)
    report(f"rotel: {count} records of Claude Code came through it; the tree is the same")
    for one in [process, direct.process, between.process]:
        end(one)


def check_rotel_out(phoenix):
    env = home("through")
    process, url = rotel(phoenix.url)
    main = main_of("e-tool-failures")
    expected = exported(main, env=env)
    before = len(phoenix.spans())
    subscope("export", main, "--as", "otlp", "--to", url, env=env)
    found = phoenix.settled(before + len(expected))
    check("spans through rotel", {id: found.get(id) for id in expected} == expected, True)
    report(f"rotel: {len(expected)} spans came through it to phoenix")
    end(process)


def check_forwarding(phoenix):
    hub = Hub("forwarding", "--otlp-to", phoenix.url)
    env = home("forwarded")
    before, expected = phoenix.spans(), {}
    for scenario in ["a-single", "b-parallel-bg", "e-taskstop", "l-hostile-output", "c-deep"]:
        main = main_of(scenario)
        expected |= exported(main, env=env)
        below = os.path.dirname(main)
        for at, _, names in os.walk(below):
            for name in sorted(names):
                if name.endswith(".jsonl"):
                    with open(os.path.join(at, name), "rb") as file:
                        get(f"{hub.url}/api/v1/ingest/claude.transcript?source={name}", file.read(), "application/x-ndjson")
        if len(expected) > 20:
            # The hub is killed while sessions are due, and another one goes on.
            end(hub.process, signal.SIGKILL)
            hub.start()
    new = {id for id in expected if id not in before}
    wait_for("all spans are forwarded", lambda: new <= set(phoenix.spans()))
    found = phoenix.spans()
    check("forwarded spans", {id: found.get(id) for id in expected} == expected, True)
    report(f"serve --otlp-to: {len(expected)} spans forwarded to phoenix, with a hub that was killed")
    end(hub.process)


COLLECTOR_SETTINGS = """
receivers:
  filelog:
    include: [{log}]
    start_at: beginning
    resource: {{service.name: claude-code, service.version: 2.1.330}}
    operators:
      - type: json_parser
        parse_to: attributes
      - type: scope_name_parser
        parse_from: attributes.scope
exporters:
  otlphttp:
    endpoint: {url}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    logs: {{receivers: [filelog], exporters: [otlphttp]}}
"""


def check_collector():
    session = "78ab64e8-70c9-40a8-8a29-2204cf979037"
    direct, behind = Hub("collected-direct"), Hub("collected")
    log = os.path.join(FOLDER, "collected.log")
    count = 0
    with open(log, "w") as out:
        for path, body in recorded_requests():
            if not path.endswith("logs"):
                continue
            get(direct.url + path, json.dumps(body).encode())
            for resource in body["resourceLogs"]:
                for scope in resource["scopeLogs"]:
                    for record in scope["logRecords"]:
                        attributes = {one["key"]: value(one) for one in record["attributes"]}
                        out.write(json.dumps({"scope": scope["scope"]["name"], **attributes}) + "\n")
                        count += 1
    settings = os.path.join(FOLDER, "collector.yaml")
    with open(settings, "w") as out:
        out.write(COLLECTOR_SETTINGS.format(log=log, url=behind.url))
    process = start("collector", [COLLECTOR, "--config", settings])
    expected = rows(direct.tree(session))
    wait_for("the tree behind the Collector is that of the records", lambda: rows(behind.tree(session)) == expected, 60)
    report(f"collector: {count} log records came from it (protobuf, gzip); the tree is the same")
    for one in [process, direct.process, behind.process]:
        end(one)


os.makedirs(FOLDER, exist_ok=True)
try:
    if ROTEL != "-":
        check_rotel_in()
    if COLLECTOR != "-":
        check_collector()
    phoenix = Phoenix("phoenix")
    check_phoenix(phoenix)
    if ROTEL != "-":
        check_rotel_out(phoenix)
    check_forwarding(phoenix)
    check_kills()
finally:
    for process in started:
        process.kill()
