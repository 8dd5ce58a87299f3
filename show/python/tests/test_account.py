"""The figures equal those of a model of the board, after every step."""

import enum
import os
import random
import resource
import signal
import threading
import time
import unittest
import unittest.mock

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

    def test_what_a_signal_raises_arrives_at_who_asked(self):
        board = Board()
        for _ in range(200):
            board.allocate("dram", 1)

        class Late(Exception):
            pass

        def late(_signal, _frame):
            raise Late

        before = signal.signal(signal.SIGALRM, late)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        for number in range(300):
            until = time.monotonic() + 60
            with self.assertRaises(Late):
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + number % 100 * 1e-5)
                while time.monotonic() < until:
                    ttmem.memory_snapshot()
        self.assertEqual(ttmem.memory_allocated(board), 200 * BANKS)

    def test_at_the_limit_of_memory_there_is_an_error_and_the_program_goes_on(self):
        def ask(is_first):
            board = Board()
            for _ in range(3000):
                board.allocate("dram", 1)
            if not is_first:
                ttmem.memory_snapshot()
            with open("/proc/self/statm", encoding="ascii") as statm:
                pages = int(statm.read().split()[0])
            most = pages * resource.getpagesize() + (32 << 20)
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
            ballast, said = [], {"answered": False, "refused": False}
            for size in (1 << 20, 1 << 14, 1 << 10, 100):
                try:
                    while True:
                        part = []
                        ballast.append(part)
                        while len(part) < 200:
                            part.append(bytearray(size))
                except MemoryError:
                    pass
            # With ever more memory left. Python itself has none for a new object here.
            while True:
                try:
                    ttmem.memory_snapshot()
                    said["answered"] = True
                except (ttmem.TtmemError, MemoryError):
                    said["refused"] = True
                if not ballast:
                    break
                ballast.pop()
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
            return said, ttmem.memory_allocated(board)

        # What Python imports for a question is there.
        ttmem.memory_snapshot()
        for is_first in (True, False):
            said = in_child(lambda: ask(is_first))
            both = {"answered": True, "refused": True}
            self.assertEqual(said, repr((both, 3000 * BANKS)))

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
        board = Board()
        for nonsense in ("bogus", "", None, 3, ["l1"]):
            with self.assertRaisesRegex(ValueError, "one of dram, l1"):
                ttmem.memory_allocated(kind=nonsense)
        for nonsense in ("0", 1.5, True, object()):
            with self.assertRaisesRegex(TypeError, "a number, a device or mesh device"):
                ttmem.memory_allocated(nonsense)
        for unknown in (10**6, -1, 2**64 - 1, 2**70):
            known = f"no device {unknown}: it has opened .*{board.ids[0]}"
            for ask in (
                ttmem.memory_allocated,
                ttmem.max_memory_allocated,
                ttmem.reset_peak_memory_stats,
                ttmem.mem_get_info,
                ttmem.memory_summary,
                ttmem.memory_snapshot,
                ttmem.peak_lines,
            ):
                with self.assertRaisesRegex(ttmem.TtmemError, known):
                    ask(unknown)

    def test_an_unknown_device_resets_no_other(self):
        board = Board()
        board.free(board.allocate("dram", 100))
        with self.assertRaises(ttmem.TtmemError):
            ttmem.reset_peak_memory_stats(-1)
        self.assertEqual(ttmem.max_memory_allocated(board), 100 * BANKS)

    def test_before_a_device_is_opened_nothing_is_held_and_no_number_is_known(self):
        def child():
            said = []
            for ask in (ttmem.memory_allocated, ttmem.mem_get_info):
                try:
                    ask(0)
                except ttmem.TtmemError as error:
                    said.append(str(error))
            return ttmem.memory_allocated(), ttmem.max_memory_allocated(), said

        none = "this process has no device 0: it has not opened any yet"
        self.assertEqual(in_child(child), repr((0, 0, [none, none])))

    def test_free_memory_is_known_while_a_device_is_open(self):
        board = Board()
        self.assertEqual(ttmem.mem_get_info(board)[1], BANKS * CAPACITY_PER_BANK)
        for kind in ("cb", "kernel", "system"):
            with self.assertRaisesRegex(ValueError, f"{kind} has no capacity"):
                ttmem.mem_get_info(board, kind)
        board.close()
        with self.assertRaisesRegex(ttmem.TtmemError, f"device {board.ids[0]} is closed"):
            ttmem.mem_get_info(board)

    def test_a_kind_may_be_written_as_ttnn_writes_it(self):
        class BufferType(enum.Enum):
            L1 = 1
            SYSTEM_MEMORY = 2

        board = Board()
        board.allocate("l1", 5)
        board.allocate("system", 3)
        self.assertEqual(ttmem.memory_allocated(board, "L1"), 5 * BANKS)
        self.assertEqual(ttmem.memory_allocated(board, BufferType.L1), 5 * BANKS)
        self.assertEqual(ttmem.memory_allocated(board, BufferType.SYSTEM_MEMORY), 3 * BANKS)

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

    def test_a_snapshot_of_a_device_is_about_that_device(self):
        one, other = Board(), Board(2)
        of_one = reports.text_id("full\n/m/one.py:1 f")
        of_other = reports.text_id("full\n/m/other.py:2 g")
        for _ in range(3):
            one.allocate("dram", 10, of_one)
        other.allocate("dram", 10**6, of_other)
        taken = ttmem.memory_snapshot(one, max_buffers=2)
        self.assertEqual([each.id for each in taken.devices], one.ids)
        self.assertEqual((len(taken.buffers), taken.buffer_count), (2, 3))
        self.assertEqual(taken.buffer_bytes, 30 * BANKS)
        self.assertNotIn("other.py", str(taken))
        self.assertNotIn("other.py", ttmem.memory_summary(one))
        half = ttmem.memory_snapshot(other.ids[0])
        self.assertEqual(half.by_line(), {"/m/other.py:2": BANKS * 10**6})
        whole = ttmem.memory_snapshot(other)
        self.assertEqual(whole.by_line(), {"/m/other.py:2": 2 * BANKS * 10**6})
        other.close()

    def test_the_binary_of_a_program_is_told_from_what_operations_place(self):
        board = Board()
        program = reports.program("Matmul")
        board.send_binary(program, 4096 * BANKS)
        board.allocate("dram", 4096)
        board.allocate("dram", 4096, reports.text_id("full"))
        board.allocate("l1", 4096)
        kinds = {each.order: each.is_binary for each in ttmem.memory_snapshot(board).buffers}
        self.assertEqual([kinds[order] for order in sorted(kinds)], [True, False, False])

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
        heights = [point.held["dram"] for point in tracked.timeline]
        self.assertLess(len(heights), 1000)
        self.assertEqual(max(heights), tracked.before["dram"] + 77 * BANKS)
        times = [point.time for point in tracked.timeline]
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
        with self.assertRaisesRegex(ttmem.TtmemError, "has ended; make another"):
            tracked.__enter__()
        with self.assertRaises(ZeroDivisionError):
            with ttmem.track("y") as failed:
                1 / 0
        self.assertEqual((tracked.leaked, failed.leaked), ((), ()))

    def test_what_the_program_raises_in_a_block_counts_before_what_the_block_does(self):
        library = ttmem._library
        ask = library.ask

        def failing(what, *words):
            if what == library.END:
                raise ttmem.TtmemError("no answer")
            return ask(what, *words)

        with unittest.mock.patch.object(library, "ask", failing):
            with self.assertRaises(ZeroDivisionError), ttmem.track("x"):
                raise ZeroDivisionError
            with self.assertRaises(ttmem.TtmemError), ttmem.track("x"):
                pass

    def test_a_limit_of_the_list_that_is_none_is_refused_before_the_block(self):
        for wrong in ("a", None, 1.0, True):
            self.assertRaises(TypeError, ttmem.track, "x", max_leaked=wrong)
        for wrong in (-1, 2**32):
            self.assertRaises(ValueError, ttmem.track, "x", max_leaked=wrong)

    def test_a_block_that_has_not_begun_says_so(self):
        tracked = ttmem.track("x")
        for ask in ("peak", "before", "after", "delta", "leaked", "leaked_bytes", "seconds"):
            with self.assertRaisesRegex(ttmem.TtmemError, "'x' has not begun"):
                getattr(tracked, ask)
        with self.assertRaisesRegex(ttmem.TtmemError, "'x' has not begun"):
            tracked.__exit__(None, None, None)

    def test_names_and_numbers_that_are_none_are_refused(self):
        for nonsense in (3, None, b"x"):
            with self.assertRaisesRegex(TypeError, "must be a str"):
                ttmem.mark(nonsense)
            with self.assertRaisesRegex(TypeError, "must be a str"):
                ttmem.track(nonsense)
        for nonsense in ("s" * 129, "a\nb", "\x85"):
            with self.assertRaisesRegex(ValueError, "at most 128 characters"):
                ttmem.mark(nonsense)
            with self.assertRaisesRegex(ValueError, "at most 128 characters"):
                ttmem.track(nonsense)
        for nonsense in ("x", 1.5, True, None):
            with self.assertRaisesRegex(TypeError, "must be an int"):
                ttmem.mark("s", nonsense)
        for nonsense in (-1, 2**64):
            with self.assertRaisesRegex(ValueError, "0 or more"):
                ttmem.mark("s", nonsense)
        ttmem.mark("é" * 128, 2**64 - 1)

    def test_what_is_held_when_its_mesh_is_closed_is_left_behind(self):
        board = Board(2)
        line = reports.text_id("full\n/home/me/leak.py:3 step")
        board.allocate("dram", 7)
        with ttmem.track("outer") as outer:
            board.allocate("l1", 5, line)
            with ttmem.track("inner") as inner:
                board.free(board.allocate("dram", 50))
                board.allocate("dram", 10, line)
                board.close()
        self.assertEqual([(each.kind, each.is_closed) for each in inner.leaked], [("dram", True)])
        self.assertEqual([each.kind for each in outer.leaked], ["dram", "l1"])
        self.assertEqual(outer.leaked_bytes, 2 * 15 * BANKS)
        self.assertEqual(outer.leaked[0].line, "/home/me/leak.py:3")
        # It is not held, and no later block has it.
        self.assertEqual(ttmem.memory_allocated(board), 0)
        with ttmem.track() as later:
            pass
        self.assertEqual(later.leaked, ())

    def test_lines_at_the_peak_of_a_block(self):
        board = Board(2)
        texts = [reports.text_id(f"op\n/m/a.py:{number} f") for number in range(4)]
        board.allocate("dram", 100, texts[0])
        first = board.ids[0]
        with ttmem.track("outer") as outer:
            gone = [board.allocate("dram", 40, texts[1]) for _ in range(2)]
            self.assertEqual(
                [(each.line, each.bytes, each.is_before) for each in outer.peak_lines(device=first)],
                [("/m/a.py:0", 100 * BANKS, True), ("/m/a.py:1", 80 * BANKS, False)],
            )
            for each in gone:
                board.free(each)
            with ttmem.track("inner") as inner:
                # Less than before, and most of it is gone at the end.
                board.free(board.allocate("dram", 30, texts[2]))
                board.allocate("dram", 5, texts[3])

        def lines(of, device=first):
            return {each.line[-1]: (each.bytes // BANKS, each.count) for each in of(device=device)}

        self.assertEqual(lines(outer.peak_lines), {"0": (100, 1), "1": (80, 2)})
        self.assertEqual(lines(inner.peak_lines), {"0": (100, 1), "2": (30, 1)})
        self.assertEqual(lines(inner.peak_lines, board), {"0": (200, 2), "2": (60, 2)})
        self.assertEqual(inner.peak_lines("l1", first), ())
        # The peak of the whole run is that of the outer block.
        self.assertEqual(lines(ttmem.peak_lines), {"0": (100, 1), "1": (80, 2)})
        ttmem.reset_peak_memory_stats(board)
        self.assertEqual(lines(ttmem.peak_lines), {"0": (100, 1), "3": (5, 1)})
        with self.assertRaisesRegex(ValueError, "buffers have lines"):
            inner.peak_lines("cb")

    def test_lines_at_a_peak_are_lost_rather_than_wrong(self):
        board, blocks = Board(), []
        for number in range(60):
            blocks.append(ttmem.track(str(number)).__enter__())
            # Each of the blocks has its peak in another part of the run.
            board.free(board.allocate("dram", 1000 - number))
        for block in blocks:
            block.__exit__(None, None, None)
        with self.assertRaisesRegex(ttmem.TtmemError, "no longer known"):
            blocks[0].peak_lines(device=board)
        last = blocks[-1].peak_lines(device=board)
        self.assertEqual(sum(each.bytes for each in last), 941 * BANKS)

    def test_a_decorated_function_is_a_block_at_each_call(self):
        board = Board()

        @ttmem.track("step")
        def step(size):
            """Takes a step."""
            board.free(board.allocate("dram", size))
            return size

        self.assertEqual((step(10), step.__doc__), (10, "Takes a step."))
        first = step.tracked
        self.assertEqual(step(20), 20)
        for tracked, size in ((first, 10), (step.tracked, 20)):
            self.assertEqual(tracked.peak["dram"] - tracked.before["dram"], size * BANKS)


if __name__ == "__main__":
    unittest.main()
