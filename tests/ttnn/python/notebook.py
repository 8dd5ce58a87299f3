"""A notebook that runs without anybody looking: bars, a timeline, and why a kernel cannot attach."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html import escape
from pathlib import Path

from ttmem_program import require

# Set for the process that runs the notebook, which has the packages for it.
INSIDE = "TTMEM_TESTS_INSIDE"

CELLS = """
import ttmem, ttnn
device = ttnn.{opened}
def zeros(memory):
    return ttnn.zeros([1, 1, 2048, 2048], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)
---
kept = zeros(ttnn.L1_MEMORY_CONFIG)
ttmem.memory_snapshot()
---
with ttmem.track("a cell") as tracked:
    zeros(ttnn.DRAM_MEMORY_CONFIG)
    left = zeros(ttnn.DRAM_MEMORY_CONFIG)
tracked
---
print(ttmem.memory_allocated(0, "l1"), ttmem.mem_get_info(0, "l1")[1], tracked.leaked[0].line)
"""
# What `cargo xtask ttnn-pictures` takes pictures of, light and with #dark. It says how high it is.
PAGE = """<!DOCTYPE html>
<meta charset="utf-8">
<style>
:root {{ font: 13px sans-serif; color: #111; background: #fff }}
:root.dark {{ color: #ddd; background: #111 }}
body {{ margin: 12px }}
section {{ display: flex; gap: 10px; margin-bottom: 10px }}
section > span {{ flex: none; width: 56px; color: #888; font: 12px monospace; padding-top: 7px }}
pre {{ flex: 1; margin: 0; padding: 6px 8px; border: 1px solid #8886; font: 12px monospace }}
</style>
<body>{cells}
<script>
const root = document.documentElement;
root.classList.toggle("dark", location.hash === "#dark");
root.dataset.height = Math.ceil(document.body.getBoundingClientRect().height) + 24;
</script>
"""
REFUSED = "import ttmem\nttmem.attach()"


def execute(cells, environment):
    """The notebook with its outputs."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True)
    client.execute(env=environment)
    return notebook


def outputs(notebook):
    """What each cell shows; an error ends the test."""
    for cell in notebook.cells:
        for output in cell.outputs:
            require(output.output_type != "error", "\n".join(output.get("traceback", [])))
    return [cell.outputs for cell in notebook.cells]


def html(shown):
    """The HTML of a cell's result, which must be well-formed."""
    results = [each.data["text/html"] for each in shown if each.output_type == "execute_result"]
    require(len(results) == 1, f"results: {results}")
    return ElementTree.fromstring(results[0])


def page(notebook):
    """The notebook as a page: the cells, and the HTML that they show."""
    parts = []
    for number, cell in enumerate(notebook.cells, 1):
        parts.append(f"<section><span>In [{number}]:</span><pre>{escape(cell.source.strip())}</pre></section>")
        shown = [each.data.get("text/html") for each in cell.outputs if "data" in each]
        parts += [f"<section><span></span><div>{each}</div></section>" for each in shown if each]
    return PAGE.format(cells="\n".join(parts))


def run(attach, rows, columns):
    plain = {name: value for name, value in os.environ.items() if name != INSIDE}
    tracked = {**plain, "LD_PRELOAD": attach, "TTMEM_PYTHON": "1"}
    mesh = f"open_mesh_device(ttnn.MeshShape({rows}, {columns}))"
    opened = "open_device(device_id=0)" if rows * columns == 1 else mesh
    cells = CELLS.format(opened=opened).strip().split("\n---\n")
    notebook = execute(cells, tracked)
    _opened, bars, timeline, printed = outputs(notebook)
    # Without the one that is for this program only.
    notebook.cells.pop()
    Path("notebook.html").write_text(page(notebook), encoding="utf-8")
    text = "".join(each.text for each in printed if each.output_type == "stream")
    held, capacity, line = text.strip().splitlines()[-1].split(" ", 2)
    chips = rows * columns

    drawn = [each for each in html(bars).iter("rect") if each.get("fill", "").startswith("#")]
    widths = [float(each.get("width")) for each in drawn]
    expected = 320 * int(held) / int(capacity)
    found = [width for width in widths if abs(width - expected) < 0.1]
    require(len(found) == chips, f"{chips} bars of {expected:.2f} in {widths}")
    require(line.endswith(".py:4"), f"the line of the cell: {line}")

    shown = html(timeline)
    require(len(list(shown.iter("path"))) >= 1, "a timeline")
    text = "".join(shown.itertext())
    require("still held at the end" in text, "what the cell left behind")
    require("Cell In[1], line 4" in text, f"the line as a notebook counts: {text}")
    require((f"on {chips} devices" in text) == (chips > 1), f"a sum that says so: {text}")

    refused = execute([REFUSED], {**plain, "TTMEM_ATTACH_LIBRARY": attach})
    error = refused.cells[0].outputs[0]
    require("ttmem run -- jupyter lab" in error.evalue, f"how to attach: {error.evalue}")


def main():
    summary, rows, columns, _seed = sys.argv[1:]
    if INSIDE not in os.environ:
        packages = os.environ["TTMEM_TESTS_PACKAGES"]
        environment = {
            **os.environ,
            INSIDE: os.environ["LD_PRELOAD"],
            "PYTHONPATH": f"{packages}:{os.environ['TTMEM_TESTS_OWN_PACKAGE']}",
            "JUPYTER_PATH": f"{packages}/share/jupyter",
        }
        # The notebook's kernel is tracked, not what runs it.
        del environment["LD_PRELOAD"]
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=environment, check=False).returncode)
    run(os.environ[INSIDE], int(rows), int(columns))
    with open(summary, "w", encoding="utf-8") as file:
        file.write("bars, timeline and refusal as they should be")


if __name__ == "__main__":
    main()
