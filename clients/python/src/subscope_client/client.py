"""Queries of a hub, and its live feed."""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import quote, urlencode

from .http import OPENER, request, token
from .model import Health, Hits, Ordered, SessionPage, Stats, Tree

#: Seconds for one answer.
TIMEOUT = 30.0


class HubError(Exception):
    """A hub refused a request, or did not answer."""


class Client:
    """A hub at an address, as `subscope serve` prints it."""

    def __init__(self, address: str, *, token: str | None = None, timeout: float = TIMEOUT) -> None:
        self._address = address.rstrip("/")
        self._token = token
        self._timeout = timeout

    def _open(
        self,
        path: str,
        body: bytes | None = None,
        *,
        headers: dict[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        asked = request(self._address + path, token(self._token), body, headers)
        try:
            return OPENER.open(asked, timeout=timeout or self._timeout)
        except urllib.error.HTTPError as error:
            raise HubError(f"{path}: {error.code}: {error.read(4096).decode(errors='replace')}") from error
        except OSError as error:
            raise HubError(f"{path}: {error}") from error

    def _get(self, path: str, **query: Any) -> Any:
        words = urlencode({key: value for key, value in query.items() if value is not None})
        with self._open(path + ("?" + words if words else "")) as answer:
            return json.loads(answer.read())

    def health(self) -> Health:
        """Returns the version, mode and address of the hub."""
        return cast(Health, self._get("/healthz"))

    def sessions(
        self, *, limit: int | None = None, after: str | None = None, q: str | None = None, live: bool | None = None
    ) -> SessionPage:
        """Returns a page of sessions, the newest first; `next` of a page is `after` of the following one."""
        only = None if live is None else str(live).lower()
        return cast(SessionPage, self._get("/api/v1/sessions", limit=limit, after=after, q=q, live=only))

    def tree(self, session: str) -> Tree:
        """Returns the agents of a session."""
        return cast(Tree, self._get(f"/api/v1/sessions/{quote(session, safe='')}/tree"))

    def search(self, words: str, *, session: str | None = None, limit: int | None = None) -> Hits:
        """Finds words in prompts, messages, thoughts, tool arguments and results."""
        return cast(Hits, self._get("/api/v1/search", q=words, session=session, limit=limit))

    def stats(self) -> Stats:
        """Returns statistics over all sessions."""
        return cast(Stats, self._get("/api/v1/stats"))

    def stop(self, agent: str, *, session: str | None = None) -> Ordered:
        """Asks one subagent to stop."""
        query = "?" + urlencode({"session": session}) if session else ""
        path = f"/api/v1/agents/{quote(agent, safe='')}/stop{query}"
        with self._open(path, b"{}", headers={"x-subscope": "1"}) as answer:
            return cast(Ordered, json.loads(answer.read()))

    def live(self, *, after: int | None = None, timeout: float = 60.0) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields everything that happens: `event`, `snapshot`, `change`, `caught-up`, `missed`, `reset`, with its data.

        `after` is the `seq` of the last event that was seen. The iteration ends when the hub ends.
        """
        headers = {} if after is None else {"last-event-id": str(after)}
        with self._open("/api/v1/live", headers=headers, timeout=timeout) as answer:
            name = "message"
            lines: list[str] = []
            for raw in answer:
                line = raw.decode().rstrip("\r\n")
                if not line:
                    if lines:
                        yield name, json.loads("\n".join(lines))
                    name = "message"
                    lines = []
                    continue
                field, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if field == "event":
                    name = value
                elif field == "data":
                    lines.append(value)
