"""What tracking with lines of Python costs, of calls that are some 20 frames deep."""

import os

# Read when the runtime is loaded.
os.environ["TTMEM_PYTHON"] = "1"

import overhead  # noqa: E402

FRAMES = 20


def deep(frames, action):
    """Runs it with so many frames more on the stack."""
    return action() if frames == 0 else deep(frames - 1, action)


def operations(bench, device):
    """The same operations from a deep stack; those who measure and ttnn are the other frames."""
    deep(FRAMES - 12, lambda: overhead.operations(bench, device))


if __name__ == "__main__":
    overhead.main("attach-python", operations)
