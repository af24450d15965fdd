#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/lib/failed_tests.py on a report as CTest writes it: the cases of a suite that failed are named."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.sax.saxutils

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "scripts/lib/failed_tests.py"


def case_of(name, status, output):
    return (f'<testcase name="{name}" classname="{name}" time="0.1" status="{status}">'
            f"<system-out>{xml.sax.saxutils.escape(output)}</system-out></testcase>\n")


def told_of(*cases):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "tests.xml"
        report.write_text(f'<?xml version="1.0"?>\n<testsuite>\n{"".join(cases)}</testsuite>\n')
        done = subprocess.run([sys.executable, "-B", PROGRAM, "failed", report],
                              capture_output=True, text=True, check=True)
        return done.stdout


class FailedTests(unittest.TestCase):
    def test_those_that_passed_are_not_told(self):
        skipped = ('<testcase name="a" classname="a" status="notrun"><skipped message="no GPU"/>'
                   "</testcase>")
        self.assertEqual(told_of(case_of("b", "run", "[  FAILED  ] B.C"), skipped), "")

    def test_the_cases_of_a_suite_are_named_with_lines_of_their_own(self):
        output = ("Note: Google Test filter = Job.*\n"
                  "[ RUN      ] Job.Learns\nfile.cpp:3: Failure\nno gain <1>\n"
                  "[  FAILED  ] Job.Learns (5 ms)\n"
                  "[ RUN      ] Job.Ends\nof no interest\n[       OK ] Job.Ends (7 ms)\n"
                  "[ RUN      ] Job.Waits\nno end of linetext[  FAILED  ] Job.Waits, where GetParam() = 3 (5 ms)\n"
                  "[----------] 3 tests from Job (17 ms total)\n"
                  "[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] Job.Learns\n[  FAILED  ] Job.Waits\n")
        self.assertEqual(told_of(case_of("trainer.Job", "fail", output)),
                         "\nfailed: trainer.Job.Learns\n  file.cpp:3: Failure\n  no gain <1>\n"
                         "  [  FAILED  ] Job.Learns (5 ms)\n"
                         "\nfailed: trainer.Job.Waits\n"
                         "  no end of linetext[  FAILED  ] Job.Waits, where GetParam() = 3 (5 ms)\n")

    def test_the_case_at_whose_end_there_is_no_process_is_named(self):
        output = "[ RUN      ] All/Loss.IsRight/2\nterminate called\n"
        self.assertEqual(told_of(case_of("trainer.models.All/Loss", "fail", output)),
                         "\nfailed: trainer.models.All/Loss.IsRight/2\n  terminate called\n"
                         "  and it was at work when its process ended\n")

    def test_a_test_that_is_one_case_keeps_its_name(self):
        output = "[ RUN      ] Text.IsOne\nno\n[  FAILED  ] Text.IsOne (0 ms)\n"
        self.assertEqual(told_of(case_of("base.Text.IsOne", "fail", output)),
                         "\nfailed: base.Text.IsOne\n  no\n  [  FAILED  ] Text.IsOne (0 ms)\n")

    def test_of_another_program_the_last_lines_are_told(self):
        output = "".join(f"line {number}\n" for number in range(40))
        told = told_of(case_of("python.loader", "fail", output)).splitlines()
        self.assertEqual(told[:3], ["", "failed: python.loader", "  line 10"])
        self.assertEqual(len(told), 2 + 30)
        self.assertIn("no output", told_of('<testcase name="a" classname="a" status="fail"/>'))

    def test_of_many_cases_most_are_names_alone(self):
        output = "".join(f"[ RUN      ] Job.N{number}\n[  FAILED  ] Job.N{number} (0 ms)\n"
                         for number in range(9))
        told = told_of(case_of("trainer.Job", "fail", output)).splitlines()
        self.assertEqual(sum(line.startswith("failed: ") for line in told), 6)
        self.assertEqual(told[-1], "failed, too: trainer.Job.N6 trainer.Job.N7 trainer.Job.N8")


if __name__ == "__main__":
    unittest.main()
