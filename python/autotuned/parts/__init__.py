# SPDX-License-Identifier: Apache-2.0
"""The parts of a training, one by one: tensors, random numbers, modules, optimizers, loaders."""
