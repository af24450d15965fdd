# SPDX-License-Identifier: Apache-2.0
"""What the package says of itself."""

import contextlib
import unittest
from types import SimpleNamespace
from unittest import mock

import torch

from autotuned.agent import description


class DescriptionTest(unittest.TestCase):
    def test_the_hello_leaves_cuda_to_the_script(self):
        # Each of these starts CUDA, which then knows its GPUs for good: the script has not had a
        # line yet in which to choose one.
        asked = [
            (torch.cuda, "is_available"),
            (torch.cuda, "device_count"),
            (torch.cuda, "get_device_properties"),
            (torch.cuda, "init"),
            (torch.accelerator, "is_available"),
        ]
        with contextlib.ExitStack() as patches:
            for module, name in asked:
                patches.enter_context(
                    mock.patch.object(module, name, side_effect=AssertionError(name))
                )
            hello = description.of_agent()
        self.assertEqual((hello["devices"], hello["device_uuids"]), (["cpu"], []))
        self.assertIn("has not used CUDA yet", hello["cuda_reason"])

    def test_gpus_that_are_in_use_are_told(self):
        # The second is told as a PyTorch before 2.4 does.
        gpus = [SimpleNamespace(uuid="2a3c"), SimpleNamespace()]
        with (
            mock.patch.object(torch.cuda, "is_initialized", return_value=True),
            mock.patch.object(torch.cuda, "device_count", return_value=2),
            mock.patch.object(torch.cuda, "get_device_properties", side_effect=gpus.__getitem__),
        ):
            hello = description.of_agent()
        self.assertEqual(hello["devices"], ["cpu", "cuda:0", "cuda:1"])
        self.assertEqual(hello["device_uuids"], ["2a3c", ""])
        self.assertEqual((hello["cuda_reason"], hello["cupti_reason"]), ("", ""))


if __name__ == "__main__":
    unittest.main()
