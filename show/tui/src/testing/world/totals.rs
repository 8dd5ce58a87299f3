//! The snapshot of a world: Wormhole boards of two chips, with what runs on them.

use super::{NOW, World, ago, chance};
use std::collections::BTreeMap;
use ttmem_report::{
    AllocatorUsage, Anomalies, CacheCounts, CbUsage, ClassUsage, ConfigRingEntry, ConfigRingUsage,
    CoreType, Device, FailureCount, FailureCounts, HexId, HostProcess, IncompleteReason,
    KernelUsage, LeakCandidates, Mark, MemoryClass, PeakBytes, PrefetchUsage, Process,
    ProcessDevice, ProcessState, Released, SCHEMA, Server, Setting, Snapshot, Source,
};

const MIB: u64 = 1 << 20;
/// DRAM of a chip without its trace region.
const DRAM: u64 = 12 * 1024 * MIB - 64 * MIB;
const TRACE: u64 = 64 * MIB;
/// Compute cores, and L1 of each.
pub(super) const CORES: u64 = 64;
pub(super) const L1_OF_A_CORE: u64 = 1_499_136;
pub(super) const RESERVED_OF_A_CORE: u64 = 107_616;
const SMALL_OF_A_CORE: u64 = 32_768;

impl World {
    pub(super) fn snapshot(self) -> Snapshot {
        let names = ["unknown_free", "double_alloc", "clashing_place"];
        let anomalies = if self.busy {
            names
                .iter()
                .zip(1..)
                .map(|(name, count)| ((*name).to_owned(), count))
                .collect()
        } else {
            BTreeMap::new()
        };
        Snapshot {
            schema: SCHEMA,
            time: NOW,
            host: self.name("tt-quiet-01", 0),
            server: Server {
                pid: 4_242,
                version: "0.1.0".to_owned(),
                started: ago(11_520),
                uptime_seconds: 11_520,
                sockets: vec!["ttmem.sock".to_owned()],
                clients: u64::from(self.processes),
                clients_limit: Some(1024),
                clients_refused: 0,
                events_applied: 123_456_789,
                events_lost: 0,
                events_elided: 0,
                log_lines_elided: 0,
            },
            devices: (0..self.devices).map(|place| self.device(place)).collect(),
            processes: (0..self.processes)
                .map(|place| self.process(place))
                .collect(),
            marks: vec![Mark {
                name_hidden: false,
                name: self.name("before the second epoch", 1),
                number: 1,
                time: ago(95),
            }],
            anomalies: Anomalies(anomalies),
            errors: Vec::new(),
            failures: FailureCount::default(),
            machine: None,
        }
    }

    pub(super) fn unique_id(place: u32) -> HexId {
        HexId(0x0100_0145_1170_2000 + u64::from(place))
    }

    /// A share of what there is, in thousandths: steady for a device.
    fn share(self, place: u32, salt: u32) -> u64 {
        let share = chance(place * 31 + salt, 700);
        if self.busy {
            990 - share / 20
        } else {
            100 + share
        }
    }

    fn class(self, capacity: u64, banks: u32, share: u64, buffers: u64) -> ClassUsage {
        let charged = capacity / 1000 * share / 2048 * 2048;
        ClassUsage {
            capacity_bytes: Some(capacity),
            banks: Some(banks),
            requested_bytes: charged / 100 * 97,
            charged_bytes: charged,
            union_bytes: Some(charged),
            overlap_bytes: Some(0),
            peak_bytes: (charged / 10 * 11).min(capacity),
            peak_time: Some(ago(77)),
            buffers,
            largest_free_bytes_per_bank: Some((capacity - charged) / u64::from(banks) / 3),
            ..ClassUsage::default()
        }
    }

