//! Programs and kernels of a world: a program cache as a transformer fills it.

use super::{World, ago, chance};
use crate::data::Listed;
use ttmem_report::{
    BinaryState, CoreType, HexId, KernelKind, KernelRow, ProgramDevice, ProgramRow,
};

/// Operations, the cores they run on, and their bytes of code and of storage on a core.
const OPERATIONS: [(&str, u32, u64, u64); 8] = [
    ("MatmulMultiCoreReuseMcast1D", 64, 14_208, 638_976),
    ("LayerNormMultiCore", 32, 9_344, 163_840),
    ("SoftmaxMultiCore", 64, 8_704, 221_184),
    ("ReshardGeneric", 48, 3_072, 0),
    ("PagedUpdateCache", 32, 7_936, 69_632),
    ("EltwiseBinaryBroadcast", 64, 6_016, 98_304),
    ("SDPADecode", 64, 22_784, 884_736),
    ("NLPCreateHeads", 32, 5_120, 40_960),
];

/// Kernels of a program: its source, the share of its code in thousandths.
const KERNELS: [(&str, u64); 3] = [
    ("dataflow/reader_interleaved_start_id.cpp", 250),
    ("dataflow/writer_interleaved_start_id.cpp", 230),
    ("compute/compute_blocks.cpp", 520),
];

/// Programs of the user; those that lie in the ring are the last nine.
const APPLICATION: u32 = 70;

impl World {
    pub(super) fn programs(self) -> Listed<ProgramRow> {
        let count = if self.devices == 0 {
            0
        } else {
            APPLICATION + 2
        };
        Listed {
            rows: (0..count).map(|place| self.program(place)).collect(),
            has_more: false,
        }
    }

    pub(super) fn kernels(self) -> Listed<KernelRow> {
        let mut rows = Vec::new();
        for (place, program) in self.programs().rows.iter().enumerate() {
            let kernels = usize::try_from(program.kernels).unwrap();
            let code = program.text_bytes.unwrap_or(0);
            for (kernel, (source, share)) in KERNELS.iter().take(kernels).enumerate() {
                let operation = place % OPERATIONS.len();
                let application = program.kind == Some(KernelKind::Application);
                let (name, id, bytes) = match (application, kernel) {
                    // Readers and writers are the same whatever they are of.
                    (true, 0 | 1) => (self.name(source, 7), kernel, 14_208 * share / 1000),
                    (true, _) => (
                        self.name(&format!("compute/{}.cpp", OPERATIONS[operation].0), 7),
                        10 + operation,
                        code * share / 1000,
                    ),
                    (false, _) => (program.name.clone().unwrap_or_default(), 100 + place, code),
                };
                let cores = program.cores.unwrap_or(1);
                rows.push(KernelRow {
                    pid: program.pid,
                    instance: program.instance.clone(),
                    device_ids: (0..self.devices).collect(),
                    program: program.program,
                    program_name: program.name.clone(),
                    kernel: HexId(0x6b65_0000 + id as u64),
                    name: Some(name),
                    kind: program.kind.unwrap_or(KernelKind::Unknown),
                    core_type: Some(match program.kind {
                        Some(KernelKind::Fabric) => CoreType::ActiveEth,
                        Some(KernelKind::Dispatch) => CoreType::IdleEth,
                        _application => CoreType::Tensix,
                    }),
                    binary_bytes: Some(bytes),
                    cores: Some(cores),
                    total_bytes: bytes * u64::from(cores),
                    time: Some(program.created),
                    dispatches: program.dispatches,
                });
            }
        }
        Listed {
            rows,
            has_more: false,
        }
    }

    fn program(self, place: u32) -> ProgramRow {
        let operation = OPERATIONS[place as usize % OPERATIONS.len()];
        let (kind, number, name, cores, text, cbs, kernels) = match place {
            0 => (
                KernelKind::Fabric,
                1,
                "fabric_erisc_router",
                16,
                57_344,
                0,
                1,
            ),
            1 => (
                KernelKind::Dispatch,
                2,
                "cq_prefetch_dispatch",
                2,
                47_104,
                0,
                1,
            ),
            _user => (
                KernelKind::Application,
                1_137 + u64::from(place),
                operation.0,
                operation.1,
                operation.2,
                operation.3,
                3,
            ),
        };
        let application = kind == KernelKind::Application;
        // Together they ran as often as the snapshot says.
        let often = |place: u32| 2_560 >> (place % 8);
        let dispatches = match place {
            0 | 1 => 0,
            2 => 90_213 - (3..APPLICATION + 2).map(often).sum::<u64>(),
            _other => often(place),
        };
        let built = !(self.busy && place % 17 == 9);
        let last = application.then(|| ago(chance(place, 40) * u64::from(place % 3)));
        let on = |device: u32| ProgramDevice {
            id: device,
            unique_id: Some(Self::unique_id(device)),
            binary: match (built, self.busy && place % 6 == 4 && device == 3) {
                (false, _) => BinaryState::NotSent,
                (true, true) => BinaryState::InFlight,
                (true, false) => BinaryState::Committed,
            },
            sent_bytes: Some(3 * text),
            command_bytes: Some(4_096),
            dispatches,
            program_cache_hits: dispatches.saturating_sub(1),
            program_cache_misses: u64::from(application),
            binary_reuses: dispatches.saturating_sub(4),
            last_run: last,
            resident_cores: if place == 71 { cores } else { 0 },
        };
        // Those in the ring are of the process whose ring it is.
        let later = self.processes > 2 && place % 9 == 5 && place < 63;
        let owner = if later { 2 } else { 0 };
        ProgramRow {
            pid: Some(70_100 + 37 * owner),
            instance: Some(format!("{:032x}", 0xabcd_ef00 + owner)),
            program: Some(number),
            name: Some(self.name(name, place)),
            python: None,
            runtime_id: application.then_some(90_213 - u64::from(place)),
            kind: Some(kind),
            created: ago(10_900 - 90 * u64::from(place)),
            cores: Some(cores),
            config_bytes: built.then_some(1_216),
            text_bytes: built.then_some(text),
            binary_bytes: built.then_some(3 * text),
            cb_bytes: cbs * u64::from(cores),
            kernel_bytes: text * u64::from(cores),
            kernels,
            jit_disk_hits: kernels.saturating_sub(u64::from(place.is_multiple_of(5))),
            dispatches,
            first_run: application.then(|| ago(10_890 - 90 * u64::from(place))),
            last_run: last,
            devices: (0..self.devices).map(on).collect(),
        }
    }
}
