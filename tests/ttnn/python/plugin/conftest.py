"""A board for the tests, and fixtures that live as long as they like."""

import os

import pytest

# Like many a conftest: what comes before the first test must be tracked, too.
import ttnn

# How long the device is open: its tests get the same verdicts either way.
SCOPE = os.environ.get("TTMEM_TESTS_SCOPE", "session")
ROWS, COLUMNS = (int(os.environ[name]) for name in ("TTMEM_TESTS_ROWS", "TTMEM_TESTS_COLUMNS"))


@pytest.fixture(scope=SCOPE)
def device():
    if ROWS * COLUMNS == 1:
        opened = ttnn.open_device(device_id=0, l1_small_size=32 * 1024)
        yield opened
        ttnn.close_device(opened)
    else:
        opened = ttnn.open_mesh_device(ttnn.MeshShape(ROWS, COLUMNS), l1_small_size=32 * 1024)
        yield opened
        ttnn.close_mesh_device(opened)


@pytest.fixture(scope="module" if SCOPE == "session" else SCOPE)
def weights(device):
    """Outlives the test that first asks for it, if the device does."""
    memory = ttnn.DRAM_MEMORY_CONFIG
    return ttnn.zeros([1, 1, 512, 512], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


@pytest.fixture
def inputs(device):
    """Is gone with its test."""
    memory = ttnn.L1_MEMORY_CONFIG
    return ttnn.zeros([1, 1, 64, 64], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)
