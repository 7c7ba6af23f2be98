"""The examples of README.md."""

import ast
import contextlib
import io
import re
import unittest

from .support import ROOT, Node


class ReadmeTest(unittest.TestCase):
    def test_the_first_minute_prints_a_denial(self) -> None:
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / "clients/python/README.md").read_text("utf-8"), re.S)
        node = Node()
        self.addCleanup(node.stop)
        first = blocks[0].replace("http://127.0.0.1:8080", node.url)
        self.assertNotEqual(first, blocks[0])
        # On a busy machine a check takes longer than by default.
        first = first.replace(f'"{node.url}"', f'"{node.url}", timeout_ms=30_000')
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(first, {})
        self.assertRegex(printed.getvalue(), r"\ATrue 200 1 None\nTrue 200 0 None\nFalse 429 0 \d+\n\Z")
        for block in blocks[1:]:  # the others need a program around them
            compile(block, "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


if __name__ == "__main__":
    unittest.main()