    pub(super) fn device(self, place: u32) -> Device {
        let l1_room = CORES * (L1_OF_A_CORE - RESERVED_OF_A_CORE - SMALL_OF_A_CORE);
        let l1 = self.class(l1_room, 64, self.share(place, 2) / 2, 118);
        let small = self.class(CORES * SMALL_OF_A_CORE, 64, self.share(place, 3) / 2, 9);
        let resident = CORES * (L1_OF_A_CORE / 1000 * self.share(place, 4) / 3);
        let reserved = CORES * RESERVED_OF_A_CORE;
        let occupied = reserved + l1.charged_bytes + small.charged_bytes + resident;
        let kernels = 917_504 + 94_208 + MIB * (1 + chance(place, 5));
        let dram = self.class(DRAM, 12, self.share(place, 1), 1_482);
        Device {
            id: place,
            unique_id: Some(Self::unique_id(place)),
            scope: None,
            arch: Some("wormhole_b0".to_owned()),
            board: Some(self.name(if self.devices == 32 { "galaxy" } else { "n300" }, place)),
            remote: Some(place % 2 == 1),
            source: Some(Source::Attached),
            verified: Some(!self.busy),
            dram,
            l1: ClassUsage {
                physical_bytes: Some(CORES * L1_OF_A_CORE),
                reserved_bytes: Some(reserved),
                occupied_bytes: Some(occupied.min(CORES * L1_OF_A_CORE)),
                ..l1
            },
            l1_small: small,
            trace: self.class(TRACE, 12, 180, 4),
            system: ClassUsage::default(),
            cb: CbUsage {
                registered_bytes: 9 * resident,
                resident_bytes: Some(resident),
                local_bytes: Some(8 * resident),
                global_bytes: Some(resident / 2),
                dataflow_bytes: Some(resident / 4),
                dataflow_borrowed_bytes: Some(0),
                scratchpad_bytes: Some(resident / 4),
                count: 341,
                peak_bytes: 10 * resident,
                peak_time: Some(ago(12)),
            },
            kernel: KernelUsage {
                registered_bytes: kernels,
                resident_bytes: Some(kernels / 3),
                application_bytes: kernels - 917_504 - 94_208,
                fabric_bytes: 917_504,
                dispatch_bytes: 94_208,
                unknown_bytes: 0,
                unique_bytes: kernels / 2,
                shared_bytes: kernels - kernels / 2,
                tensix_bytes: Some(kernels - 917_504 - 94_208),
                active_eth_bytes: Some(917_504),
                idle_eth_bytes: Some(94_208),
                dram_core_bytes: Some(0),
                count: 212,
                peak_bytes: kernels,
                peak_time: Some(ago(300)),
            },
            ring: vec![self.ring()],
            prefetch: vec![PrefetchUsage {
                pid: Some(70_100),
                mesh: Some(1),
                capacity_bytes: Some(1_048_576),
                used_bytes: 734_003,
                entries: 41,
                hits: 88_123,
                misses: 512,
                evictions: 37,
                resets: 1,
            }],
            caches: CacheCounts {
                program_cache_hits: Some(90_001),
                program_cache_misses: Some(212),
                binary_reuses: Some(89_700),
                prefetch_hits: Some(88_123),
                jit_disk_hits: Some(611),
                jit_disk_misses: Some(25),
            },
            dispatches: 90_213,
            trace_replays: 1_024,
            failures: FailureCounts::default(),
            ring_stalls: 0,
            cb_headroom_bytes: Some(if self.busy { 12_288 } else { 135_168 }),
            allocators: self.allocators(&dram, &l1, &small),
            peaks_since_marks: vec![PeakBytes {
                dram: dram.peak_bytes,
                l1: l1.peak_bytes,
                l1_small: small.peak_bytes,
                trace: 0,
                system: 0,
                cb: 9 * resident,
                kernel: kernels,
            }],
            names: None,
            telemetry: None,
            upstream: None,
            regions: vec![
                region("trace_region_size", 8 * 98_304, Some(4 << 20), 8),
                region("l1_small_size", 768, Some(32_768), 1),
            ],
        }
    }

    fn allocators(
        self,
        dram: &ClassUsage,
        l1: &ClassUsage,
        small: &ClassUsage,
    ) -> Vec<AllocatorUsage> {
        let classes = [
            (MemoryClass::Dram, dram),
            (MemoryClass::L1, l1),
            (MemoryClass::L1Small, small),
        ];
        let usage = |(class, usage): (MemoryClass, &ClassUsage)| AllocatorUsage {
            pid: Some(70_100),
            instance: Some("00112233445566778899aabbccddeeff".to_owned()),
            mesh: Some(1),
            class,
            charged_bytes: usage.charged_bytes,
            capacity_bytes: usage.capacity_bytes,
            banks: usage.banks,
            largest_free_bytes_per_bank: usage.largest_free_bytes_per_bank,
            fragmentation: Some(0.667),
            buffers: usage.buffers,
            verified: Some(!self.busy),
        };
        classes.map(usage).to_vec()
    }

