//! Scratchpads, which kernels are bound to.
//!
//! A kernel hands out its bindings to a `std::function`, with everything but the address.
//! That is in the binding itself, whose other parts are where the function gets them from:
//! it is read only from a binding in which all of these are in the places known.

#![expect(unsafe_code, reason = "calls the runtime's accessors")]

use super::function::{Function, Kept};
use super::{MAX_L1_BYTES, Object, accessors};
use crate::family::Unsupported;

accessors! {
    struct ScratchpadAccessors => ACCESSORS {
        bindings: fn(Object, &Function<Invoker>) -> () = c"_ZNK2tt8tt_metal6Kernel34process_scratchpad_binding_handlesERKSt8functionIFvRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEjjRKSt8optionalINS0_11LLKMetadataEEEE";
    }
}

/// Where a scratchpad lies on each core of its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) address: u32,
    pub(crate) size_bytes: u32,
}

/// Calls a `std::function<void(string const&, u32, u32, optional<LLKMetadata> const&)>`.
type Invoker = unsafe extern "C-unwind" fn(*const Kept, Object, *const u32, *const u32, Object);

/// A binding: its name, the argument in which its kernel gets the address, and more.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Layout {
    name: [u64; 4],
    size_bytes: u32,
    argument: u32,
    address: u32,
    metadata: [u32; 1],
}

const _: () = assert!(std::mem::offset_of!(Layout, address) == 0x28);
const _: () = assert!(std::mem::offset_of!(Layout, metadata) == 0x2c);

impl ScratchpadAccessors {
    /// The scratchpads of a kernel whose program has placed them.
    pub(crate) fn read(&self, kernel: Object) -> Result<Vec<Binding>, Unsupported> {
        let mut collected: Collected = Ok(Vec::new());
        let function = Function::<Invoker>::lent((&raw mut collected).cast(), collect);
        (self.bindings)(kernel, &function);
        collected
    }
}

type Collected = Result<Vec<Binding>, Unsupported>;

unsafe extern "C-unwind" fn collect(
    kept: *const Kept,
    name: Object,
    size_bytes: *const u32,
    argument: *const u32,
    metadata: Object,
) {
    // SAFETY: the runtime passes on what the function that it was lent keeps.
    let [collected, _] = unsafe { kept.read() };
    // SAFETY: `read` put its own there, which outlives the call and is used nowhere else.
    let collected = unsafe { &mut *collected.cast::<Collected>() };
    // SAFETY: the runtime passes a reference to a number.
    let size_bytes = unsafe { size_bytes.read() };
    // SAFETY: the runtime passes a reference to a number.
    let argument = unsafe { argument.read() };
    // SAFETY: the name is the first part of a binding, if the metadata are the last.
    let binding = unsafe { understand(name, size_bytes, argument, metadata) };
    let odd = Unsupported::Unexpected("scratchpads are laid out in another way");
    match (&mut *collected, binding) {
        (Ok(bindings), Some(binding)) => bindings.push(binding),
        (Ok(_), None) => *collected = Err(odd),
        (Err(_), _) => {}
    }
}

/// The binding of which these are parts; none if it is laid out in another way.
///
/// # Safety
/// If `metadata` lies where it does in a binding that begins with `name`, it is one.
unsafe fn understand(
    name: Object,
    size_bytes: u32,
    argument: u32,
    metadata: Object,
) -> Option<Binding> {
    let begin = name.address();
    let expected = begin.checked_add(std::mem::offset_of!(Layout, metadata))?;
    if begin == 0 || !begin.is_multiple_of(align_of::<Layout>()) || metadata.address() != expected {
        return None;
    }
    // SAFETY: it begins and ends where a binding does, so it is one.
    let layout = unsafe { name.read::<Layout>(0) };
    let same = layout.size_bytes == size_bytes && layout.argument == argument;
    let sensible = size_bytes > 0 && layout.address <= MAX_L1_BYTES;
    (same && sensible).then_some(Binding {
        address: layout.address,
        size_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINDING: Layout = Layout {
        name: [0; 4],
        size_bytes: 2048,
        argument: 3,
        address: 109_920,
        metadata: [0],
    };

    /// A kernel with two bindings, which it hands out as the runtime does.
    extern "C-unwind" fn bindings(kernel: Object, function: &Function<Invoker>) {
        let metadata = Object(
            kernel
                .0
                .wrapping_byte_add(std::mem::offset_of!(Layout, metadata)),
        );
        let kept = (&raw const *function).cast();
        let (size, argument) = (2048, 3);
        for _each in 0..2 {
            // SAFETY: the function is the one under test, which gets what it keeps and a binding.
            unsafe {
                (function.invoker)(kept, kernel, &raw const size, &raw const argument, metadata)
            };
        }
    }

    fn read(binding: &Layout) -> Result<Vec<Binding>, Unsupported> {
        let accessors = ScratchpadAccessors { bindings };
        accessors.read(Object((&raw const *binding).cast()))
    }

    #[test]
    fn every_binding_is_collected_with_its_address() {
        let one = Binding {
            address: 109_920,
            size_bytes: 2048,
        };
        assert_eq!(read(&BINDING), Ok(vec![one, one]));
    }

    #[test]
    fn a_binding_of_another_layout_is_doubted() {
        let odd = Err(Unsupported::Unexpected(
            "scratchpads are laid out in another way",
        ));
        let other_size = Layout {
            size_bytes: 2047,
            ..BINDING
        };
        assert_eq!(read(&other_size), odd);
        let other_argument = Layout {
            argument: 4,
            ..BINDING
        };
        assert_eq!(read(&other_argument), odd);
        let above_l1 = Layout {
            address: u32::MAX,
            ..BINDING
        };
        assert_eq!(read(&above_l1), odd);
        let binding = BINDING;
        let name = Object((&raw const binding).cast());
        let elsewhere = Object(name.0.wrapping_byte_add(0x30));
        // SAFETY: it is seen that the metadata are elsewhere.
        assert_eq!(unsafe { understand(name, 2048, 3, elsewhere) }, None);
    }
}
