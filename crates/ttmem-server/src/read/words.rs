//! The ledger's words in those of the read API.

use ttmem_event::catalogue::Arch;
use ttmem_event::{BinaryStatus, CbKind, Class, CoreType, KernelKind, Layout, Source};

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

pub(super) fn instance(instance: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(instance))
}

pub(crate) fn class(class: Class) -> ttmem_api::MemoryClass {
    match class {
        Class::Dram => ttmem_api::MemoryClass::Dram,
        Class::L1 => ttmem_api::MemoryClass::L1,
        Class::System => ttmem_api::MemoryClass::System,
        Class::L1Small => ttmem_api::MemoryClass::L1Small,
        Class::Trace => ttmem_api::MemoryClass::Trace,
    }
}

/// The class of a word; none of a word that is not known.
pub(super) fn class_named(word: ttmem_api::MemoryClass) -> Option<Class> {
    Class::ALL
        .iter()
        .copied()
        .find(|known| class(*known) == word)
}

pub(super) fn source(source: Source) -> ttmem_api::Source {
    match source {
        Source::Attached => ttmem_api::Source::Attached,
        Source::Model => ttmem_api::Source::Model,
        Source::Client => ttmem_api::Source::Client,
        Source::Legacy => ttmem_api::Source::Legacy,
        Source::Shm => ttmem_api::Source::Shm,
    }
}

pub(super) fn layout(layout: Layout) -> Option<ttmem_api::BufferLayout> {
    match layout {
        Layout::Interleaved => Some(ttmem_api::BufferLayout::Interleaved),
        Layout::Unknown => None,
        Layout::HeightSharded => Some(ttmem_api::BufferLayout::HeightSharded),
        Layout::WidthSharded => Some(ttmem_api::BufferLayout::WidthSharded),
        Layout::BlockSharded => Some(ttmem_api::BufferLayout::BlockSharded),
        Layout::NdSharded => Some(ttmem_api::BufferLayout::NdSharded),
    }
}

pub(super) fn core_type(core_type: CoreType) -> ttmem_api::CoreType {
    match core_type {
        CoreType::Tensix => ttmem_api::CoreType::Tensix,
        CoreType::ActiveEth => ttmem_api::CoreType::ActiveEth,
        CoreType::IdleEth => ttmem_api::CoreType::IdleEth,
        CoreType::Dram => ttmem_api::CoreType::Dram,
    }
}

pub(super) fn cb_kind(kind: CbKind) -> ttmem_api::CbKind {
    match kind {
        CbKind::Local => ttmem_api::CbKind::Local,
        CbKind::Global => ttmem_api::CbKind::Global,
        CbKind::Dataflow => ttmem_api::CbKind::Dataflow,
        CbKind::DataflowBorrowed => ttmem_api::CbKind::DataflowBorrowed,
        CbKind::Scratchpad => ttmem_api::CbKind::Scratchpad,
    }
}

pub(super) fn binary_state(status: BinaryStatus) -> ttmem_api::BinaryState {
    match status {
        BinaryStatus::NotSent => ttmem_api::BinaryState::NotSent,
        BinaryStatus::InFlight => ttmem_api::BinaryState::InFlight,
        BinaryStatus::Committed => ttmem_api::BinaryState::Committed,
    }
}

pub(super) fn kernel_kind(kind: KernelKind) -> ttmem_api::KernelKind {
    match kind {
        KernelKind::Application => ttmem_api::KernelKind::Application,
        KernelKind::Fabric => ttmem_api::KernelKind::Fabric,
        KernelKind::Dispatch => ttmem_api::KernelKind::Dispatch,
        KernelKind::Unknown => ttmem_api::KernelKind::Unknown,
    }
}

/// The architecture's name; an unknown one is told by its number, none by nothing.
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
