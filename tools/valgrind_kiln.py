#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs a command under valgrind and reports only what Kiln itself did wrong.

PoCL, LLVM and CLBlast keep memory until the process ends and read uninitialised bytes of their own. An
error counts when the first frame outside the C library and valgrind belongs to one of Kiln's objects.
"""
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

OURS = ("/libkiln", "/bin/kiln", "/lib/kiln/", "/tests/bin/", "/bin/collective_demo",
        "/bin/remote_demo")
NEUTRAL = ("/libc.so", "/libc-", "/vgpreload", "/ld-linux", "/libpthread", "/libm.so")


def blamed(stack):
    """The object that a stack is charged to, or None."""
    for frame in stack.iter("frame"):
        path = frame.findtext("obj", "")
        if path and not any(part in path for part in NEUTRAL):
            return path
    return None


def describe(error):
    what = error.findtext("what") or error.findtext("xwhat/text") or "?"
    lines = [f"{error.findtext('kind')}: {what}"]
    for frame in list(error.iter("frame"))[:12]:
        place = frame.findtext("file", os.path.basename(frame.findtext("obj", "?")))
        lines.append(f"    {frame.findtext('fn', '?')} ({place}:{frame.findtext('line', '?')})")
    return "\n".join(lines)


def main():
    with tempfile.TemporaryDirectory(prefix="kiln-valgrind-") as folder:
        log = os.path.join(folder, "log.xml")
        command = ["valgrind", "--leak-check=full", "--show-leak-kinds=definite", "--xml=yes",
                   f"--xml-file={log}", "--num-callers=40", *sys.argv[1:]]
        status = subprocess.run(command, check=False).returncode
        try:
            errors = list(ET.parse(log).getroot().iter("error"))
        except (OSError, ET.ParseError) as problem:
            sys.exit(f"valgrind wrote no report: {problem}")
    mine = []
    for error in errors:
        stack = error.find("stack")
        if stack is not None and any(part in (blamed(stack) or "") for part in OURS):
            mine.append(error)
    for error in mine:
        print(describe(error))
    print(f"valgrind: {len(mine)} errors of Kiln, {len(errors) - len(mine)} of other libraries, "
          f"status {status}")
    sys.exit(1 if mine or status else 0)


main()
