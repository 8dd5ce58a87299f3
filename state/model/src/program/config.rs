//! The config of a program: what the ring in the L1 of its cores holds while it runs.
//!
//! For each core type, one after another: runtime arguments, common arguments, semaphores,
//! circular and dataflow buffer configs, kernel text; each sized for the largest kernel group.
//! The programs of a workload are laid out together, so that one reservation serves them all.

use super::Program;
use super::error::ProgramError;
use super::groups::KernelGroup;
use super::kernel::Kernel;
use ttmem_event::CoreType;
use ttmem_event::catalogue::{ConfigRing, MemoryMap};

/// Arguments are 32-bit words.
const ARGUMENT_BYTES: u64 = 4;

/// Four words describe a local circular buffer or a dataflow buffer.
const LOCAL_BUFFER_BYTES: u64 = 16;

/// Two words describe a remote circular buffer.
const REMOTE_BUFFER_BYTES: u64 = 8;

/// The launch message has 16 bits for where arguments are.
const LAST_ARGUMENT_OFFSET: u64 = 65_535;

/// In DRAM each piece of a binary begins on a page of its own, for the prefetcher.
const BINARY_PAGE_BYTES: u64 = 2048;

/// The runtime numbers groups in a byte and keeps one value for "none".
const MAX_GROUPS: usize = 254;

/// Whether kernel text takes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPlace {
    Silicon,
    /// On the runtime's mock device, which loads no binaries.
    Mock,
}

/// Where the parts of a program's config lie, for one core type, from the start of the config.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreConfig {
    /// Arguments that each core has of its own.
    pub runtime_args_at: u64,
    /// Arguments that all cores share.
    pub common_args_at: u64,
    pub semaphores_at: u64,
    pub cbs_at: u64,
    pub dataflow_at: u64,
    pub text_at: u64,
    /// Bytes of kernel text in the ring.
    pub text_bytes: u64,
    /// Bytes that the ring gives up.
    pub total: u64,
}

/// The config of a program for every core type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfigLayout {
    /// By the number of the core type.
    pub per_core_type: [CoreConfig; 4],
}

impl ConfigLayout {
    /// The config for cores of that type.
    #[must_use]
    pub const fn of(&self, core_type: CoreType) -> &CoreConfig {
        &self.per_core_type[core_type as usize]
    }
}

