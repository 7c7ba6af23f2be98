"""Options, tokens and the helper for Retry-After."""

import logging
import os
import re
import ssl
import subprocess
import tempfile
import unittest
from pathlib import Path

import sluice
from sluice.secret import Token

from .support import PATIENCE, ROOT, Fake, direct


class OptionsTest(unittest.TestCase):
    def test_wrong_options_are_errors_that_do_not_tell_the_token(self) -> None:
        for base, options in (
            ("ftp://a", {}), ("127.0.0.1:8080", {}), ("http://", {}), ("http://a?b", {}), ("http://a#b", {}),
            ("http://u:hunter2@a", {}), ("http://a\r\nX: y", {}), ("http://a:x", {}), ("http://ä", {}),
            ("http://a", {"fail_mode": "maybe"}), ("http://a", {"timeout_ms": 0}), ("http://a", {"max_conns": -1}),
            ("http://a", {"token": "hunter2\r\nX: y"}), ("http://a", {"token": "hunter2 x"}),
            ("http://a", {"token": "hunter2", "token_file": "/x"}), ("http://a", {"call_timeout_ms": -1}),
        ):
            with self.assertRaises(ValueError, msg=(base, options)) as raised:
                sluice.Client(base, **options)
            self.assertNotIn("hunter2", str(raised.exception))
        self.assertNotIn("hunter2", repr(sluice.Client("http://a", token="hunter2")))

    def test_a_token_is_sent_only_if_there_is_one(self) -> None:
        fake = Fake()
        self.addCleanup(fake.close)
        for options, want in (({}, None), ({"token": ""}, None), ({"token": "slk_a"}, "Bearer slk_a")):
            with sluice.Client(fake.url + "/base/", timeout_ms=PATIENCE, **options) as client:
                client.check(direct("k"))
            self.assertEqual(fake.calls[-1].headers.get("Authorization"), want)
            self.assertEqual(fake.calls[-1].path, "/base/ratelimit/check")

    def test_a_changed_token_of_a_file_is_used(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "token")
            with self.assertRaises(OSError):
                sluice.Client("http://a", token_file=file)
            Path(file).write_text("slk_first\n", encoding="ascii")
            token = Token(None, file, logging.getLogger("token"))
            self.assertEqual(token.header(), b"Authorization: Bearer slk_first\r\n")
            Path(file).write_text("slk_second\n", encoding="ascii")
            token._read_at -= 1
            self.assertEqual(token.value(), "slk_second")
            for broken in ("", "hunter2 x", "h" * 70_000):
                Path(file).write_text(broken, encoding="ascii")
                with self.assertLogs("token", "WARNING") as said:
                    for _ in range(2):
                        token._read_at -= 1
                        self.assertEqual(token.value(), "slk_second")
                self.assertEqual(len(said.output), 1)
                self.assertNotIn("hunter2", said.output[0])
                token._problem = ""

    def test_a_token_travels_in_tls_however_the_scheme_is_written(self) -> None:
        for base, secure in (("https://a", True), ("HTTPS://a", True), ("http://a", False), ("HTTP://a", False)):
            client = sluice.Client(base, token="slk_a", tls=ssl.create_default_context())
            self.assertEqual(client._tls is not None, secure, base)

    def test_https_verifies_the_server(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            key, cert = os.path.join(folder, "key"), os.path.join(folder, "cert")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert,
                            "-subj", "/CN=sluice", "-addext", "subjectAltName=IP:127.0.0.1"], check=True,
                           capture_output=True)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert, key)
            fake = Fake(context)
            self.addCleanup(fake.close)
            tls = ssl.create_default_context(cafile=cert)
            with sluice.Client(fake.url, tls=tls, token="slk_a", timeout_ms=PATIENCE) as client:
                self.assertIsNone(client.check(direct("k")).degraded)
        errors = []
        with sluice.Client(fake.url, token="slk_a", timeout_ms=PATIENCE, on_degraded=errors.append) as client:
            self.assertEqual(client.check(direct("k")).degraded, "open")
        self.assertIn("CERTIFICATE_VERIFY_FAILED", str(errors[0]))
        self.assertEqual(len(fake.calls), 1)

    def test_the_version_is_that_of_the_service(self) -> None:
        stated = re.search(r"^info:\n(?:  .*\n)*?  version: (\S+)$", (ROOT / "openapi.yaml").read_text("utf-8"), re.M)
        project = re.search(r'^version = "(.*)"$', (ROOT / "clients/python/pyproject.toml").read_text("utf-8"), re.M)
        assert stated and project
        self.assertEqual((sluice.__version__, project[1]), (stated[1], stated[1]))


class RetryAfterTest(unittest.TestCase):
    def test_reads_seconds_and_dates(self) -> None:
        now = 784111777.0  # Sun, 06 Nov 1994 08:49:37 GMT
        for value, want in (
            ("12", 12.0), (" 0 ", 0.0), ("Sun, 06 Nov 1994 08:50:37 GMT", 60.0),
            ("Sunday, 06-Nov-94 08:49:38 GMT", 1.0),
            ("Sun Nov  6 08:49:47 1994", 10.0), ("Sun, 06 Nov 1994 08:00:00 GMT", 0.0),
            ("-1", None), ("1.5", None), ("", None), ("soon", None), ("9" * 40, None), (None, None), ("١", None),
        ):
            self.assertEqual(sluice.retry_after(value, now=now), want, value)

    def test_reads_headers_and_answers(self) -> None:
        self.assertEqual(sluice.retry_after({"Retry-After": "3"}), 3.0)
        self.assertEqual(sluice.retry_after({"retry-after": "3"}, most_s=3), 3.0)
        self.assertIsNone(sluice.retry_after({"Retry-After": "86400"}, most_s=60))
        self.assertIsNone(sluice.retry_after({}))
        self.assertEqual(sluice.retry_after(sluice.Answer(status=429, retry_after_ms=190)), 0.19)
        self.assertIsNone(sluice.retry_after(sluice.Answer(status=429, retry_after_ms=-1)))
        self.assertIsNone(sluice.retry_after(sluice.Answer(status=200)))


if __name__ == "__main__":
    unittest.main()
