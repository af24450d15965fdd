# SPDX-License-Identifier: Apache-2.0
"""The knobs of a script and the configuration in force."""
