"""Servers for the tests: a real node, and one that answers what a test wants."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import sluice

ROOT = Path(__file__).resolve().parents[3]
# How long a test waits for what is sure to come, in ms.
PATIENCE = 30_000

_binary: Optional[str] = None
_folder: Optional[tempfile.TemporaryDirectory] = None


def binary() -> str:
    """The path of the program sluice: SLUICE_BIN, or one that is built once."""
    global _binary, _folder
    if _binary is None:
        _binary = os.environ.get("SLUICE_BIN")
    if not _binary:
        _folder = tempfile.TemporaryDirectory()
        _binary = os.path.join(_folder.name, "sluice")
        subprocess.run([os.environ.get("GO", "go"), "build", "-o", _binary, "./cmd/sluice"], cwd=ROOT, check=True)
    return _binary


class Node:
    """A node with an embedded store on a free port of the loopback address."""

    def __init__(self, rules: str = "", token: bool = False) -> None:
        self.folder = tempfile.mkdtemp()
        # The credential for every call, until there is a token.
        self.token_file = os.path.join(self.folder, "local-token")
        self.token: Optional[str] = None
        if token:
            self.token = self.run("token", "create", "gateway", "--scopes", "check").strip().split()[-1]
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._log = open(os.path.join(self.folder, "log"), "wb")
        self._process = subprocess.Popen(
            [binary(), "serve", "--listen", f"127.0.0.1:{port}", "--data-dir", self.folder], stdout=self._log,
            stderr=subprocess.STDOUT)
        self._await()
        if rules:
            file = os.path.join(self.folder, "rules.yaml")
            Path(file).write_text(rules, encoding="utf-8")
            self.run("rules", "apply", "-f", file, "--server", self.url)

    def run(self, *args: str) -> str:
        """Runs a command of the program on the data of the node."""
        env = {**os.environ, "SLUICE_DATA_DIR": self.folder}
        done = subprocess.run([binary(), *args], env=env, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"sluice {' '.join(args)}: {done.stdout}{done.stderr}")
        return done.stdout

    def _await(self) -> None:
        tick = threading.Event()
        for _ in range(PATIENCE // 50):
            try:
                urllib.request.urlopen(self.url + "/readyz", timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                if self._process.poll() is not None:
                    break
            tick.wait(0.05)
        self.stop(keep=True)
        log = Path(self.folder, "log").read_text(encoding="utf-8")
        shutil.rmtree(self.folder)
        raise RuntimeError("the node did not start:\n" + log)

    def stop(self, keep: bool = False) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()
        if not keep:
            shutil.rmtree(self.folder)

    @property
    def pid(self) -> int:
        return self._process.pid


class Call(NamedTuple):
    """A request that a Fake got."""

    path: str
    headers: Dict[str, str]
    bodies: List[Dict[str, Any]]  # one for each check


class Reply(NamedTuple):
    """What a Fake answers. raw replaces the whole response; None as raw closes the connection without one."""

    status: int = 200
    body: str = ""
    raw: Optional[bytes] = b""


def allowed(check: Dict[str, Any]) -> Dict[str, Any]:
    """The answer to a check, with its key as that of a limit."""
    return {"allowed": True, "status": 200, "degraded": None, "rule": None, "headers": {}, "limits": [
        {"rule": None, "key": check.get("key", ""), "allowed": True, "limit": 5, "mode": "enforce"}]}


class Fake:
    """A server on the loopback address that allows every check, unless a test says otherwise."""

    def __init__(self, tls: Optional[ssl.SSLContext] = None) -> None:
        self.calls: List[Call] = []
        self.reply: Callable[[Call], Optional[Reply]] = lambda call: None
        self.gate = threading.Event()  # calls wait for it before their response
        self.gate.set()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                bodies = document["checks"] if self.path.endswith("/batch") else [document]
                call = Call(self.path, dict(self.headers), bodies)
                fake.calls.append(call)
                fake.gate.wait()
                reply = fake.reply(call)
                if reply is None:
                    results = [allowed(body) for body in bodies]
                    document = {"results": results} if self.path.endswith("/batch") else results[0]
                    reply = Reply(body=json.dumps(document))
                if reply.raw is None or reply.raw:
                    self.close_connection = True
                    self.wfile.write(reply.raw or b"")
                    return
                self.send_response(reply.status)
                kind = "application/json" if reply.status < 400 else "application/problem+json"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(reply.body.encode())))
                self.end_headers()
                self.wfile.write(reply.body.encode())

            def log_message(self, *args: Any) -> None:
                pass

            def handle(self) -> None:
                try:
                    super().handle()
                except ConnectionError:  # the client gave up
                    pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self.gate.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def problem(status: int, name: str, errors: Tuple[Tuple[str, str], ...] = ()) -> Reply:
    """A problem document of the service."""
    document: Dict[str, Any] = {"type": "/problems/" + name, "title": name, "status": status}
    if errors:
        document["errors"] = [{"field": field, "message": message} for field, message in errors]
    return Reply(status, json.dumps(document))


def direct(key: str, **more: Any) -> sluice.Check:
    """A direct check of a key."""
    return sluice.Check(key=key, limit=sluice.Limit(5, 60_000), **more)
