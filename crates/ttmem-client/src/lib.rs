//! The client of ttmem.
