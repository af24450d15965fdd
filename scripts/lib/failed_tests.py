#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names the tests that failed, with their last lines: a long run is often only known by its end.

usage: failed_tests.py WORD REPORT

REPORT is what `ctest --output-junit` wrote; WORD stands before each name, such as `failed`. Where a
test is a whole suite of GoogleTest, each case of it that failed is named, with lines of its own; so is
the one that was at work when the process ended or was killed.
"""

import re
import sys
import xml.etree.ElementTree as xml

MOST_LINES = 30
MOST_CASES = 6  # of one test
BEGUN = re.compile(r"\[ RUN      \] (\S+)$")
OVER = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] ([^\s,]+)")


def failed_cases(output):
    """(name, lines) of each case of a GoogleTest program that did not end well."""
    cases = []
    name, lines = None, []
    for line in output.splitlines():
        if begun := BEGUN.search(line):
            name, lines = begun[1], []
            continue
        if name is None:
            continue
        lines.append(line)
        over = OVER.search(line)
        if over and over[2] == name:
            if over[1] == "FAILED":
                cases.append((name, lines))
            name = None
    if name is not None:
        cases.append((name, [*lines, "and it was at work when its process ended"]))
    return cases


def name_of(test, case):
    """`trainer.Job.Learns`, of the test `trainer.Job` or of one that has that name already."""
    suite = case.split(".")[0]
    if test.endswith("." + case):
        return test
    if test.endswith("." + suite):
        return test.removesuffix(suite) + case
    return f"{test}: {case}"


def failed_tests(report):
    for test in xml.parse(report).getroot().iter("testcase"):
        if test.get("status") not in ("run", "disabled") and test.find("skipped") is None:
            yield test.get("classname"), test.findtext("system-out") or "no output"


def print_part(word, name, lines):
    print(f"\n{word}: {name}")
    for line in lines[-MOST_LINES:]:
        print(f"  {line}")


def main():
    word, report = sys.argv[1:]
    for test, output in failed_tests(report):
        cases = failed_cases(output)
        for case, lines in cases[:MOST_CASES]:
            print_part(word, name_of(test, case), lines)
        if len(cases) > MOST_CASES:
            rest = [name_of(test, case) for case, _ in cases[MOST_CASES:]]
            print(f"\n{word}, too: {' '.join(rest)}")
        if not cases:
            print_part(word, test, output.splitlines())


if __name__ == "__main__":
    main()
