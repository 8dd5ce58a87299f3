//! The name of the ttnn operation that made a call.
//!
//! Every operation has its own instance of one template function that tracks and
//! enqueues its programs. The address to which a tracked call returns lies in that
//! instance, and the instance's exported name contains the operation's type.

#![expect(unsafe_code, reason = "asks the loader through its C interface")]

use crate::place_map::PlaceMap;
use crate::report;
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use ttmem_event::TextId;

/// Names by the address that was returned to: asking the loader searches all its symbols.
///
/// Three times as many as there are operations today.
static NAMES: PlaceMap<1024> = PlaceMap::new();

/// Forgets the names, whose texts are the parent's.
pub(crate) fn forget() {
    NAMES.forget();
}

/// The text of the operation whose code contains an address.
pub(crate) fn text_at(address: usize) -> TextId {
    if let Some(known) = NAMES.get(address) {
        return TextId(u32::try_from(known).unwrap_or_default());
    }
    let name = exported_function_at(address);
    let text = name
        .as_deref()
        .and_then(operation_in)
        .map_or(TextId::NONE, |name| report::tracker().text(name));
    NAMES.insert(address, usize::try_from(text.0).unwrap_or_default());
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
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(length) = rest.get(..digits)?.parse::<usize>() else {
            return last.map(short);
        };
        last = Some(rest.get(digits..digits.checked_add(length)?)?);
        rest = rest.get(digits + length..)?;
    }
}

/// The part of an operation's type that people know it by.
fn short(name: &str) -> &str {
    let short = name.strip_suffix("DeviceOperation").unwrap_or(name);
    if short.is_empty() { name } else { short }
}

/// The exported function that contains an address, by its mangled name.
fn exported_function_at(address: usize) -> Option<String> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    let address = std::ptr::without_provenance::<c_void>(address);
    // SAFETY: `found` is writable; any address may be asked for, it is not read.
    if unsafe { libc::dladdr(address, found.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: dladdr filled it in, and zero is valid for each of its fields.
    let name = unsafe { found.assume_init() }.dli_sname;
    if name.is_null() {
        return None;
    }
    // SAFETY: the loader's names are C strings that stay while the library is loaded.
    let name = unsafe { CStr::from_ptr(name) };
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
