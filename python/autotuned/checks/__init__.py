# SPDX-License-Identifier: Apache-2.0
"""Checks that a configuration trains the same model."""
