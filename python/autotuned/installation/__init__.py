# SPDX-License-Identifier: Apache-2.0
"""Where this installation lies, and the command of the wheel."""
