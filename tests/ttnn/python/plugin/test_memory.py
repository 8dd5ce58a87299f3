"""Tests that keep to what they may take, and tests that do not: `pytest_plugin.py` runs them."""

import os

import pytest
import ttnn

# So many tiles more than usual, to be found against a baseline.
MORE = int(os.environ.get("TTMEM_TESTS_MORE", "0"))

kept = []


def zeros(device, rows, memory=ttnn.DRAM_MEMORY_CONFIG):
    return ttnn.zeros([1, 1, rows, 64], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


@pytest.mark.ttmem(leaked=0, peak_l1="83MiB")
def test_clean(weights, inputs):
    ttnn.add(inputs, inputs)


@pytest.mark.ttmem(leaked=0)
def test_uses_what_lives_longer(device, weights):
    zeros(device, 64)


@pytest.mark.ttmem(leaked=0)
def test_waits_for_the_collector(device):
    cycle = {"tensor": zeros(device, 64)}
    cycle["itself"] = cycle


@pytest.mark.ttmem(leaked="4 GiB")
def test_leaks_as_it_may(device):
    kept.append(zeros(device, 64))
    kept.clear()


def test_without_a_mark(device):
    zeros(device, 64 + 32 * MORE)


@pytest.mark.ttmem(leaked=0)
def test_leaks(device):
    kept.append(zeros(device, 96))  # the leak


@pytest.mark.ttmem(peak_l1="1KiB")
def test_takes_too_much(inputs):
    pass


@pytest.mark.ttmem(leaked=0)
def test_leaks_in_a_comprehension(device):
    kept.extend([zeros(device, 64) for _ in range(3)])  # three leaks


@pytest.mark.xfail(reason="a known leak")
@pytest.mark.ttmem(leaked=0)
def test_leaks_as_expected(device):
    kept.append(zeros(device, 64))


@pytest.mark.xfail(reason="a known peak", strict=True)
@pytest.mark.ttmem(peak_l1="1KiB")
def test_takes_too_much_as_expected(inputs):
    pass


@pytest.mark.xfail(strict=True)
@pytest.mark.ttmem(leaked=0)
def test_keeps_to_its_limit_unexpectedly(device):
    zeros(device, 64)


@pytest.mark.xfail(raises=ZeroDivisionError)
@pytest.mark.ttmem(leaked=0)
def test_leaks_where_something_else_is_expected(device):
    kept.append(zeros(device, 64))


def test_needs_no_device():
    pass


@pytest.mark.ttmem(peek_l1=1)
def test_has_a_limit_that_is_none(device):
    pass


def test_fails_by_itself(device):
    held = zeros(device, 64)
    assert held is None


@pytest.mark.skip(reason="to be skipped")
def test_is_skipped(device):
    pass
