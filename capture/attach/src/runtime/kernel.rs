//! Kernels.

#![expect(unsafe_code, reason = "calls the runtime's accessors")]

use super::text::Text;
use super::vector::{Vector, cores_of_vector};
use super::{Object, accessors, slot_of};
use crate::family::Unsupported;
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
        name: fn(&mut MaybeUninit<Text>, Object) -> Object = c"_ZNK2tt8tt_metal6Kernel4nameB5cxx11Ev";
        cores: fn(Object) -> Vector = c"_ZNK2tt8tt_metal6Kernel18logical_corerangesEv";
        hash: fn(Object) -> u64 = c"_ZNK2tt8tt_metal6Kernel12compute_hashEv";
        /// Of a kernel that is built for the open device, and one of its binaries.
        packed_size: fn(Object, Object, i32) -> u32 = c"_ZNK2tt8tt_metal6Kernel22get_binary_packed_sizeEPNS0_7IDeviceEi";
        config_size: fn(Object, u32) -> *const u32 = c"_ZN2tt8tt_metal6detail11ProgramImpl23get_program_config_sizeEj";
        delete: fn(Object) -> () = c"_ZdlPv";
    }
}

const COMPUTE_TABLE: &CStr = c"_ZTVN2tt8tt_metal13ComputeKernelE";
const COMPUTE_BINARIES: &CStr = c"_ZNK2tt8tt_metal13ComputeKernel21expected_num_binariesEv";

/// No kernel has more binaries.
const MAX_BINARIES: u8 = 16;

/// Texts are packed in the ring at multiples of this.
const TEXT_ALIGNMENT: u64 = 16;

#[derive(Debug)]
pub(crate) struct KernelAccessors {
    functions: Functions,
    /// The place of `expected_num_binaries()` in the table of every kernel.
    binaries_slot: usize,
}

pub(crate) static ACCESSORS: LazyLock<Result<KernelAccessors, Unsupported>> = LazyLock::new(find);

fn find() -> Result<KernelAccessors, Unsupported> {
    // SAFETY: the loader gives the function of each name.
    let functions = unsafe { Functions::find(symbols::find) }?;
    let missing = "a kernel's table has no expected_num_binaries()";
    // One less than it has.
    let binaries_slot = slot_of::<32>(COMPUTE_TABLE, COMPUTE_BINARIES, missing)?;
    Ok(KernelAccessors {
        functions,
        binaries_slot,
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// Equal for equal binaries.
    pub(crate) hash: u64,
    pub(crate) cores: CoreSet,
    pub(crate) core_type: CoreType,
    pub(crate) binary_bytes: u64,
    /// Bytes that they take in the ring.
    pub(crate) text_bytes: u64,
}

impl KernelAccessors {
    /// A kernel that is built for an open device.
    pub(crate) fn read(
        &self,
        kernel: Object,
        core_type: CoreType,
        device: Object,
    ) -> Option<Kernel> {
        let f = &self.functions;
        // SAFETY: the slot is that of `expected_num_binaries() const` in the tables of all kernels.
        let count = unsafe { kernel.virtual_function::<u8>(self.binaries_slot) };
        let (mut binary_bytes, mut text_bytes) = (0, 0_u64);
        for index in 0..count(kernel).min(MAX_BINARIES) {
            let bytes = (f.packed_size)(kernel, device, i32::from(index));
            binary_bytes += u64::from(bytes);
            text_bytes += u64::from(bytes).next_multiple_of(TEXT_ALIGNMENT);
        }
        Some(Kernel {
            name: self.name(kernel),
            hash: (f.hash)(kernel),
            cores: self.cores(kernel)?,
            core_type,
            binary_bytes,
            text_bytes,
        })
    }

    pub(crate) fn cores(&self, kernel: Object) -> Option<CoreSet> {
        let ranges = (self.functions.cores)(kernel);
        // SAFETY: a set of core ranges is a vector of them, and this one is ours.
        let cores = unsafe { cores_of_vector(&ranges) };
        ranges.delete_by(self.functions.delete);
        cores
    }

    fn name(&self, kernel: Object) -> String {
        let mut text = MaybeUninit::<Text>::uninit();
        (self.functions.name)(&mut text, kernel);
        // SAFETY: the function has written a text to the place.
        let text = unsafe { text.assume_init_ref() };
        // SAFETY: it is a text, and nobody else has it.
        let name = unsafe { text.read() }.unwrap_or_default();
        text.delete_by(self.functions.delete);
        name
    }

    /// Bytes that a program takes in the config ring of each compute core, once it is finalized.
    pub(crate) fn config_ring_bytes(&self, program: Object) -> Option<u64> {
        // Every program has a size for compute cores.
        let size = (self.functions.config_size)(program, 0);
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
