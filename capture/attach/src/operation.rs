//! The name of the ttnn operation that made a call.
//!
//! Every operation has its own instance of one template function that tracks and
//! enqueues its programs, and a function of its own that creates its results. The address
//! to which a call returns lies in one of these, and its exported name has the
//! operation's. An address that is in no exported function has no name.

use crate::lock_free::address_map::{AddressMap, Slot};
use crate::lock_free::per_process::PerProcess;
use crate::{report, symbols};
use std::collections::HashMap;
use ttmem_event::TextId;
use ttmem_ring::heap::Heap;

/// Names by the address that was returned to: asking the loader searches all its symbols.
///
/// Four times as many as there are such places in ttnn today.
static NAMES: AddressMap<TextId, 4096> = AddressMap::new([const { Slot::new() }; 4096]);

/// The names themselves, for texts that begin with one.
static TEXTS: PerProcess<HashMap<TextId, String>> = PerProcess::new();

/// Forgets the names, whose texts are the parent's.
pub(crate) fn forget() {
    NAMES.forget();
    TEXTS.forget();
}

/// The name that an operation's text has; empty if there is none.
pub(crate) fn name(text: TextId) -> String {
    TEXTS.lock().get(&text).cloned().unwrap_or_default()
}

/// The text of a name.
pub(crate) fn named(name: &str) -> TextId {
    let text = report::tracker().text(name);
    let mut texts = TEXTS.lock();
    if texts.try_reserve(1).is_ok() {
        texts.entry(text).or_insert_with(|| name.to_owned());
    } else {
        Heap::exhaust();
    }
    text
}

/// The text of the operation that enqueues its programs at an address.
pub(crate) fn text_at(address: usize) -> TextId {
    text_by(address, operation_in, None)
}

/// The text of the operation, or else the function, that creates tensors at an address.
///
/// Where no exported function is, the usual name of such a call counts, if it has one.
pub(crate) fn creator_at(address: usize, usual: Option<&str>) -> TextId {
    text_by(address, creator_in, usual)
}

/// The text of the name that is made of the function at an address.
fn text_by(
    address: usize,
    name_in: impl FnOnce(&str) -> Option<&str>,
    usual: Option<&str>,
) -> TextId {
    if let Some(known) = NAMES.get(address) {
        return *known;
    }
    let function = exported_function_at(address);
    let text = function
        .as_deref()
        .and_then(name_in)
        .or(usual)
        .map_or(TextId::NONE, named);
    NAMES.insert(address, Box::leak(Box::new(text)));
    text
}

/// The operation in the mangled name of the function that enqueues it.
///
/// That is a template over `MeshDeviceOperationAdapter<…::Operation>`: the last part of
/// the nested name is the operation.
fn operation_in(function: &str) -> Option<&str> {
    let (_, mut rest) = function.split_once("MeshDeviceOperationAdapterI")?;
    let mut last = None;
    loop {
        // `N` opens a nested name, `S_`, `S1_` … stand for a part said before.
        rest = rest.strip_prefix('N').unwrap_or(rest);
        if let Some(substituted) = rest.strip_prefix('S') {
            rest = substituted.split_once('_')?.1;
        }
        let Some(part) = take_part(&mut rest)? else {
            return last.map(short);
        };
        last = Some(part);
    }
}

/// Takes the next part of a mangled name, which its length is before; none at the end of the
/// parts, and of nothing if it is broken.
pub(crate) fn take_part<'n>(rest: &mut &'n str) -> Option<Option<&'n str>> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let Ok(length) = rest.get(..digits)?.parse::<usize>() else {
        return Some(None);
    };
    let part = rest.get(digits..digits.checked_add(length)?)?;
    *rest = rest.get(digits + length..)?;
    Some(Some(part))
}

/// Who creates tensors, from the mangled name of the function that does.
///
/// An operation is a type, and these have capitals where namespaces have none: the first
/// type is the operation. What is no member of a type is known by its own name.
fn creator_in(function: &str) -> Option<&str> {
    let nested = function.strip_prefix("_ZN")?;
    let mut rest = nested.strip_prefix('K').unwrap_or(nested);
    let mut last = None;
    while let Some(part) = take_part(&mut rest)? {
        if part.starts_with(|first: char| first.is_ascii_uppercase()) && part != "Tensor" {
            return Some(short(part));
        }
        last = Some(part);
    }
    last.map(short)
}

/// Ends of names that say what a type or function is for, not what it is.
const ROLES: [&str; 4] = ["DeviceOperation", "ProgramFactory", "Impl", "_impl"];

/// The part of a name that people know an operation by.
fn short(name: &str) -> &str {
    let strip = |role: &&str| name.strip_suffix(role).filter(|short| !short.is_empty());
    ROLES.iter().find_map(strip).unwrap_or(name)
}

/// The exported function that contains an address, by its mangled name.
fn exported_function_at(address: usize) -> Option<String> {
    let name = symbols::around(address)?.symbol?;
    name.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enqueue_of(operation: &str) -> String {
        format!(
            "_ZN4ttnn16device_operation6detail21enqueue_mesh_workloadI\
             NS0_26MeshDeviceOperationAdapterI{operation}EEEEvRNT_"
        )
    }

    #[test]
    fn the_operation_is_the_last_part_of_the_nested_name() {
        let cases = [
            (
                "NS_10operations9binary_ng23BinaryNgDeviceOperationE",
                "BinaryNg",
            ),
            ("NS_4prim21MatmulDeviceOperationE", "Matmul"),
            ("NS_10operations6matmul6MatmulE", "Matmul"),
            ("NS1_7softmaxE", "softmax"),
            ("15DeviceOperationE", "DeviceOperation"),
        ];
        for (mangled, expected) in cases {
            let function = enqueue_of(mangled);
            assert_eq!(operation_in(&function), Some(expected), "{mangled}");
        }
    }

    #[test]
    fn who_creates_tensors_is_a_type_or_a_function() {
        let cases = [
            (
                "_ZN4ttnn10operations9binary_ng23BinaryNgDeviceOperation21create_output_tensorsERKNS2_",
                Some("BinaryNg"),
            ),
            (
                "_ZN4ttnn10operations4pool6Pool2D9MultiCore26create_workload_descriptorE",
                Some("Pool2D"),
            ),
            (
                "_ZN4ttnn4prim30ReshapeViewTiledProgramFactory24create_program_artifactsE",
                Some("ReshapeViewTiled"),
            ),
            ("_ZN4ttnn5emptyERKN2tt8tt_metal5ShapeE", Some("empty")),
            (
                "_ZN4ttnn15creation_detail9full_implIfEENS_6TensorE",
                Some("full"),
            ),
            ("_ZNK4ttnn6Tensor3padERKNS_5ShapeE", Some("pad")),
            ("_ZZN4ttnn5emptyEvENKUlvE_clEv", None),
            ("_Z4mainv", None),
            ("_ZN4ttnn99emptyE", None),
            ("_ZN", None),
            ("", None),
        ];
        for (function, expected) in cases {
            assert_eq!(creator_in(function), expected, "{function}");
        }
    }

    #[test]
    fn names_of_another_form_have_no_operation() {
        let broken = enqueue_of("NS_99999999999999999999xE");
        let short = enqueue_of("NS_999BinaryNg");
        for function in [
            "",
            "main",
            "MeshDeviceOperationAdapterI",
            "MeshDeviceOperationAdapterINS",
            &broken,
            &short,
        ] {
            assert_eq!(operation_in(function), None, "{function}");
        }
    }

    #[test]
    fn an_address_outside_of_all_libraries_has_no_name() {
        assert_eq!(exported_function_at(16), None);
    }
}
