"""Compiles very many kernels: each is a process that inherits the preloaded library.

The stand-in for the compiler notes for each of its processes whether the library was there, and
how many threads and sockets the process had when it was done. None of them may have connected.
"""

import ctypes
import os

import ttnn
from behaviour import Run, open_device, zeros

# Each has a compute kernel of its own: three processors, each compiled and linked.
OPERATIONS = """
    abs acos asin atan cbrt ceil cos cosh deg2rad eqz erf erfc erfinv exp exp2 expm1 floor gelu gez
    gtz hardsigmoid hardswish i0 isfinite isinf isnan lez log log10 log1p log2 logical_not ltz mish
    neg nez reciprocal relu relu6 rsqrt sigmoid sign silu sin sinh softplus softsign sqrt square
    tan tanh trunc
""".split()

LEAST_PROCESSES = 200


def is_attached():
    return hasattr(ctypes.CDLL(None), "ttmem_attach_flush")


def main():
    run = Run()
    folder = os.environ["TTMEM_STANDIN_WITNESSES"]
    device = open_device()
    a = zeros(device, 32)
    for operation in OPERATIONS:
        getattr(ttnn, operation)(a)
    del a
    ttnn.close_device(device)
    witnesses = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as witness:
            witnesses.append(witness.read().split())
    run.tell("at least 200 processes", len(witnesses) >= LEAST_PROCESSES)
    if len(witnesses) < LEAST_PROCESSES:
        raise AssertionError(f"only {len(witnesses)} compilers were started")
    run.tell("processes", len(witnesses))
    attached = {"preloaded" if is_attached() else "plain"}
    run.tell("preloaded as we are", {witness[0] for witness in witnesses} == attached)
    run.tell("threads and sockets", sorted({" ".join(witness[1:]) for witness in witnesses}))
    run.expect({"/exit_code": 0, "/anomalies": 0})


if __name__ == "__main__":
    main()