    fn ring(self) -> ConfigRingUsage {
        let entry = |place: u64| ConfigRingEntry {
            program: Some(1_200 + place),
            address: 28_672 + place * 6_144 + if place > 5 { 9_000 } else { 0 },
            size_bytes: 4_096 + place * 128,
            sync: Some(900 + place),
        };
        ConfigRingUsage {
            pid: Some(70_100),
            mesh: Some(1),
            core_type: CoreType::Tensix,
            sub_device: Some(0),
            capacity_bytes: Some(70_656),
            used_bytes: (0..9).map(|place| entry(place).size_bytes).sum(),
            entry_count: 9,
            entries: (0..9).map(entry).collect(),
            wraps: 5_120,
            evictions: 46_000,
            stalls: if self.busy { 3_211 } else { 2 },
            reserves: 90_213,
        }
    }

    fn incomplete_reasons(self, place: u32) -> Vec<IncompleteReason> {
        let reason = |reason: &str, count, detail: Option<&str>| IncompleteReason {
            reason: reason.to_owned(),
            count,
            detail: detail.map(str::to_owned),
        };
        if !(self.busy && place % 5 == 2) {
            return Vec::new();
        }
        vec![
            reason("events_lost", 12, None),
            reason(
                "not_tracked",
                1,
                Some("scratchpads are not tracked: no `Kernel::name`"),
            ),
        ]
    }

    fn process(self, place: u32) -> Process {
        let state = match place % 8 {
            3 => ProcessState::Detached,
            5 => ProcessState::Exited,
            _other => ProcessState::Live,
        };
        let gone = state == ProcessState::Exited;
        let on = |device: u32| {
            let bytes = MIB * (1 + chance(place * 7 + device, 700));
            ProcessDevice {
                id: device,
                unique_id: Some(Self::unique_id(device)),
                scope: None,
                dram_bytes: bytes,
                l1_bytes: bytes / 40,
                l1_small_bytes: bytes / 4_000,
                trace_bytes: 0,
                system_bytes: 0,
                cb_bytes: bytes / 30,
                kernel_bytes: bytes / 400,
                buffers: 12 + u64::from(place),
                peak: Some(PeakBytes {
                    dram: bytes + bytes / 5,
                    l1: bytes / 30,
                    l1_small: bytes / 4_000,
                    trace: 0,
                    system: 0,
                    cb: bytes / 25,
                    kernel: bytes / 400,
                }),
            }
        };
        Process {
            pid: Some(70_100 + place * 37),
            instance: Some(format!("{:032x}", 0xabcd_ef00 + place)),
            name: Some(self.name(
                ["python3", "pytest", "vllm-worker"][place as usize % 3],
                place,
            )),
            uid: Some(1_000 + place % 3),
            start_time: Some(ago(60 + 977 * u64::from(place))),
            state,
            source: Source::Attached,
            incomplete: self.busy && place % 5 == 2,
            incomplete_reasons: self.incomplete_reasons(place),
            resyncing: self.busy && place == 4,
            lost_events: if self.busy && place % 5 == 2 { 12 } else { 0 },
            elided_events: 0,
            claimed_pid: None,
            anomalies: if self.busy { u64::from(place % 2) } else { 0 },
            names_hidden: false,
            labels: BTreeMap::new(),
            inherited_frees: 0,
            leak_candidates: LeakCandidates {
                buffers: u64::from(place % 4 == 1) * 3,
                bytes: u64::from(place % 4 == 1) * 3 * MIB,
            },
            connections: u32::from(!gone),
            devices: (0..self.devices)
                .filter(|device| (device + place) % 3 != 1)
                .map(|device| if gone { left(on(device)) } else { on(device) })
                .collect(),
            released: gone.then(|| Released {
                buffers: 77,
                cbs: 12,
                kernels: 30,
                bytes: 512 * MIB,
                buffer_bytes: 512 * MIB,
                time: ago(20),
                reason: "ended".to_owned(),
            }),
            host: (!gone).then(|| HostProcess {
                command: Some(self.name("python3 serve.py --model llama-8b --batch 32", place)),
                user: Some(["maria", "jan", "ci-runner"][place as usize % 3].to_owned()),
                // Every fourth is a worker of the first.
                parent: Some(if place % 4 == 2 { 70_100 } else { 1 }),
                rss_bytes: Some(MIB * (300 + chance(place, 4_000))),
            }),
        }
    }
}

/// What is left of a process on a device after its end: the peaks.
fn left(on: ProcessDevice) -> ProcessDevice {
    ProcessDevice {
        dram_bytes: 0,
        l1_bytes: 0,
        l1_small_bytes: 0,
        cb_bytes: 0,
        kernel_bytes: 0,
        buffers: 0,
        ..on
    }
}

fn region(name: &str, value: u64, given: Option<u64>, parts: u64) -> Setting {
    Setting {
        name: name.to_owned(),
        value,
        bytes_per_bank: Some(value / parts),
        given,
        is_smallest: true,
    }
}
