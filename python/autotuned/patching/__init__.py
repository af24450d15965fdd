# SPDX-License-Identifier: Apache-2.0
"""What was kept, as a change of the script's text."""
