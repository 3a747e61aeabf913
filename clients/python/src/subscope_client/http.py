"""HTTP to a hub of this machine. No proxy is used: the address is local."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path

#: Opens requests without a proxy.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def token(explicit: str | None = None) -> str | None:
    """Returns the token for a hub: the given one, or the file beside the hub's socket (macOS)."""
    if explicit is not None:
        return explicit
    data = os.environ.get("SUBSCOPE_DATA_DIR")
    if not data:
        share = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        data = os.path.join(share, "subscope")
    try:
        return Path(data, "token").read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def request(
    url: str, shown: str | None, body: bytes | None = None, more: dict[str, str] | None = None
) -> urllib.request.Request:
    """Returns a request with the token, more headers, and a JSON body if there is one."""
    headers = dict(more or {})
    if shown:
        headers["authorization"] = "Bearer " + shown
    if body is not None:
        headers["content-type"] = "application/json"
    return urllib.request.Request(url, body, headers, method="GET" if body is None else "POST")
