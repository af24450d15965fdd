# SPDX-License-Identifier: Apache-2.0
"""autotuned.Loader in loops of a script: its order, its memory, its ends."""

import gc
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref
from pathlib import Path

import torch

import autotuned
from pictures import FIXTURES, write_png

SAMPLES = 23
DATA = {"type": "synthetic", "samples": SAMPLES, "shape": [3, 4, 4], "classes": 7}


def loader(**options):
    return autotuned.Loader(DATA, **{"batch_size": 5, "shuffle": True, **options})


def copies(batches):
    return [(images.clone(), targets.clone()) for images, targets in batches]


class LoaderTest(unittest.TestCase):
    def assert_same(self, one, other):
        self.assertEqual(len(one), len(other))
        for (images, targets), (others, their_targets) in zip(one, other):
            self.assertTrue(torch.equal(images, others))
            self.assertTrue(torch.equal(targets, their_targets))

    def test_a_loop_is_an_epoch(self):
        loads = loader()
        self.assertEqual((len(loads), loads.samples, loads.batch_size), (5, SAMPLES, 5))
        first, second = copies(loads), copies(loads)
        self.assertEqual([len(targets) for _, targets in first], [5, 5, 5, 5, 3])
        self.assertEqual(first[0][0].shape, (5, 3, 4, 4))
        self.assertEqual((first[0][0].dtype, first[0][1].dtype), (torch.uint8, torch.int64))

        def sorted_pictures(batches):
            return sorted(tuple(one.flatten().tolist()) for images, _ in batches for one in images)

        self.assertEqual(sorted_pictures(first), sorted_pictures(second))
        self.assertFalse(torch.equal(first[0][0], second[0][0]))

    def test_drops_the_last_batch_if_asked(self):
        loads = loader(drop_last=True)
        self.assertEqual(len(loads), 4)
        for _ in range(3):
            self.assertEqual([len(targets) for _, targets in loads], [5, 5, 5, 5])

    def test_without_shuffling_it_has_the_order_of_the_data(self):
        with tempfile.TemporaryDirectory() as folder:
            for number in range(6):
                pixels = torch.full((3, 2, 2), number, dtype=torch.uint8)
                write_png(Path(folder) / "ab"[number // 3] / f"{number}.png", pixels)
            loads = autotuned.Loader(f"{folder}/*/*.png", batch_size=4)
            self.assertEqual(loads.classes, ["a", "b"])
            batches = copies(loads)
            seen = torch.cat([images for images, _ in batches])[:, 0, 0, 0]
            self.assertEqual(seen.tolist(), [0, 1, 2, 3, 4, 5])
            self.assertEqual(torch.cat([t for _, t in batches]).tolist(), [0, 0, 0, 1, 1, 1])
            # Relative to the current folder.
            before = os.getcwd()
            self.addCleanup(os.chdir, before)
            os.chdir(folder)
            self.assertEqual(autotuned.Loader([Path("b/*.png")]).samples, 3)
            os.chdir(before)

    def test_workers_change_nothing(self):
        transforms = [{"random_flip": {}}, {"random_crop": {"size": 3}}, "to_float"]
        alone = loader(transforms=transforms)
        expected = [copies(alone) for _ in range(3)]
        for workers, ahead in ((1, 1), (3, 4)):
            loads = loader(transforms=transforms, workers=workers, prefetch_factor=ahead)
            for epoch in expected:
                self.assert_same(copies(loads), epoch)

    def test_a_seed_decides(self):
        self.assert_same(copies(loader(seed=3)), copies(loader(seed=3)))
        one, other = copies(loader(seed=3)), copies(loader(seed=4))
        self.assertFalse(torch.equal(one[0][0], other[0][0]))

    def test_set_epoch(self):
        expected = [copies(one) for one in [loader()] for _ in range(3)]
        loads = loader(workers=2)
        loads.set_epoch(2)
        self.assert_same(copies(loads), expected[2])
        loads.set_epoch(0)
        self.assert_same(copies(loads), expected[0])
        self.assert_same(copies(loads), expected[1])
        with self.assertRaisesRegex(ValueError, "no epoch -1"):
            loads.set_epoch(-1)

    def test_a_loop_that_is_left_counts(self):
        one = loader()
        expected = [copies(one) for _ in range(3)]
        loads = loader(workers=2)
        for _ in loads:
            break
        self.assert_same(copies(loads), expected[1])
        for _ in loads:
            break
        loads.set_epoch(2)  # from its beginning
        self.assert_same(copies(loads), expected[2])

    def test_another_loop_ends_the_one_before(self):
        loads = loader()
        first = iter(loads)
        next(first)
        second = iter(loads)
        with self.assertRaisesRegex(RuntimeError, "another loop"):
            next(first)
        self.assertEqual(sum(1 for _ in second), 5)
        with self.assertRaises(StopIteration):
            next(second)

    def test_a_state_within_an_epoch(self):
        transforms = [{"random_crop": {"size": 3}}]
        for workers in (0, 2):
            loads = loader(transforms=transforms, workers=workers)
            list(loads)
            whole = iter(loads)
            for _ in range(2):
                next(whole)
            state = loads.state_dict()
            left = copies(whole)
            self.assertEqual(len(left), 3)
            after = copies(loads)

            other = loader(transforms=transforms)
            other.load_state_dict(pickle.loads(pickle.dumps(state)))
            self.assertEqual(other.state_dict(), state)
            other.set_epoch(state["epoch"])  # as scripts do before each loop
            self.assert_same(copies(other), left)
            self.assert_same(copies(other), after)

    def test_a_state_at_an_end(self):
        loads = loader()
        loop = iter(loads)
        for _ in range(5):
            next(loop)
        state = loads.state_dict()  # the loop does not know yet that it is over
        self.assertEqual((state["epoch"], state["batch"]), (0, 5))
        self.assertEqual(list(loop), [])
        self.assertEqual(loads.state_dict()["epoch"], 1)
        other = loader()
        other.load_state_dict(state)
        self.assertEqual(list(other), [])
        self.assert_same(copies(other), copies(loads))

    def test_a_state_of_other_batches_is_refused(self):
        state = loader().state_dict()
        with self.assertRaisesRegex(ValueError, "seed was 1 and is 2"):
            loader(seed=2).load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "batch_size was 5 and is 6"):
            loader(batch_size=6).load_state_dict(state)
        with self.assertRaisesRegex(ValueError, "no batch 6"):
            loader().load_state_dict({**state, "batch": 6})

    def test_ranks_share_an_epoch(self):
        whole = torch.cat([images for images, _ in copies(loader())])
        parts = [loader(rank=rank, world_size=2) for rank in range(2)]
        self.assertEqual([part.samples for part in parts], [12, 12])
        seen = [torch.cat([images for images, _ in copies(part)]) for part in parts]
        # Every other one of the same order, which begins again for what is missing at its end.
        self.assertTrue(torch.equal(seen[0], whole[0::2]))
        self.assertTrue(torch.equal(seen[1], torch.cat([whole[1::2], whole[:1]])))

    def test_batches_stay_as_they_are(self):
        loads = loader(workers=2)
        expected = copies(loader())
        kept = list(loads)  # far more than are ready at a time
        loads.close()
        del loads
        gc.collect()
        self.assert_same(kept, expected)
        kept[0][0].fill_(1)  # the caller's own
        self.assert_same(kept[1:], expected[1:])

    def test_memory_is_used_again(self):
        loads = loader(workers=2, prefetch_factor=1)
        places = set()
        for _ in range(10):
            for images, _ in loads:
                places.add(images.data_ptr())
        # Two that are ready, one that takes the place of the one that is given, and the one that
        # the loop still has.
        self.assertLessEqual(len(places), 4)

    def test_targets_do_not_keep_images(self):
        images, targets = next(iter(loader()))
        of_images = images.untyped_storage()
        begin, end = of_images.data_ptr(), of_images.data_ptr() + of_images.nbytes()
        self.assertFalse(begin <= targets.data_ptr() < end)

    def test_a_loop_that_was_left_keeps_nothing(self):
        gc.disable()
        self.addCleanup(gc.enable)
        loads = loader(workers=2)
        loop = iter(loads)
        next(loop)
        watched = weakref.ref(loads)
        del loads
        self.assertEqual(len(next(loop)[1]), 5)  # the loop still has it
        del loop
        self.assertIsNone(watched())

    def test_numbers_and_masks(self):
        numbers = {"type": "synthetic_targets", "samples": 4, "shape": [1, 2, 2], "targets": 3}
        ((_, targets),) = autotuned.Loader(numbers, batch_size=4)
        self.assertEqual((targets.shape, targets.dtype), ((4, 3), torch.float32))
        masks = {"type": "synthetic_masks", "samples": 4, "shape": [3, 8, 9], "classes": 2}
        ((_, targets),) = autotuned.Loader(masks, batch_size=4)
        self.assertEqual((targets.shape, targets.dtype), ((4, 8, 9), torch.uint8))

    def test_a_cache_changes_nothing(self):
        pattern = f"{FIXTURES}/42*_37x51.jpg"
        options = {"batch_size": 2, "transforms": [{"random_crop": {"size": [20, 24]}}]}
        plain = autotuned.Loader(pattern, **options, index_bytes=0)
        expected = [copies(plain) for _ in range(3)]
        for kept in ({"cache_bytes": 1 << 20}, {"index_bytes": 1 << 20}):
            loads = autotuned.Loader(pattern, **options, **kept, workers=1)
            for epoch in expected:
                self.assert_same(copies(loads), epoch)

    def test_a_damaged_file_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = (FIXTURES / "444_37x51.jpg").read_bytes()
            Path(folder, "1_good.jpg").write_bytes(whole)
            Path(folder, "2_cut.jpg").write_bytes(whole[: len(whole) * 4 // 5])
            for workers in (0, 2):
                loop = iter(autotuned.Loader(f"{folder}/*.jpg", workers=workers))
                next(loop)
                for _ in range(2):  # it stays an error
                    with self.assertRaisesRegex(RuntimeError, "2_cut.jpg"):
                        next(loop)
            data = {"type": "image_files", "files": f"{folder}/*.jpg", "on_error": "skip"}
            self.assertEqual(len(list(autotuned.Loader(data))), 2)

    def test_mistakes_are_named(self):
        with self.assertRaisesRegex(ValueError, "no file matches.*nowhere"):
            autotuned.Loader("/nowhere/*.jpg")
        with self.assertRaisesRegex(ValueError, 'did you mean "repeat_to"'):
            autotuned.Loader({"type": "image_files", "files": "x", "repeat_too": 3})
        with self.assertRaisesRegex(ValueError, "known are probability"):
            loader(transforms=[{"random_flip": {"p": 0.5}}])
        with self.assertRaisesRegex(ValueError, "argument of Loader"):
            autotuned.Loader({**DATA, "shuffle": True})
        with self.assertRaisesRegex(ValueError, "workers"):
            loader(workers=-1)
        with self.assertRaisesRegex(ValueError, "different sizes"):
            autotuned.Loader(f"{FIXTURES}/444_*.jpg")

    def test_a_forked_child_is_refused(self):
        for workers in (0, 2):
            loads = loader(workers=workers)
            loop = iter(loads)
            held = next(loop)
            child = os.fork()
            if child == 0:
                try:
                    for begin in (lambda: next(loop), lambda: iter(loads)):
                        try:
                            begin()
                        except RuntimeError as error:
                            assert "forked" in str(error)
                        else:
                            os._exit(1)
                    loads.close()
                    del held, loop, loads
                    gc.collect()
                    os._exit(0)
                finally:
                    os._exit(2)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.assertEqual(len(list(loop)), 4)  # here it goes on
            del held

    def test_other_threads_may_iterate(self):
        loads = loader(workers=2)
        expected = copies(loader())
        found = []
        thread = threading.Thread(target=lambda: found.extend(copies(loads)))
        thread.start()
        thread.join()
        self.assert_same(found, expected)

    def test_it_is_not_sent_to_other_processes(self):
        with self.assertRaisesRegex(TypeError, "make it there"):
            pickle.dumps(loader())

    def test_closed(self):
        loads = loader(workers=2)
        loop = iter(loads)
        next(loop)
        loads.close()
        loads.close()
        for begin in (lambda: next(loop), lambda: iter(loads)):
            with self.assertRaisesRegex(RuntimeError, "closed"):
                begin()

    def test_an_interpreter_ends_with_a_loader_at_work(self):
        text = (
            "import autotuned\n"
            f"loads = autotuned.Loader({DATA!r}, batch_size=5, workers=2)\n"
            "loop = iter(loads)\n"
            "held = next(loop)\n"
            "print(len(held[1]))\n"
        )
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "5\n"), done.stderr)

    def test_torch_comes_with_the_first_batch(self):
        text = (
            "import sys, autotuned\n"
            f"loads = autotuned.Loader({DATA!r})\n"
            "print('torch' in sys.modules)\n"
        )
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        self.assertEqual(done.stdout, "False\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