/// Fixes the offsets of several programs together: all get the same layout.
///
/// # Errors
/// When the config does not fit the ring of a core type, or the launch message cannot describe
/// it. No program is finalized then.
pub fn finalize(programs: &mut [&mut Program], text: TextPlace) -> Result<(), ProgramError> {
    let Some(map) = programs.first().map(|program| program.map) else {
        return Ok(());
    };
    let mut layout = ConfigLayout::default();
    for core_type in CoreType::ALL {
        let Some(memory) = map.core(core_type) else {
            continue;
        };
        let config = Section::of(programs, core_type)?.config(map, memory.config_ring, text)?;
        layout.per_core_type[core_type as usize] = config;
    }
    for program in programs {
        let bytes = match text {
            TextPlace::Silicon => binary_bytes(&program.kernels),
            TextPlace::Mock => 0,
        };
        program.finalized = Some(Finalized {
            layout,
            binary_bytes: bytes,
        });
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Finalized {
    pub(super) layout: ConfigLayout,
    pub(super) binary_bytes: u64,
}

/// All binaries in one blob, each from a page of its own.
fn binary_bytes(kernels: &[Kernel]) -> u64 {
    kernels
        .iter()
        .flat_map(|kernel| &kernel.binaries)
        .fold(0, |sum: u64, binary| {
            sum.saturating_add(round_up(*binary, BINARY_PAGE_BYTES))
        })
}

/// Saturates: no ring holds that much, so the program is refused.
fn round_up(bytes: u64, alignment: u64) -> u64 {
    bytes
        .checked_next_multiple_of(alignment)
        .unwrap_or(u64::MAX)
}

/// The groups of all programs on one core type, and what is counted over them.
struct Section<'a> {
    core_type: CoreType,
    groups: Vec<(&'a Program, KernelGroup)>,
    semaphores: u32,
    /// Behind the highest local index, over all groups.
    local_end: u32,
    /// The lowest remote index, over all groups.
    remote_start: Option<u32>,
    /// Behind the highest dataflow buffer slot, over all groups.
    slot_end: u32,
}

impl<'a> Section<'a> {
    fn of(programs: &'a [&'a mut Program], core_type: CoreType) -> Result<Self, ProgramError> {
        let mut section = Self {
            core_type,
            groups: Vec::new(),
            semaphores: 0,
            local_end: 0,
            remote_start: None,
            slot_end: 0,
        };
        for program in programs {
            let program: &'a Program = program;
            section.semaphores = section.semaphores.max(program.semaphores.end(core_type));
            let groups = program.groups(core_type);
            if groups.len() > MAX_GROUPS {
                return Err(ProgramError::TooManyGroups {
                    program: program.id().0,
                    groups: groups.len(),
                    limit: MAX_GROUPS,
                });
            }
            for (number, group) in groups.into_iter().enumerate() {
                // Only Tensix cores have circular and dataflow buffers.
                if core_type == CoreType::Tensix {
                    section.count_buffers(program, number, &group)?;
                }
                section.groups.push((program, group));
            }
        }
        Ok(section)
    }

    fn count_buffers(
        &mut self,
        program: &Program,
        number: usize,
        group: &KernelGroup,
    ) -> Result<(), ProgramError> {
        let indices = program.storage.cb_indices(&group.cores);
        if let Some(remote_start) = indices.remote_start {
            if indices.local_end > remote_start {
                return Err(ProgramError::IndicesOverlap {
                    group: number,
                    core_type: self.core_type as u8,
                    local_end: indices.local_end,
                    remote_start,
                });
            }
            let lowest = self.remote_start.unwrap_or(remote_start);
            self.remote_start = Some(lowest.min(remote_start));
        }
        self.local_end = self.local_end.max(indices.local_end);
        self.slot_end = self.slot_end.max(program.storage.slot_end(&group.cores));
        Ok(())
    }

    fn config(
        &self,
        map: &MemoryMap,
        ring: ConfigRing,
        text: TextPlace,
    ) -> Result<CoreConfig, ProgramError> {
        let alignment = map.l1_alignment;
        let common_args_at = self.runtime_args_bytes(alignment)?;
        let semaphores_at = common_args_at + self.common_args_bytes(common_args_at, alignment)?;
        let cbs_at = semaphores_at + u64::from(self.semaphores) * alignment;
        let remote_cbs = self
            .remote_start
            .map_or(0, |first| map.max_circular_buffers.saturating_sub(first));
        let cb_bytes = u64::from(self.local_end) * LOCAL_BUFFER_BYTES
            + u64::from(remote_cbs) * REMOTE_BUFFER_BYTES;
        let dataflow_at = round_up(cbs_at + cb_bytes, alignment);
        let dataflow_bytes = u64::from(self.slot_end) * LOCAL_BUFFER_BYTES;
        let text_at = round_up(dataflow_at + dataflow_bytes, alignment);
        let text_bytes = if ring.holds_text && text == TextPlace::Silicon {
            self.text_bytes(alignment)
        } else {
            0
        };
        let total = text_at.saturating_add(text_bytes);
        if total > ring.size_bytes {
            return Err(ProgramError::TooLarge {
                size: total,
                ring: ring.size_bytes,
                core_type: self.core_type,
            });
        }
        Ok(CoreConfig {
            runtime_args_at: 0,
            common_args_at,
            semaphores_at,
            cbs_at,
            dataflow_at,
            text_at,
            text_bytes,
            total,
        })
    }

    /// The kernels of each group.
    fn kernels(&self) -> impl Iterator<Item = impl Iterator<Item = &'a Kernel>> {
        self.groups
            .iter()
            .map(|(program, group)| group.kernels.iter().map(|place| &program.kernels[*place]))
    }

    /// The kernels of a group pack their own arguments tightly.
    fn runtime_args_bytes(&self, alignment: u64) -> Result<u64, ProgramError> {
        let mut largest = 0;
        for kernels in self.kernels() {
            let mut end = 0;
            for kernel in kernels {
                let bytes = u64::from(kernel.spec.runtime_args) * ARGUMENT_BYTES;
                check_offset("RTA", end, bytes)?;
                end += bytes;
            }
            largest = largest.max(round_up(end, alignment));
        }
        Ok(largest)
    }

    /// The shared arguments of each kernel are aligned: they are multicast one kernel at a time.
    fn common_args_bytes(&self, base: u64, alignment: u64) -> Result<u64, ProgramError> {
        let mut largest = 0;
        for kernels in self.kernels() {
            let mut end = 0;
            for kernel in kernels {
                let bytes = u64::from(kernel.spec.common_args) * ARGUMENT_BYTES;
                check_offset("CRTA", base + end, bytes)?;
                end = round_up(end + bytes, alignment);
            }
            largest = largest.max(end);
        }
        Ok(largest)
    }

    fn text_bytes(&self, alignment: u64) -> u64 {
        self.kernels()
            .map(|kernels| {
                kernels
                    .flat_map(|kernel| &kernel.binaries)
                    .fold(0, |end: u64, binary| {
                        round_up(end.saturating_add(*binary), alignment)
                    })
            })
            .max()
            .unwrap_or(0)
    }
}

/// Refuses arguments that begin too far into the config; a kernel without any has no offset.
const fn check_offset(
    arguments: &'static str,
    offset: u64,
    bytes: u64,
) -> Result<(), ProgramError> {
    if bytes > 0 && offset > LAST_ARGUMENT_OFFSET {
        return Err(ProgramError::OffsetOverflow { arguments, offset });
    }
    Ok(())
}
