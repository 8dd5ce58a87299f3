"""Compares two ways of doing the same inside one process, in pairs.

Identical runs of ttnn differ by half of their time on a shared machine, so two runs say nothing.
Here short blocks of one way and of the other alternate, and each block is compared with its
neighbour. The median over many pairs stands for all, with an interval that assumes nothing about
how the pairs are distributed.
"""

import gc
import math
import statistics
import time
from dataclasses import dataclass

# How sure the intervals are.
CONFIDENCE = 0.95
# Runs at the beginning of a block that do not count: the change itself made the caches cold.
UNCOUNTED = 4


@dataclass
class Comparison:
    """What came of it. Times are in ns per run, of the wall clock and of this thread's processor."""

    pairs: int
    runs: int
    off: float
    on: float
    added: float
    added_interval: tuple
    ratio: float
    ratio_interval: tuple
    cpu_ratio: float
    cpu_ratio_interval: tuple
    cpu_added: float
    cpu_added_interval: tuple


def interval_of_median(values):
    """The median, and the values between which it lies, by the ranks alone."""
    values = sorted(values)
    count = len(values)
    # So many values may be cut off at each end: each is above the median by the toss of a coin.
    cut, below = 0, 0.5**count
    while 2 * (below + math.comb(count, cut + 1) * 0.5**count) <= 1 - CONFIDENCE:
        cut += 1
        below += math.comb(count, cut) * 0.5**count
    return statistics.median(values), (values[cut], values[count - 1 - cut])


def block(action, runs):
    """The time of one run in ns, of the wall clock and of the processor."""
    for _ in range(UNCOUNTED):
        action()
    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
    for _ in range(runs):
        action()
    wall, cpu = time.perf_counter_ns() - wall, time.thread_time_ns() - cpu
    return wall / runs, cpu / runs


def compare(action, switch, pairs, runs):
    """Runs `action` in blocks, with `switch(True)` and with `switch(False)` in turn."""
    times = {False: [], True: []}
    # Collecting garbage would hit some block, not each.
    gc.collect()
    gc.disable()
    try:
        for pair in range(pairs):
            # Whatever drifts is for one way in one pair and for the other in the next.
            for on in (False, True) if pair % 2 else (True, False):
                switch(on)
                times[on].append(block(action, runs))
    finally:
        switch(True)
        gc.enable()
    off_wall, off_cpu = zip(*times[False])
    on_wall, on_cpu = zip(*times[True])
    ratio, ratio_interval = interval_of_median(map(lambda a, b: a / b, on_wall, off_wall))
    added, added_interval = interval_of_median(map(lambda a, b: a - b, on_wall, off_wall))
    cpu_ratio, cpu_ratio_interval = interval_of_median(map(lambda a, b: a / b, on_cpu, off_cpu))
    cpu_added, cpu_added_interval = interval_of_median(map(lambda a, b: a - b, on_cpu, off_cpu))
    return Comparison(
        pairs=pairs,
        runs=runs,
        off=statistics.median(off_wall),
        on=statistics.median(on_wall),
        added=added,
        added_interval=added_interval,
        ratio=ratio,
        ratio_interval=ratio_interval,
        cpu_ratio=cpu_ratio,
        cpu_ratio_interval=cpu_ratio_interval,
        cpu_added=cpu_added,
        cpu_added_interval=cpu_added_interval,
    )
