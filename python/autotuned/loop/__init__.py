# SPDX-License-Identifier: Apache-2.0
"""The training loop of a script: its events, its steps, and the objects that it trains with."""
