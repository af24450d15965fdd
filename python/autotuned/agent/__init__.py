# SPDX-License-Identifier: Apache-2.0
"""The side of a script in the conversation with a session."""
