//! The runtime's own programs, on cores of their own: the fabric's routers and the dispatcher.
//!
//! They are launched when a device is opened, written by the host, and stay until it is closed.
//! They use no allocator and have no circular buffers.

use super::devices::column_zero;
use super::{Runtime, RuntimeError};
use crate::program::{CoreRanges, KernelSpec, Processor, Program, finalize};
use ttmem_event::catalogue::{
    Arch, ChipAttachment, DispatchCores, WORMHOLE_ETHERNET_DISPATCH_CORES,
};
use ttmem_event::{CacheResult, CoreRange, CoreSet, CoreType, DispatchPath, EventKind, KernelKind};

const ROUTER: &str = "fabric_erisc_router.cpp";

/// A kernel of the dispatcher: its source, and its text on a Tensix and on an Ethernet core.
struct Role {
    source: &'static str,
    tensix_bytes: u64,
    ethernet_bytes: u64,
    /// Whether it shares the Tensix core of the role before it; an Ethernet core runs one kernel.
    shares: bool,
}

const fn role(source: &'static str, tensix_bytes: u64, ethernet_bytes: u64) -> Role {
    Role {
        source,
        tensix_bytes,
        ethernet_bytes,
        shares: false,
    }
}

const PREFETCH: Role = role("cq_prefetch.cpp", 47_104, 22_528);
const DISPATCH: Role = role("cq_dispatch.cpp", 32_768, 20_480);
const SUBORDINATE: Role = Role {
    shares: true,
    ..role("cq_dispatch_subordinate.cpp", 14_336, 8_192)
};
const MUX: Role = role("tt_fabric_mux.cpp", 16_384, 12_288);

/// One command queue of a chip on PCIe.
const LOCAL: &[Role] = &[PREFETCH, DISPATCH, SUBORDINATE];
/// The same where the chip also forwards the commands of a remote one.
const GATEWAY: &[Role] = &[PREFETCH, DISPATCH, SUBORDINATE, PREFETCH, DISPATCH, MUX];
/// A chip that gets its commands over Ethernet.
const REMOTE: &[Role] = &[PREFETCH, DISPATCH, SUBORDINATE, MUX];

impl Runtime {
    pub(super) fn launch_system_programs(&mut self, device: usize) -> Result<(), RuntimeError> {
        if self.options.fabric && !self.devices[device].linked.is_empty() {
            let cores = self.devices[device].linked;
            self.launch_fabric(device, &cores)?;
        }
        if self.options.dispatch != DispatchCores::Slow {
            self.launch_dispatcher(device)?;
        }
        Ok(())
    }

    fn launch_fabric(&mut self, device: usize, cores: &CoreSet) -> Result<(), RuntimeError> {
        // Wormhole's Ethernet cores keep text outside of the small ring; Blackhole's within.
        let text_bytes = match self.options.board.arch() {
            Arch::Blackhole => 24_576,
            _wormhole => 57_344,
        };
        let mut program = self.new_program("fabric");
        program.add_kernel(KernelSpec {
            source: ROUTER.to_owned(),
            processor: Processor::Ethernet,
            core_type: CoreType::ActiveEth,
            cores: CoreRanges::from_ranges(cores.ranges()).unwrap_or_default(),
            compile_args: Vec::new(),
            runtime_args: 24,
            common_args: 0,
            text_bytes: Some(text_bytes),
        })?;
        self.launch_by_host(device, program, KernelKind::Fabric)
    }

    fn launch_dispatcher(&mut self, device: usize) -> Result<(), RuntimeError> {
        let mut program = self.new_program("dispatch");
        let on_ethernet = self.options.dispatch == DispatchCores::Ethernet;
        for (role, core) in self.dispatch_roles(device) {
            let (bytes, core_type) = if on_ethernet {
                (role.ethernet_bytes, CoreType::IdleEth)
            } else {
                (role.tensix_bytes, CoreType::Tensix)
            };
            let processor = match (on_ethernet, role.shares) {
                (true, _) => Processor::Ethernet,
                (false, true) => Processor::DataMovement1,
                (false, false) => Processor::DataMovement0,
            };
            program.add_kernel(KernelSpec {
                source: role.source.to_owned(),
                processor,
                core_type,
                cores: CoreRanges::from_ranges(core.ranges()).unwrap_or_default(),
                compile_args: Vec::new(),
                runtime_args: 0,
                common_args: 0,
                text_bytes: Some(bytes),
            })?;
        }
        self.launch_by_host(device, program, KernelKind::Dispatch)
    }

    /// The dispatcher's kernels of a device, each with its core.
    fn dispatch_roles(&self, device: usize) -> Vec<(&'static Role, CoreSet)> {
        let chip = &self.devices[device];
        let forwards = self.devices.iter().any(|other| {
            other.attachment
                == ChipAttachment::Remote {
                    gateway: chip.logical_id,
                }
        });
        let roles = match chip.attachment {
            ChipAttachment::Remote { .. } => REMOTE,
            ChipAttachment::Local if forwards => GATEWAY,
            ChipAttachment::Local => LOCAL,
        };
        let mut cores = self.dispatch_cores().into_iter();
        let mut placed: Vec<(&'static Role, CoreSet)> = Vec::new();
        let shared = self.options.dispatch != DispatchCores::Ethernet;
        for role in roles {
            let core = match placed.last() {
                Some((_role, core)) if role.shares && shared => Some(*core),
                _other => cores.next(),
            };
            placed.extend(core.map(|core| (role, core)));
        }
        placed
    }

    /// The cores that are set aside for dispatch, one by one.
    fn dispatch_cores(&self) -> Vec<CoreSet> {
        let grid = self.options.board.tensix_grid();
        let one = |x: u16, y: u16| {
            let core = CoreRange {
                x_first: x,
                y_first: y,
                x_last: x,
                y_last: y,
            };
            CoreSet::from_ranges([core]).unwrap_or_default()
        };
        let (last_column, last_row) = (grid.x.saturating_sub(1), grid.y.saturating_sub(1));
        match self.options.dispatch {
            DispatchCores::TensixRow => (0..grid.x).map(|x| one(x, last_row)).collect(),
            DispatchCores::TensixColumn => (0..grid.y).map(|y| one(last_column, y)).collect(),
            DispatchCores::Ethernet => WORMHOLE_ETHERNET_DISPATCH_CORES
                .iter()
                .map(|row| column_zero([*row]))
                .collect(),
            DispatchCores::Slow => Vec::new(),
        }
    }

    /// Compiles, finalizes and configures a program of the runtime itself, as slow dispatch does.
    fn launch_by_host(
        &mut self,
        device: usize,
        mut program: Program,
        kind: KernelKind,
    ) -> Result<(), RuntimeError> {
        self.compile(&mut program);
        finalize(&mut [&mut program], self.text_place())?;
        let chip = self.chip(device);
        self.report_finalized(chip, &program);
        self.report_kernels(chip, &program, kind);
        let operation = self.hooks.text(program.name());
        let runtime_id = self.next_run;
        self.counts.dispatches += 1;
        self.track(EventKind::Dispatched {
            mesh: chip,
            program: program.id(),
            runtime_id,
            operation,
            program_cache: CacheResult::Unknown,
            binary_reused: false,
            path: DispatchPath::Slow,
        });
        if let Some(open) = self.devices[device].open.as_mut() {
            open.system_programs.push(program.id());
        }
        Ok(())
    }
}
