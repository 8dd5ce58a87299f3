//! The lock-free part of ttmem.
