"""A sandbox that refuses process_vm_readv, as those of some containers do."""
import ctypes
import struct
import sys

probe = ctypes.CDLL(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2
READ_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
PROCESS_VM_READV, REFUSED, ALLOWED = 310, 0x00050001, 0x7FFF0000

steps = (
    (READ_NUMBER, 0, 0, 0),
    (JUMP_IF_EQUAL, 0, 1, PROCESS_VM_READV),
    (RETURN, 0, 0, REFUSED),
    (RETURN, 0, 0, ALLOWED),
)
steps = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxQ", 4, ctypes.addressof(steps))
assert libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
assert libc.prctl(SET_SECCOMP, FILTER, program, 0, 0) == 0, ctypes.get_errno()

text = ctypes.create_string_buffer(1 << 12)
probe.probe_stack.restype = ctypes.c_size_t
probe.probe_stack.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
length = probe.probe_stack(text, len(text))
print(text.raw[:length].decode())
