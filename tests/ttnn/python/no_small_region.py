"""Asks for the small region of L1 where it has no size, and so no banks.

ttnn refuses it in two ways; the program goes on after both, tracked as it is. A hook that asked
such a request for its share of a bank would divide by no banks, which is the end of the program.
"""

import ttmem_account
import ttnn
from tensors import OUT_OF_MEMORY, empty, small_sharded, zeros
from ttmem_check import Arguments, Check, close_board, equal, open_board

# How ttnn refuses the small region to what is not sharded.
NOT_SHARDED = "num_cores.has_value()"
ROWS, COLUMNS, CORES = 6, 64, 4
SHAPE = [1, 1, ROWS * CORES, COLUMNS]
BYTES_OF_NUMBER = 2


def main():
    arguments = Arguments.of_command_line()
    device = open_board(arguments, l1_small_size=0, trace_region_size=0)
    check = Check()
    check.watch(device)

    def be_refused(name, memory, refusal):
        """What was told of it as a lack of memory; None if nothing was."""
        refused = check.refused
        rows = ttnn.ROW_MAJOR_LAYOUT
        check.step(name, lambda: empty(device, SHAPE, memory, layout=rows), (refusal,))
        equal(f"{name} is refused", check.refused, refused + 1)
        ttmem_account.flush()
        return check.account.last_event("allocation_failed")

    interleaved = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.L1_SMALL)
    told = be_refused("interleaved", interleaved, NOT_SHARDED)
    equal("a lack of memory is told that is none", told, None)
    told = be_refused("shards", small_sharded(ROWS, COLUMNS), OUT_OF_MEMORY)
    equal("a lack of memory is told", told is not None, True)
    per_bank_bytes = ROWS * COLUMNS * BYTES_OF_NUMBER
    equal("bytes that each bank should have given", told["per_bank_bytes"], per_bank_bytes)
    equal("bytes that each bank has", told["bank_bytes"], 0)
    kept = check.step("go on", lambda: zeros(device, [1, 1, 32, 32], ttnn.L1_MEMORY_CONFIG))
    check.step("free", lambda: ttnn.deallocate(kept))
    close_board(device, arguments)
    check.write_summary(arguments)


if __name__ == "__main__":
    main()
