"""The token of a client."""

from __future__ import annotations

import logging
import threading
import time
from typing import Optional

# How long a file's token is used without looking at the file, in s, and the size of the largest file, in bytes.
_FRESH = 1.0
_MAX_SIZE = 64 << 10


class Token:
    """The token in force, of an option or a file. It never appears in an error, a log or repr. It is safe for
    concurrent use."""

    def __init__(self, token: Optional[str], file: Optional[str], log: logging.Logger) -> None:
        if token and file:
            raise ValueError("set token or token_file, not both")
        self._file, self._log = file, log
        self._problem = ""
        self._lock = threading.Lock()
        self._read_at = time.monotonic()
        if file:
            token = self._load()
        elif token:
            _check(token, "token")
        self._value = token or ""

    def header(self) -> bytes:
        """The line of the header Authorization, empty without a token."""
        value = self.value()
        return f"Authorization: Bearer {value}\r\n".encode("ascii") if value else b""

    def value(self) -> str:
        """The token in force, "" if there is none."""
        if self._file and time.monotonic() - self._read_at >= _FRESH and self._lock.acquire(blocking=False):
            try:
                self._read_at = time.monotonic()
                self._reload()
            finally:
                self._lock.release()
        return self._value

    def _reload(self) -> None:
        try:
            self._value, self._problem = self._load(), ""
        except (OSError, ValueError) as e:
            if str(e) != self._problem:
                self._problem = str(e)
                self._log.warning("the file of the token is not usable; its previous token stays in use: %s", e)

    def _load(self) -> str:
        assert self._file is not None
        with open(self._file, "rb") as f:
            raw = f.read(_MAX_SIZE + 1)
        if len(raw) > _MAX_SIZE:
            raise ValueError(f"token_file: {self._file} has more than {_MAX_SIZE} bytes")
        token = raw.decode("latin-1").rstrip("\r\n")
        _check(token, f"token_file: {self._file}")
        return token


def _check(token: str, setting: str) -> None:
    if not token or any(not "!" <= c <= "~" for c in token):
        raise ValueError(f"{setting}: a token is one word of visible ASCII characters")
