"""Allocates and frees on several threads at once; compares whenever all of them rest.

Tensors change hands: what one thread has made, the next one frees.
"""

import threading

import ttnn
from tensors import empty
from ttmem_check import Arguments, Check, close_board, open_board

THREADS = 4
ROUNDS = 25
TENSORS_PER_ROUND = 20


def work(device, number, taken):
    """Frees what it was given, allocates and frees some, and gives what it keeps."""
    for tensor in taken:
        ttnn.deallocate(tensor)
    memory = (ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG)[number % 2]
    kept = []
    for count in range(TENSORS_PER_ROUND):
        kept.append(empty(device, [1, 1, 32, 32 * (1 + (number + count) % 5)], memory))
        if count % 3 == 2:
            ttnn.deallocate(kept.pop(count % len(kept)))
    return kept


def play_round(device, held):
    """All threads once; each gets what its neighbour holds."""
    results = [None] * THREADS

    def run(number):
        results[number] = work(device, number, held[number - 1])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if None in results:
        raise AssertionError("a thread has failed: its reason is above")
    return results


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments)
    check = Check()
    check.watch(device)
    check.note_own_comparisons()
    held = [[] for _ in range(THREADS)]
    for number in range(ROUNDS):
        held = check.step(f"round {number}", lambda: play_round(device, held))
        check.note_own_comparisons()
    check.step("free all", held.clear)
    # So many allocations are enough for one while the threads run.
    compared = check.require_own_comparisons()
    close_board(device, arguments)
    check.write_summary(arguments, compared)


if __name__ == "__main__":
    main()
