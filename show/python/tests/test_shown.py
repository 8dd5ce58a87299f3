"""What is shown: texts, bars, timelines, sizes, lines."""

import pydoc
import unittest
import xml.etree.ElementTree as ElementTree

import reports
import ttmem
from reports import BANKS, Board
from ttmem import _baseline, _frames, _html, _sizes


class Shown(unittest.TestCase):
    def test_a_notebook_gets_well_formed_html_whatever_names_are(self):
        board = Board()
        hostile = "<script>alert(1)</script> & \"x\" ' \u202e"
        board.allocate("dram", 1 << 24, reports.text_id(f"{hostile}\n/a/<b>&.py:3 {hostile}"))
        with ttmem.track(hostile) as tracked:
            board.allocate("l1", 1 << 20, reports.text_id(hostile))
        for shown in (ttmem.memory_snapshot()._repr_html_(), tracked._repr_html_()):
            tree = ElementTree.fromstring(shown)
            self.assertEqual([each.tag for each in tree.iter() if each.tag == "script"], [])
        shown = tracked._repr_html_()
        self.assertIn("L1 buffers: peak 4.0 MiB, +4.0 MiB", shown)
        self.assertEqual(shown.count("<path"), 1, "what did not change needs no graph")
        self.assertIn("DRAM: 64.0 MiB", shown)
        self.assertRegex(shown, r">4\.0 MiB</text>.*>0 B</text>.*s from begin to end</text>")

    def test_a_bar_is_as_long_as_what_is_used(self):
        board = Board()
        board.allocate("trace", reports.CAPACITY_PER_BANK // 4)
        shown = ttmem.memory_snapshot()._repr_html_()
        quarter = _html._BAR / 4
        self.assertIn(f'width="{quarter:.2f}" height="12"', shown)
        self.assertIn(f"device {board.ids[0]} · n150", shown)

    def test_a_summary_has_a_line_for_each_kind(self):
        board = Board()
        board.allocate("dram", (1 << 20) // BANKS)
        board.free(board.allocate("dram", (2 << 20) // BANKS))
        lines = ttmem.memory_summary(board).splitlines()
        self.assertEqual(lines[0], f"device {board.ids[0]}  n150")
        self.assertEqual(
            lines[2].split(), "dram 1.0 MiB 3.0 MiB 4.0 GiB 0.0 % 1".split(), lines[2]
        )
        board.close()
        self.assertEqual(
            ttmem.memory_summary(board).splitlines()[0], f"device {board.ids[0]}  n150  (closed)"
        )

    def test_sizes(self):
        self.assertEqual([_sizes.text(size) for size in (0, 1023, 1024, -(3 << 20), (5 << 40) - 1)],
                         ["0 B", "1023 B", "1.0 KiB", "-3.0 MiB", "5.0 TiB"])
        for text, size in [("4096", 4096), ("84 MiB", 84 << 20), ("1.5G", 3 << 29), ("2kib", 2048),
                           ("0", 0), (7, 7)]:
            self.assertEqual(_sizes.parse(text), size, text)
        for nonsense in ("", "MiB", "-1", "1 parsec", "nan", "inf", "1e99", -1):
            with self.assertRaises(ValueError, msg=nonsense):
                _sizes.parse(nonsense)
        with self.assertRaisesRegex(ValueError, "1000 or of 1024; write 64MiB"):
            _sizes.parse("64 MB")

    def test_sizes_that_are_compared_differ_in_their_texts(self):
        self.assertEqual(_sizes.texts(2 << 20, 1 << 20), ["2.0 MiB", "1.0 MiB"])
        self.assertEqual(_sizes.texts(3, 3), ["3 B", "3 B"])
        self.assertEqual(_sizes.texts((1 << 20) + 32, 1 << 20), ["1048608 B", "1048576 B"])
        self.assertEqual(
            _baseline.difference("peak_l1", (1 << 20) + 32, 1 << 20),
            "peak l1 1048608 B, baseline 1048576 B (+32 B)",
        )

    def test_a_comprehension_and_its_function_are_one_line(self):
        # report/report/src/python.rs has the same.
        for frames, own in [
            (["/m/a.py:3 <listcomp>", "/m/a.py:3 make", "/m/b.py:9 run"], [0, 2]),
            (
                ["/m/a.py:4 <genexpr>", "/m/a.py:3 <listcomp>", "/m/a.py:2 make", "/m/a.py:9 run"],
                [0, 3],
            ),
            (["/m/a.py:3 <listcomp>", "/m/b.py:9 run"], [0, 1]),
            (["/m/a.py:3 <lambda>", "/m/a.py:7 make"], [0, 1]),
            (["/m/a.py:3 f", "/v/site-packages/execnet/base.py:1 serve", "<string>:8 <module>"], [0]),
            (["/m/a.py:3 f", "<string>:1 <module>"], [0, 1]),
            (
                ["/m/a.py:3 f", "/v/site-packages/_pytest/main.py:1 main", "/v/bin/pytest:8 <module>"],
                [0],
            ),
            (["/m/a.py:3 f", "/m/bin/train:8 <module>"], [0, 1]),
        ]:
            expected = [frames[number] for number in own]
            self.assertEqual(_frames.users_frames(tuple(frames)), expected)

    def test_lines_are_named_with_who_called_them(self):
        board = Board()
        helper = "/home/me/help.py:3 make"
        for caller in ("/home/me/a.py:1 f", "/home/me/b.py:2 g"):
            board.allocate("dram", 1 << 20, reports.text_id(f"full\n{helper}\n{caller}"))
        lines = ttmem.memory_snapshot(board).by_line()
        expected = [f"/home/me/help.py:3, called from /home/me/{at}" for at in ("a.py:1", "b.py:2")]
        self.assertEqual(lines, dict.fromkeys(expected, BANKS << 20))
        self.assertIn(expected[1], ttmem.memory_summary(board))

    def test_fields_have_their_meaning_in_help(self):
        for shown in (
            ttmem.Buffer,
            ttmem.DeviceMemory,
            ttmem.KindFigures,
            ttmem.PeakLine,
            ttmem.Point,
            ttmem.Snapshot,
        ):
            text = pydoc.plain(pydoc.render_doc(shown))
            for name, meaning in shown.__slots__.items():
                if not name.startswith("_"):
                    self.assertIn(meaning, text)

    def test_the_users_own_code_comes_before_libraries(self):
        frames = (
            "/venv/lib/python3.10/site-packages/ttnn/decorators.py:501 __call__",
            "<frozen runpy>:88 _run_code",
            "/home/ada/model.py:57 forward",
        )
        self.assertEqual(_frames.user_frame(frames), frames[2])
        self.assertEqual(_frames.user_frame(frames[:2]), frames[0])
        self.assertIsNone(_frames.user_frame(()))
        for frame, place in [
            (frames[2], "/home/ada/model.py:57"),
            ("/a 2:3 x/my model.py:57 a name", "/a 2:3 x/my model.py:57"),
            ("model.py:57", "model.py:57"),
            ("", ""),
        ]:
            self.assertEqual(_frames.place(frame), place)


if __name__ == "__main__":
    unittest.main()
