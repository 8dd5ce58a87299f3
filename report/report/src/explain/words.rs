//! Words that several sentences use.

use crate::explain::moment::Caller;
use crate::{BlockOwner, MemoryClass, short_line, size_text};

/// Sizes that stand beside each other: exact where rounding would make two of them look the same.
pub(crate) fn sizes<const N: usize>(sizes: [u64; N]) -> [String; N] {
    let rounded = sizes.map(size_text);
    let alike = (0..N).any(|one| {
        (0..one).any(|other| sizes[one] != sizes[other] && rounded[one] == rounded[other])
    });
    if alike {
        sizes.map(|size| format!("{size} B"))
    } else {
        rounded
    }
}

/// An address as the runtime prints it, and as people search for it.
pub(crate) fn address(address: u64) -> String {
    format!("{address} ({address:#x})")
}

pub(crate) fn class(class: Option<MemoryClass>) -> &'static str {
    match class {
        Some(MemoryClass::Dram) => "DRAM",
        Some(MemoryClass::L1) => "L1",
        Some(MemoryClass::L1Small) => "L1_SMALL",
        Some(MemoryClass::Trace) => "TRACE",
        Some(MemoryClass::System) => "system memory",
        Some(MemoryClass::Other) | None => "memory",
    }
}

/// Where the memory is, at the begin of a sentence.
pub(crate) fn place(of: Option<MemoryClass>) -> String {
    match of {
        Some(MemoryClass::L1Small | MemoryClass::Trace) => format!("The {} region", class(of)),
        Some(MemoryClass::System | MemoryClass::Other) | None => "The memory".to_owned(),
        Some(MemoryClass::Dram | MemoryClass::L1) => class(of).to_owned(),
    }
}

/// The name of an operation: apart from the words around it, as one may be called `full`.
pub(crate) fn operation(name: &str) -> String {
    format!("`{name}`")
}

/// Who asked: the operation, the line, or nobody in particular.
pub(crate) fn who(caller: &Caller) -> String {
    let line = caller.python.as_deref().map(short_line);
    match (caller.operation.as_deref().map(operation), line) {
        (Some(operation), Some(line)) => format!("{operation} at {line}"),
        (Some(operation), None) => operation,
        (None, Some(line)) => format!("the allocation at {line}"),
        (None, None) => "the allocation".to_owned(),
    }
}

/// Whose a block is: the line and the operation, or one of them.
pub(crate) fn owner(owner: &BlockOwner) -> Option<String> {
    let line = owner.python.as_deref().map(short_line);
    match (line, &owner.operation) {
        (Some(line), Some(name)) => Some(format!("{line} ({})", operation(name))),
        (Some(line), None) => Some(line.to_owned()),
        (None, name) => name.as_deref().map(operation),
    }
}

pub(crate) fn banks(banks: Option<u32>) -> String {
    match banks {
        Some(1) => "its bank".to_owned(),
        // A region of no size has none.
        Some(0) | None => "each bank".to_owned(),
        Some(banks) => format!("each of {banks} banks"),
    }
}

/// When buffers cannot be released: what the call needs is not known, only what it placed.
pub(crate) fn unless(caller: &Caller, number: u64) -> String {
    let them = if number == 1 { "it" } else { "them" };
    if caller.is_call_known {
        format!("unless this call uses {them}")
    } else {
        format!("unless this call made or uses {them}")
    }
}

pub(crate) fn buffers(number: u64) -> String {
    format!("{number} buffer{}", if number == 1 { "" } else { "s" })
}
