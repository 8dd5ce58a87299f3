//! Kernels.

#![expect(unsafe_code, reason = "calls the runtime's accessors")]

use super::text::Text;
use super::vector::{Vector, cores_of_vector};
use super::{Object, accessors, slot_of, table_at};
use crate::family::Doubt;
use crate::symbols;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::LazyLock;
use ttmem_event::{CoreSet, CoreType};

accessors! {
    /// What is asked of a kernel.
    ///
    /// A text is returned in a place that is passed as a first argument: a short one lies
    /// inside of it, so it must not be moved.
    struct Functions {
        name: fn(*mut Text, Object) -> *mut Text = c"_ZNK2tt8tt_metal6Kernel4nameB5cxx11Ev";
        cores: fn(Object) -> Vector = c"_ZNK2tt8tt_metal6Kernel18logical_corerangesEv";
        hash: fn(Object) -> u64 = c"_ZNK2tt8tt_metal6Kernel12compute_hashEv";
        packed_size: fn(Object, Object, i32) -> u32 = c"_ZNK2tt8tt_metal6Kernel22get_binary_packed_sizeEPNS0_7IDeviceEi";
        config_size: fn(Object, u32) -> *const u32 = c"_ZN2tt8tt_metal6detail11ProgramImpl23get_program_config_sizeEj";
        free: fn(Object) -> () = c"_ZdlPv";
    }
}

const COMPUTE_TABLE: &CStr = c"_ZTVN2tt8tt_metal13ComputeKernelE";
const COMPUTE_BINARIES: &CStr = c"_ZNK2tt8tt_metal13ComputeKernel21expected_num_binariesEv";

/// How many entries of a kernel's table are searched: one less than it has.
const SEARCHED_ENTRIES: usize = 32;

/// No kernel has more binaries.
const MAX_BINARIES: u8 = 16;

/// Texts are packed in the ring at multiples of this.
const TEXT_ALIGNMENT: u64 = 16;

/// What is asked of kernels.
#[derive(Debug)]
pub(crate) struct KernelAccessors {
    functions: Functions,
    /// The place of `expected_num_binaries()` in the table of every kernel.
    binaries_slot: usize,
}

/// The accessors of this process's runtime.
pub(crate) static ACCESSORS: LazyLock<Result<KernelAccessors, Doubt>> = LazyLock::new(find);

fn find() -> Result<KernelAccessors, Doubt> {
    // SAFETY: the loader gives the runtime's function of each name.
    let functions = unsafe { Functions::find_all(symbols::find_with_delete) }?;
    let table = table_at(COMPUTE_TABLE)?;
    let entries = std::ptr::with_exposed_provenance::<[usize; SEARCHED_ENTRIES]>(table);
    // SAFETY: the table of a class with so many virtual functions has these entries.
    let entries = unsafe { entries.read() };
    let missing = "a kernel's table has no expected_num_binaries()";
    let binaries_slot = slot_of(&entries, COMPUTE_BINARIES, missing)?;
    Ok(KernelAccessors {
        functions,
        binaries_slot,
    })
}

/// A kernel, as far as it is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// Equal for equal binaries.
    pub(crate) hash: u64,
    pub(crate) cores: CoreSet,
    pub(crate) core_type: CoreType,
    /// Bytes of its binaries.
    pub(crate) binary_bytes: u64,
    /// Bytes that they take in the ring.
    pub(crate) text_bytes: u64,
}

impl KernelAccessors {
    /// A kernel that is built.
    ///
    /// # Safety
    /// `kernel` is a live `Kernel` that is built for the open device `device`.
    pub(crate) unsafe fn read(
        &self,
        kernel: Object,
        core_type: CoreType,
        device: Object,
    ) -> Option<Kernel> {
        type Count = unsafe extern "C-unwind" fn(Object) -> u8;
        let f = &self.functions;
        // SAFETY: as the caller vouches.
        let name = unsafe { self.name(kernel) };
        // SAFETY: as above.
        let hash = unsafe { (f.hash)(kernel) };
        // SAFETY: as above.
        let cores = unsafe { self.cores(kernel) };
        // SAFETY: an object with virtual functions begins with the address of its table.
        let table = unsafe { kernel.cast::<*const usize>().read() };
        // SAFETY: the tables of all kernels begin with the slots of their common base.
        let slot = unsafe { table.add(self.binaries_slot) };
        // SAFETY: the slot is that of `expected_num_binaries() const`.
        let count = unsafe { slot.cast::<Count>().read() };
        // SAFETY: as above.
        let count = unsafe { count(kernel) };
        let (mut binary_bytes, mut text_bytes) = (0, 0_u64);
        for index in 0..count.min(MAX_BINARIES) {
            // SAFETY: as the caller vouches; there are so many binaries.
            let bytes = unsafe { (f.packed_size)(kernel, device, i32::from(index)) };
            binary_bytes += u64::from(bytes);
            text_bytes += u64::from(bytes).next_multiple_of(TEXT_ALIGNMENT);
        }
        Some(Kernel {
            name,
            hash,
            cores: cores?,
            core_type,
            binary_bytes,
            text_bytes,
        })
    }

