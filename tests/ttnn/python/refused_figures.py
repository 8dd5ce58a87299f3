"""The figures of a refused request, wherever they are told, are those of ttnn's message.

Requests for some of the banks only, and for pages that the allocator rounds up, are where they once differed:
in the text and the document of `ttmem run`, those of `ttmem explain` of its recording, and those of
`ttmem explain` of what ttnn itself printed.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from ttmem_program import environment_of_user, message_figures, require

SHARDED = """
l1 = ttnn.L1_MEMORY_CONFIG
held = ttnn.empty([1, 1, 6144, 4096], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, l1)
shape = [1, 1, 4096, 512]
shards = ttnn.create_sharded_memory_config(shape, ttnn.CoreGrid(y=1, x=4), ttnn.ShardStrategy.HEIGHT)
ttnn.empty(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, shards)
"""
# A halo of rows on each core, which the operation itself asks for.
CONVOLUTION = """
SIDE, CHANNELS = 56, 64
image = ttnn.zeros([1, 1, SIDE * SIDE, CHANNELS], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device)
kernel = [CHANNELS, CHANNELS, 3, 3]
weights = ttnn.Tensor([0.5] * CHANNELS * CHANNELS * 9, kernel, ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
kept, height = [], SIDE
for block in range(4):
    image = ttnn.conv2d(
        input_tensor=image,
        weight_tensor=weights,
        in_channels=CHANNELS,
        out_channels=CHANNELS,
        batch_size=1,
        input_height=height,
        input_width=SIDE,
        kernel_size=(3, 3),
        padding=(1 + block % 2, 1),
        device=device,
    )
    kept.append(image)
    height += 2 * (block % 2)
"""
SHORT_PAGES = """
grid = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(3, 0))})
spec = ttnn.ShardSpec(grid, [51, 6], ttnn.ShardOrientation.ROW_MAJOR)
shards = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1_SMALL, spec)
ttnn.empty([1, 1, 4 * 51, 6], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device, shards)
"""
# What is asked for, how large the small region is, and the class that refuses.
CASES = {
    "sharded": (SHARDED, 0, "l1"),
    "convolution": (CONVOLUTION, 256, "l1_small"),
    "short_pages": (SHORT_PAGES, 64, "l1_small"),
}
# What a model begins with; it tells how many banks of L1 the chip has.
OPENED = """
import ttnn

device = ttnn.open_device(device_id=0, l1_small_size=SMALL_REGION)
print("banks of the chip:", ttnn.get_memory_view(device, ttnn.BufferType.L1).num_banks, flush=True)
"""
BANKS = re.compile(r"^banks of the chip: (\d+)$", re.MULTILINE)
# A figure as an explanation has it; its size in other units stands behind it.
NUMBER = r"(\d+) B(?: \([\d.]+ [KMG]iB\))?"
TOLD = re.compile(
    rf"asked for {NUMBER} of (\w+), {NUMBER} in each of (\d+) banks"
    rf" bank {NUMBER}, {NUMBER} allocated, {NUMBER} free, {NUMBER} in the largest free block"
)


def text_figures(text):
    """The figures of the one failure in a text, by the names of our documents."""
    found = TOLD.findall(" ".join(text.split()))
    require(len(found) == 1, f"{len(found)} requests in:\n{text}")
    requested, class_name, need, banks, bank, allocated, free, largest = found[0]
    return {
        "class": class_name.lower(),
        "requested_bytes": int(requested),
        "need_bytes_per_bank": int(need),
        "banks": int(banks),
        "bank_bytes": int(bank),
        "allocated_bytes_per_bank": int(allocated),
        "free_bytes_per_bank": int(free),
        "largest_free_bytes_per_bank": int(largest),
    }


def document_figures(text, names):
    """The same of a document with the one failure; other names of it are none of ttnn's message."""
    failures = json.loads(text)["failures"]
    require(len(failures) == 1, f"{len(failures)} failures in:\n{text}")
    return {name: failures[0]["request"][name] for name in names}


class Teller:
    """Runs a model that fails, and has its failure told in every way."""

    def __init__(self, name, text, small_region):
        opened = OPENED.replace("SMALL_REGION", str(small_region))
        self.folder = Path(name)
        self.folder.mkdir()
        self.model = self.folder / "model.py"
        self.model.write_text(opened + text)
        self.program = os.environ["TTMEM_TESTS_PROGRAM"]
        self.environment = environment_of_user()

    def ttmem(self, *words):
        return subprocess.run(
            [self.program, *words], env=self.environment, capture_output=True, text=True, check=False
        )

    def run(self, *options):
        """The report of a tracked run, and what the model itself said."""
        report = self.folder / "report"
        words = ["run", f"--report={report}", *options, "--", sys.executable, str(self.model)]
        outcome = self.ttmem(*words)
        said = outcome.stdout + outcome.stderr
        require(outcome.returncode == 1, f"it ended with {outcome.returncode}:\n{said}")
        return report.read_text(), said

    def explain(self, *words):
        outcome = self.ttmem("explain", *words)
        require(outcome.returncode == 0, f"{words}: {outcome.stderr}")
        return outcome.stdout

    def tell(self):
        """The banks of the chip, ttnn's own figures, and ours by where they are told."""
        recording, log = str(self.folder / "run.ttrec"), self.folder / "log"
        text, said = self.run(f"--record={recording}")
        document, said_again = self.run("--json")
        log.write_text(said)
        own = message_figures(said)
        require(own is not None, f"no message of ttnn in:\n{said}")
        require(message_figures(said_again) == own, f"another failure in:\n{said_again}")
        return int(BANKS.search(said)[1]), own, {
            "the report": text_figures(text),
            "its document": document_figures(document, own),
            "explain of the recording": text_figures(self.explain(recording)),
            "its document of the recording": document_figures(self.explain("--json", recording), own),
            "explain of the log": text_figures(self.explain(str(log))),
            "its document of the log": document_figures(self.explain("--json", str(log)), own),
        }


def compare(name, text, small_region, class_name):
    """Every place tells of one model what ttnn says; gives what that was."""
    banks, own, told = Teller(name, text, small_region).tell()
    is_meant = own["class"] == class_name and 1 < own["banks"] < banks
    require(is_meant, f"{name} is another case, of {banks} banks: {own}")
    for where, figures in told.items():
        require(figures == own, f"{name}, {where}: {figures}, ttnn {own}")
    figures = f"{own['banks']} of {banks} banks, {own['need_bytes_per_bank']} B of each"
    return f"{name}: {figures}, {len(told)} times equal"


def main():
    summary, rows, columns, _seed = sys.argv[1:]
    # On boards of more chips ttnn has other reasons to refuse these.
    cases = CASES if (rows, columns) == ("1", "1") else {}
    said = [compare(name, *case) for name, case in cases.items()]
    with open(summary, "w", encoding="utf-8") as file:
        file.write("; ".join(said) or "for boards of one chip")


if __name__ == "__main__":
    main()
