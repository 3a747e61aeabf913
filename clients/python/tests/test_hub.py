"""The library against a real hub, whose address is in SUBSCOPE_TEST_HUB."""

import os
import threading
import unittest

from subscope_client import Client, HubError, Publisher, PublishError

HUB = os.environ["SUBSCOPE_TEST_HUB"]


class HubTest(unittest.TestCase):
    def test_published_runs_are_in_lists_trees_and_the_live_feed(self):
        client = Client(HUB)
        self.assertEqual(client.health()["status"], "ok")
        seen, found = [], threading.Event()

        def follow():
            for name, data in client.live(timeout=20):
                seen.append((name, data))
                if name == "event" and data["kind"] == "subagent.stop":
                    found.set()
                    return

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        publisher = Publisher(HUB)
        with publisher.run("scout", prompt="Find the bug.") as run:
            run.thought("Where is it?")
            with run.call("Read", {"path": "a.rs"}) as call:
                call.result = "fn main() {}"
            run.result = "line 3"
        with self.assertRaises(ZeroDivisionError), publisher.run("breaker", prompt="Break.") as run:
            with run.call("Divide", {}):
                1 / 0
        agents = {}
        for session in client.sessions()["sessions"]:
            for agent in client.tree(session["id"])["agents"]:
                agents[agent["name"]] = agent
        scout, breaker = agents["scout"], agents["breaker"]
        self.assertEqual((scout["status"], scout["result"], scout["tool_calls"]), ("completed", "line 3", 1))
        self.assertEqual((breaker["status"], breaker["tool_errors"]), ("failed", 1))
        self.assertTrue(found.wait(20), seen)
        self.assertIn("subagent.start", [data["kind"] for name, data in seen if name == "event"])

    def test_errors_name_their_cause(self):
        with self.assertRaises(HubError) as raised:
            Client(HUB).tree("no-such-session")
        self.assertIn("404", str(raised.exception))
        with self.assertRaises(HubError):
            Client(HUB).stop("no-such-agent")
        nowhere = Publisher("http://127.0.0.1:9", timeout=1)
        with self.assertRaises(PublishError) as raised:
            nowhere.publish("subagent_start", "scout", "r1")
        self.assertIn("run r1", str(raised.exception))
        nowhere.publish("subagent_end", "scout", "r1")
        Publisher(None).publish("subagent_start", "scout", "r1")


if __name__ == "__main__":
    unittest.main()
