"""What is shown: texts, bars, timelines, sizes, lines."""

import unittest
import xml.etree.ElementTree as ElementTree

import reports
import ttmem
from reports import BANKS, Board
from ttmem import _frames, _html, _sizes


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
        self.assertIn("l1: peak", tracked._repr_html_())
        self.assertIn("<path", tracked._repr_html_())

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
        self.assertIn("no device was opened", ttmem.memory_summary(10**6))

    def test_sizes(self):
        self.assertEqual([_sizes.text(size) for size in (0, 1023, 1024, -(3 << 20), 5 << 40)],
                         ["0 B", "1023 B", "1.0 KiB", "-3.0 MiB", "5.0 TiB"])
        for text, size in [("4096", 4096), ("84 MiB", 84 << 20), ("1.5G", 3 << 29), ("2kb", 2048),
                           ("0", 0), (7, 7)]:
            self.assertEqual(_sizes.parse(text), size, text)
        for nonsense in ("", "MiB", "-1", "1 parsec", "nan", "inf", "1e99", -1):
            with self.assertRaises(ValueError, msg=nonsense):
                _sizes.parse(nonsense)

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
