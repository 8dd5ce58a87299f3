"""The figures equal those of a model of the board, after every step."""

import os
import random
import threading
import unittest

import reports
import ttmem
from reports import BANKS, CAPACITY_PER_BANK, Board

KINDS = ("dram", "l1", "l1_small", "trace")


class Model:
    """What a board holds, worked out here."""

    def __init__(self, board):
        self.board = board
        self.live = []
        self.held = dict.fromkeys(KINDS, 0)
        self.peak = dict.fromkeys(KINDS, 0)

    def step(self, choice):
        """Places a buffer or gives one back."""
        if self.live and choice.random() < 0.45:
            kind, size, buffer = self.live.pop(choice.randrange(len(self.live)))
            self.board.free(buffer)
            self.held[kind] -= size
        else:
            kind, per_bank = choice.choice(KINDS), 32 * choice.randrange(1, 1000)
            self.live.append((kind, per_bank * BANKS, self.board.allocate(kind, per_bank)))
            self.held[kind] += per_bank * BANKS
            self.peak[kind] = max(self.peak[kind], self.held[kind])

    def reset(self):
        self.peak = dict(self.held)


def in_child(action):
    """What an action returns in a child of a fork, as a text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = repr(action())
        except BaseException as error:  # noqa: BLE001: it is the answer
            said = f"failed: {error!r}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


class Figures(unittest.TestCase):
    def equal(self, model):
        for device in model.board.ids:
            for kind in KINDS:
                self.assertEqual(ttmem.memory_allocated(device, kind), model.held[kind])
                self.assertEqual(ttmem.max_memory_allocated(device, kind), model.peak[kind])

    def test_they_equal_the_model_after_every_step(self):
        choice = random.Random(7)
        models = [Model(Board()), Model(Board(3))]
        for step in range(300):
            model = choice.choice(models)
            model.step(choice)
            if step % 50 == 20:
                ttmem.reset_peak_memory_stats(model.board)
                model.reset()
            if step % 50 == 30:
                ttmem.mark("in between", step)
            self.equal(model)
        for model in models:
            self.equal(model)

    def test_of_several_devices_it_is_the_sum(self):
        board = Board(3)
        before = ttmem.memory_allocated()
        board.allocate("dram", 100)
        self.assertEqual(ttmem.memory_allocated(board), 3 * BANKS * 100)
        self.assertEqual(ttmem.memory_allocated(board.ids[1]), BANKS * 100)
        self.assertEqual(ttmem.memory_allocated() - before, 3 * BANKS * 100)
        free, total = ttmem.mem_get_info(board)
        self.assertEqual(total, 3 * BANKS * CAPACITY_PER_BANK)
        self.assertEqual(free, total - 3 * BANKS * 100)

    def test_what_other_threads_did_before_is_counted(self):
        board, each = Board(), 2000

        def work():
            for _ in range(each):
                board.allocate("l1", 1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(ttmem.memory_allocated(board, "l1"), 4 * each * BANKS)

    def test_threads_may_ask_at_once(self):
        board, wrong = Board(), []

        def work(number):
            own = Board()
            for count in range(1, 101):
                own.allocate("dram", 8)
                held = ttmem.memory_allocated(own)
                if held != count * 8 * BANKS:
                    wrong.append((number, count, held))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(ttmem.memory_allocated(board), 0)

    def test_a_closed_mesh_holds_nothing_and_its_peak_stays(self):
        board = Board()
        board.allocate("dram", 10)
        board.close()
        self.assertEqual(ttmem.memory_allocated(board), 0)
        self.assertEqual(ttmem.max_memory_allocated(board), 10 * BANKS)

    def test_what_makes_no_sense_is_refused_in_words(self):
        with self.assertRaisesRegex(ValueError, "one of dram, l1"):
            ttmem.memory_allocated(kind="DRAM")
        for nonsense in ("0", 1.5, True, object()):
            with self.assertRaisesRegex(TypeError, "a number, a device or mesh device"):
                ttmem.memory_allocated(nonsense)
        with self.assertRaisesRegex(ttmem.TtmemError, "open the device first"):
            ttmem.mem_get_info(10**6)
        self.assertEqual(ttmem.memory_allocated(10**6), 0)

    def test_a_device_may_be_an_object_with_an_id(self):
        class Device:
            def __init__(self, number):
                self.number = number

            def id(self):
                return self.number

        board = Board()
        board.allocate("trace", 3)
        self.assertEqual(ttmem.memory_allocated(Device(board.ids[0]), "trace"), 3 * BANKS)


class Children(unittest.TestCase):
    def test_a_child_has_an_account_of_its_own(self):
        board = Board()
        kept = board.allocate("dram", 10)

        def child():
            at_first = ttmem.memory_allocated()
            # The parent's buffer is not the child's to give back.
            board.free(kept)
            own = Board()
            buffer = own.allocate("dram", 7)
            own.free(buffer)
            return at_first, ttmem.memory_allocated(own), ttmem.max_memory_allocated(own)

        self.assertEqual(in_child(child), repr((0, 0, 7 * BANKS)))
        self.assertEqual(ttmem.memory_allocated(board), 10 * BANKS)

    def test_a_peak_from_before_the_first_question_is_known(self):
        def child():
            board = Board(2)
            for _ in range(50):
                buffers = [board.allocate("l1", 5) for _ in range(20)]
                for buffer in buffers:
                    board.free(buffer)
            board.allocate("l1", 1)
            first = board.ids[0]
            return ttmem.memory_allocated(first, "l1"), ttmem.max_memory_allocated(first, "l1")

        self.assertEqual(in_child(child), repr((BANKS, 100 * BANKS)))

    def test_a_block_of_the_parent_ends_quietly(self):
        board = Board()
        with ttmem.track("parent") as tracked:
            board.allocate("dram", 5)

            def child():
                with ttmem.track("child") as own:
                    pass
                tracked.__exit__(None, None, None)
                return own.delta["dram"]

            self.assertEqual(in_child(child), "0")
        self.assertEqual(tracked.delta["dram"], 5 * BANKS)


class Snapshots(unittest.TestCase):
    def test_buffers_have_their_lines_and_the_largest_come_first(self):
        board = Board(2)
        stack = "/venv/site-packages/ttnn/decorators.py:5 f\n/home/me/my model.py:57 forward pass"
        named = reports.text_id(f"Matmul\n{stack}")
        board.allocate("dram", 1 << 20, named, address=4096)
        board.allocate("l1", 1 << 19)
        snapshot = ttmem.memory_snapshot()
        own = [each for each in snapshot.buffers if set(each.devices) == set(board.ids)]
        self.assertEqual([each.bytes for each in own], [BANKS << 20, BANKS << 19])
        self.assertEqual(own[0].operation, "Matmul")
        self.assertEqual(own[0].line, "/home/me/my model.py:57")
        self.assertEqual((own[0].kind, own[0].address), ("dram", 4096))
        self.assertEqual(own[0].total_bytes, 2 * BANKS << 20)
        self.assertEqual((own[1].operation, own[1].line), (None, None))
        self.assertIn("/home/me/my model.py:57", ttmem.memory_summary(board))
        sizes = [each.total_bytes for each in snapshot.buffers]
        self.assertEqual(sizes, sorted(sizes, reverse=True))

    def test_the_list_is_bounded_and_the_count_is_not(self):
        board = Board()
        before = ttmem.memory_snapshot(max_buffers=0)
        self.assertEqual(before.buffers, ())
        for size in range(1, 21):
            board.allocate("dram", size << 21)
        snapshot = ttmem.memory_snapshot(max_buffers=3)
        self.assertEqual(snapshot.buffer_count - before.buffer_count, 20)
        self.assertEqual(snapshot.buffer_bytes - before.buffer_bytes, (BANKS * 210) << 21)
        self.assertEqual([each.bytes >> 21 for each in snapshot.buffers], [80, 76, 72])
        board.close()

    def test_nothing_was_lost(self):
        snapshot = ttmem.memory_snapshot()
        self.assertEqual((snapshot.lost_events, snapshot.untracked), (0, ()))


class Blocks(unittest.TestCase):
    def test_a_block_has_its_peak_its_difference_and_what_it_left(self):
        board = Board(2)
        board.allocate("dram", 100)
        line = reports.text_id("Add\n/home/me/leak.py:3 step")
        with ttmem.track("step") as tracked:
            gone = board.allocate("dram", 50)
            board.free(gone)
            board.allocate("dram", 10, line)
            self.assertEqual(tracked.peak["dram"] - tracked.before["dram"], 2 * 50 * BANKS)
        self.assertEqual(tracked.peak["dram"] - tracked.before["dram"], 2 * 50 * BANKS)
        self.assertEqual(tracked.delta["dram"], 2 * 10 * BANKS)
        self.assertEqual(tracked.delta["l1"], 0)
        self.assertEqual([each.line for each in tracked.leaked], ["/home/me/leak.py:3"])
        self.assertEqual(tracked.leaked_bytes, 2 * 10 * BANKS)
        self.assertIn("1 left behind", repr(tracked))

    def test_blocks_marks_and_resets_do_not_disturb_each_other(self):
        board = Board()

        def burst(size):
            board.free(board.allocate("l1", size))

        ttmem.reset_peak_memory_stats(board)
        with ttmem.track("outer") as outer:
            burst(40)
            with ttmem.track("first", mark=True) as first:
                burst(10)
            ttmem.reset_peak_memory_stats(board)
            overlapping = ttmem.track("overlapping").__enter__()
            burst(20)
            ttmem.mark("a mark")
            burst(30)
        burst(5)
        overlapping.__exit__(None, None, None)
        base = outer.before["l1"]
        peaks = [each.peak["l1"] - base for each in (outer, first, overlapping)]
        self.assertEqual(peaks, [40 * BANKS, 10 * BANKS, 30 * BANKS])
        self.assertEqual(ttmem.max_memory_allocated(board, "l1"), 30 * BANKS)

    def test_a_timeline_is_short_and_has_the_peak(self):
        board = Board()
        with ttmem.track() as tracked:
            for _ in range(5000):
                board.free(board.allocate("dram", 1))
            board.free(board.allocate("dram", 77))
            for _ in range(5000):
                board.free(board.allocate("dram", 1))
        heights = [point.get("dram", 0) for point in tracked.timeline]
        self.assertLess(len(heights), 1000)
        self.assertEqual(max(heights), tracked.before["dram"] + 77 * BANKS)
        times = [point["time"] for point in tracked.timeline]
        self.assertEqual(times, sorted(times))

    def test_many_blocks_may_be_open_and_too_many_are_refused(self):
        blocks = []
        with self.assertRaisesRegex(ttmem.TtmemError, "too many"):
            for _ in range(2000):
                blocks.append(ttmem.track().__enter__())
        self.assertGreater(len(blocks), 500)
        # Those that are dropped are closed.
        blocks.clear()
        with ttmem.track() as tracked:
            pass
        self.assertFalse(tracked.is_open)

    def test_a_block_is_one_thing_at_a_time(self):
        tracked = ttmem.track("x")
        with tracked:
            with self.assertRaisesRegex(ttmem.TtmemError, "open already"):
                tracked.__enter__()
            with self.assertRaisesRegex(ttmem.TtmemError, "when it has ended"):
                _ = tracked.leaked
        with self.assertRaises(ZeroDivisionError):
            with tracked:
                1 / 0
        self.assertEqual(tracked.leaked, ())


if __name__ == "__main__":
    unittest.main()
