//! The C ABI of ttmem.
