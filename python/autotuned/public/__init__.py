# SPDX-License-Identifier: Apache-2.0
"""What a program of the user may call: `compare()`, `session()` and `tune()`."""
