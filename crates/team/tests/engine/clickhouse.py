"""Serves the real ClickHouse engine (PyPI chdb-core) over ClickHouse's HTTP interface, for tests.

    clickhouse.py FOLDER PORT [USER PASSWORD]

It is not clickhouse-server: it runs one query at a time, replicates nothing, has no native port and no users beyond
the given one. It takes a query in the URL or the body; data in the body, plain, in gzip, or in ClickHouse's frames of
LZ4 (decompress=1); parameters (param_*) in the URL or as multipart; any format and any setting. FOLDER outlives
kill -9. Prints its URL once it listens.
"""

import base64
import gzip
import os
import struct
import sys
import tempfile
import threading
import urllib.parse
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import lz4.block
import lz4.frame
from chdb import session
from clickhouse_cityhash.cityhash import CityHash128

# Parameters of the URL that are no settings.
NO_SETTINGS = {
    "query", "database", "default_format", "compress", "decompress", "user", "password", "session_id",
    "session_check", "session_timeout", "query_id", "wait_end_of_query", "buffer_size", "role",
    "send_progress_in_http_headers", "enable_http_compression", "add_http_cors_header",
}
BLOCK = 1 << 20


def decompressed(frames):
    """Decodes ClickHouse's frames: checksum (16), method, size, size of the data, data."""
    out, at = [], 0
    while at < len(frames):
        method, size, raw = struct.unpack_from("<BII", frames, at + 16)
        data = frames[at + 25 : at + 16 + size]
        out.append(lz4.block.decompress(data, uncompressed_size=raw) if method == 0x82 else data)
        at += 16 + size
    return b"".join(out)


def compressed(data):
    out = []
    for at in range(0, len(data), BLOCK) or [0]:
        raw = data[at : at + BLOCK]
        block = lz4.block.compress(raw, store_size=False)
        block = struct.pack("<BII", 0x82, len(block) + 9, len(raw)) + block
        checksum = CityHash128(block)
        # The low half first, as ClickHouse writes it.
        out.append(struct.pack("<QQ", checksum >> 64, checksum & (1 << 64) - 1) + block)
    return b"".join(out)


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def credentials(self, query):
        header = self.headers.get("Authorization", "")
        if header.startswith("Basic "):
            return tuple(base64.b64decode(header[6:]).decode().split(":", 1))
        user = self.headers.get("X-ClickHouse-User", query.get("user"))
        return user, self.headers.get("X-ClickHouse-Key", query.get("password"))

    def answer(self):
        url = urllib.parse.urlparse(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        body = self.body()
        if url.path == "/ping":
            return self.send(200, b"Ok.\n")
        if ACCOUNT and self.credentials(query) != ACCOUNT:
            text = b"Code: 516. DB::Exception: Authentication failed. (AUTHENTICATION_FAILED)"
            return self.send(403, text, {"X-ClickHouse-Exception-Code": "516"})
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/form-data"):
            message = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
            for part in message.get_payload():
                name = part.get_param("name", header="content-disposition")
                query[name] = part.get_payload(decode=True).decode()
            body = b""
        encoding = self.headers.get("Content-Encoding")
        if encoding == "gzip":
            body = gzip.decompress(body)
        elif encoding == "lz4":
            body = lz4.frame.decompress(body)
        if query.get("decompress") == "1" and body:
            body = decompressed(body)
        sql = query.get("query", "")
        if not sql:
            sql, body = body.decode(), b""
        try:
            data, format_name = self.run(sql.strip().rstrip(";"), body, query)
        except Exception as error:
            status = 404 if "UNKNOWN_TABLE" in str(error) else 500
            return self.send(status, str(error).encode(), {"X-ClickHouse-Exception-Code": "1"})
        self.send(200, compressed(data) if query.get("compress") == "1" else data, {"X-ClickHouse-Format": format_name})

    do_GET = do_POST = answer

    def run(self, sql, body, query):
        with LOCK:
            if query.get("database"):
                SESSION.query("USE `%s`" % query["database"].replace("`", ""))
            for name, value in query.items():
                if name.startswith("param_") or name not in NO_SETTINGS:
                    SESSION.query("SET %s = %s" % (name, quoted(value)))
            if sql.upper().startswith("INSERT") and body:
                path = os.path.join(SCRATCH, "data")
                with open(path, "wb") as file:
                    file.write(body)
                head, _, format_name = sql.rpartition(" FORMAT ")
                SESSION.query("%s FROM INFILE '%s' FORMAT %s" % (head, path, format_name))
                return b"", format_name
            format_name = query.get("default_format") or "TabSeparated"
            if " FORMAT " in sql.upper():
                at = sql.upper().rindex(" FORMAT ")
                sql, format_name = sql[:at], sql[at + 8 :].strip()
            result = SESSION.query(sql, format_name)
            return (result.bytes() if result is not None else b""), format_name

    def send(self, status, data, headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), "X-ClickHouse-Summary": "{}", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    SESSION, LOCK, SCRATCH = session.Session(sys.argv[1]), threading.Lock(), tempfile.mkdtemp()
    ACCOUNT = tuple(sys.argv[3:5]) or None
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    server.daemon_threads = True
    print("http://127.0.0.1:%d" % server.server_port, flush=True)
    server.serve_forever()