    /// The cores of a kernel.
    ///
    /// # Safety
    /// `kernel` is a live `Kernel`.
    pub(crate) unsafe fn cores(&self, kernel: Object) -> Option<CoreSet> {
        // SAFETY: as the caller vouches.
        let ranges = unsafe { (self.functions.cores)(kernel) };
        // SAFETY: a set of core ranges is a vector of them, and this one is ours.
        let cores = unsafe { cores_of_vector(&ranges) };
        if !ranges.memory().is_null() {
            // SAFETY: it is ours, and the runtime got its memory by `operator new`.
            unsafe { (self.functions.free)(ranges.memory()) };
        }
        cores
    }

    /// A kernel's name.
    ///
    /// # Safety
    /// `kernel` is a live `Kernel`.
    unsafe fn name(&self, kernel: Object) -> String {
        let mut text = MaybeUninit::<Text>::uninit();
        // SAFETY: as the caller vouches; the function writes a text to the place.
        unsafe { (self.functions.name)(text.as_mut_ptr(), kernel) };
        // SAFETY: it is written.
        let text = unsafe { text.assume_init_ref() };
        // SAFETY: it is a text, and nobody else has it.
        let name = unsafe { text.read() }.unwrap_or_default();
        if let Some(memory) = text.memory() {
            // SAFETY: the text is ours, and a long one is in memory of `operator new`.
            unsafe { (self.functions.free)(memory) };
        }
        name
    }

    /// Bytes that a program takes in the ring of each compute core, once it is finalized.
    ///
    /// # Safety
    /// `program` is a live `ProgramImpl`.
    pub(crate) unsafe fn ring_bytes(&self, program: Object) -> Option<u64> {
        // SAFETY: as the caller vouches; every program has a size for compute cores.
        let size = unsafe { (self.functions.config_size)(program, 0) };
        // SAFETY: it is a reference to a member of the live program.
        unsafe { size.as_ref() }.copied().map(u64::from)
    }
}

/// The most text on any compute core.
pub(crate) fn text_bytes(kernels: &[Kernel]) -> u64 {
    let mut on_core = BTreeMap::<usize, u64>::new();
    for kernel in kernels {
        if kernel.core_type == CoreType::Tensix {
            for core in kernel.cores.indices() {
                *on_core.entry(core).or_default() += kernel.text_bytes;
            }
        }
    }
    on_core.into_values().max().unwrap_or_default()
}

/// The kernels with those of the same binary as one, on the cores of all of them.
///
/// A program may have one kernel several times, each with arguments for other cores.
pub(crate) fn by_binary(kernels: &[Kernel]) -> Vec<Kernel> {
    let mut merged: Vec<Kernel> = Vec::with_capacity(kernels.len());
    for kernel in kernels {
        let same =
            |other: &&mut Kernel| (other.hash, other.core_type) == (kernel.hash, kernel.core_type);
        match merged.iter_mut().find(same) {
            Some(other) => other.cores.insert_all(&kernel.cores),
            None => merged.push(kernel.clone()),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_on_other_cores_is_the_same_kernel() {
        let kernel = |hash, columns, rows, core_type| Kernel {
            name: "writer".to_owned(),
            hash,
            cores: CoreSet::grid(columns, rows),
            core_type,
            binary_bytes: 100,
            text_bytes: 112,
        };
        let kernels = [
            kernel(1, 8, 2, CoreType::Tensix),
            kernel(2, 8, 8, CoreType::Tensix),
            kernel(1, 4, 4, CoreType::Tensix),
            kernel(1, 2, 1, CoreType::IdleEth),
        ];
        let merged = by_binary(&kernels);
        let cores: Vec<_> = merged.iter().map(|k| (k.hash, k.cores.len())).collect();
        assert_eq!(cores, [(1, 24), (2, 64), (1, 2)]);
    }

    #[test]
    fn the_core_with_most_text_counts() {
        let kernel = |columns, core_type, text_bytes| Kernel {
            name: String::new(),
            hash: 0,
            cores: CoreSet::grid(columns, 1),
            core_type,
            binary_bytes: text_bytes,
            text_bytes,
        };
        let kernels = [
            kernel(8, CoreType::Tensix, 100),
            kernel(2, CoreType::Tensix, 40),
            kernel(1, CoreType::Tensix, 2),
            kernel(8, CoreType::IdleEth, 1000),
        ];
        assert_eq!(text_bytes(&kernels), 142);
        assert_eq!(text_bytes(&kernels[..2]), 140);
        assert_eq!(text_bytes(&[]), 0);
    }
}
