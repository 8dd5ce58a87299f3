//! The words of events and ledger in those of the read API.

use ttmem_event::catalogue::Arch;
use ttmem_event::{BinaryStatus, CbKind, Class, CoreType, KernelKind, Layout, Source};
use ttmem_ledger::{ProcessState, UNKNOWN_USER};

/// Longer texts of clients are cut: a page has thousands of rows, and each may name one.
const MAX_TEXT_BYTES: usize = 512;

/// A client's text, of bounded length.
pub(crate) fn text(text: &str) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    format!("{}…", &text[..end])
}

/// A client's text, where there is one.
pub(crate) fn known_text(known: &str) -> Option<String> {
    (!known.is_empty()).then(|| text(known))
}

/// What a process is called among others: its pid, where it has one, and its name.
pub(crate) fn process_label(pid: Option<u32>, name: &str) -> String {
    let name = text(name);
    match pid {
        Some(pid) => format!("{pid} {name}"),
        None => name,
    }
}

/// The number of a user, where it is known.
pub(crate) fn known_user(uid: u32) -> Option<u32> {
    (uid != UNKNOWN_USER).then_some(uid)
}

/// The frames of a native call stack, the innermost first.
pub(super) fn frames(stack: &str) -> Vec<String> {
    stack.split(';').map(str::to_owned).collect()
}

pub(super) fn instance(instance: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(instance))
}

/// Declares how the words of a set are called in the read API: by the same names.
macro_rules! same_words {
    ($($visibility:vis $name:ident: $set:ident to $called:ident { $($word:ident),+ })+) => {
        $($visibility fn $name(word: $set) -> ttmem_report::$called {
            match word {
                $($set::$word => ttmem_report::$called::$word,)+
            }
        })+
    };
}

same_words! {
    pub(crate) class: Class to MemoryClass { Dram, L1, System, L1Small, Trace }
    pub(super) source: Source to Source { Attached, Model, Client, Legacy, Shm }
    pub(super) core_type: CoreType to CoreType { Tensix, ActiveEth, IdleEth, Dram }
    pub(super) cb_kind: CbKind to CbKind { Local, Global, Dataflow, DataflowBorrowed, Scratchpad }
    pub(super) binary_state: BinaryStatus to BinaryState { NotSent, InFlight, Committed }
    pub(super) kernel_kind: KernelKind to KernelKind { Application, Fabric, Dispatch, Unknown }
    pub(super) process_state: ProcessState to ProcessState { Live, Detached, Exited }
}

pub(super) fn layout(layout: Layout) -> Option<ttmem_report::BufferLayout> {
    match layout {
        Layout::Interleaved => Some(ttmem_report::BufferLayout::Interleaved),
        Layout::Unknown => None,
        Layout::HeightSharded => Some(ttmem_report::BufferLayout::HeightSharded),
        Layout::WidthSharded => Some(ttmem_report::BufferLayout::WidthSharded),
        Layout::BlockSharded => Some(ttmem_report::BufferLayout::BlockSharded),
        Layout::NdSharded => Some(ttmem_report::BufferLayout::NdSharded),
    }
}

/// The class of a word; none of a word that is not known.
pub(super) fn class_named(word: ttmem_report::MemoryClass) -> Option<Class> {
    Class::ALL
        .iter()
        .copied()
        .find(|known| class(*known) == word)
}

/// The architecture's name; an unknown one is called by its number, none by nothing.
pub(crate) fn arch(arch: Arch) -> Option<String> {
    match arch {
        Arch::Unknown(0) => None,
        Arch::Unknown(number) => Some(format!("unknown_{number}")),
        named => Some(named.name().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_character() {
        assert_eq!(text(&"x".repeat(512)).len(), 512);
        let cut = text(&"é".repeat(400));
        assert_eq!(cut.chars().count(), 257);
        assert!(cut.ends_with("é…"));
        assert_eq!(known_text(""), None);
    }

    #[test]
    fn an_instance_is_its_bytes_in_order() {
        let mut bytes = [0; 16];
        bytes[0] = 0x0a;
        bytes[15] = 0xff;
        assert_eq!(instance(bytes), "0a0000000000000000000000000000ff");
    }

    #[test]
    fn both_vocabularies_use_the_same_words() {
        for each in Source::ALL {
            assert_eq!(source(*each).as_str(), each.name());
        }
        for each in CoreType::ALL {
            assert_eq!(core_type(each).as_str(), each.name());
        }
        for each in CbKind::ALL {
            assert_eq!(cb_kind(*each).as_str(), each.name());
        }
        for each in KernelKind::ALL {
            assert_eq!(kernel_kind(*each).as_str(), each.name());
        }
        for each in Layout::ALL {
            assert!(layout(*each).is_none_or(|word| word.as_str() == each.name()));
        }
    }
}
