#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Adds up the cases of a ctest run and prints failures, skips and `N passed, N failed` last.

A test program prints `kiln-test: N passed, N failed, N skipped`; a test without that line counts as one
case by its exit status. A program that dies after or before its count line adds one failure.

Programs that failed may have run once more, alone: what they say then counts. One that fails only beside others is
told as unsteady, with its first output: it leans on time or on the machine, and wants mending.
"""
import os
import re
import sys
import xml.etree.ElementTree as ET

COUNTS = re.compile(r"^kiln-test: (\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
REASON = re.compile(r"Test +#\d+: (\S+) \.*\*{3}(.+?) +[\d.]+ sec$", re.M)


def outcome(case):
    """passed, failed, skipped and the text of one ctest entry."""
    text = "".join(part.text or "" for part in case.iter("system-out"))
    status = case.get("status")
    found = COUNTS.findall(text)
    passed, failed, skipped = (sum(int(row[i]) for row in found) for i in range(3))
    if status == "run":
        if not found:
            passed = 1
    elif status in ("disabled", "notrun"):
        failed += 1
    elif failed == 0:
        failed = 1
    return passed, failed, skipped, text, status


def cases_of(path):
    return ET.parse(path).getroot().findall("testcase")


def main():
    try:
        cases = cases_of(sys.argv[1])
        alone = {case.get("name"): case for case in cases_of(sys.argv[3])} if os.path.exists(sys.argv[3]) else {}
    except (OSError, ET.ParseError) as error:
        sys.stderr.write(open(sys.argv[2], errors="replace").read())
        sys.exit(f"test_summary: no results: {error}")
    # "SegFault", "Timeout": the XML file says only that it failed.
    with open(sys.argv[2], errors="replace", encoding="utf-8") as log:
        reasons = dict(REASON.findall(log.read()))
    total = [0, 0, 0]
    slow = []
    unsteady = []
    for case in cases:
        passed, failed, skipped, text, status = outcome(case)
        first = text
        if failed and case.get("name") in alone:
            passed, failed, skipped, text, status = outcome(alone[case.get("name")])
            if not failed:
                unsteady.append(case.get("name"))
                print(f"---- {case.get('name')}: UNSTEADY, passes alone, failed beside others:")
                print(first.rstrip()[-20000:])
        total = [a + b for a, b in zip(total, (passed, failed, skipped))]
        slow.append((float(case.get("time", "0")), case.get("name")))
        if failed:
            print(f"---- {case.get('name')}: {reasons.get(case.get('name'), status)} after {float(case.get('time', '0')):.1f} s")
            print(text.rstrip()[-20000:])
        elif skipped:
            for line in text.splitlines():
                if line.startswith("SKIP "):
                    print(line)
    if not cases:
        print("no test has such a name: `ctest --test-dir FOLDER -N` lists them")
    slow.sort(reverse=True)
    print(f"{len(cases)} programs; slowest: "
          + ", ".join(f"{name} {seconds:.1f} s" for seconds, name in slow[:3]))
    if total[2]:
        print(f"{total[2]} skipped")
    if unsteady:
        print(f"{len(unsteady)} unsteady: {', '.join(unsteady)}")
    print(f"{total[0]} passed, {total[1]} failed")
    sys.exit(1 if total[1] or not total[0] else 0)


main()
