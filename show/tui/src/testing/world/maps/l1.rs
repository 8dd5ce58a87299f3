//! L1 of the first device, core by core: three programs on parts of the grid, two idle cores.

use super::super::totals::{CORES, L1_OF_A_CORE, RESERVED_OF_A_CORE};
use super::super::{NOW, World, ago, chance};
use ttmem_report::{
    Block, CbKind, DeviceKey, HexId, L1Column, L1Core, L1Map, MemoryClass, Resident, SCHEMA,
    Segment, SegmentKind,
};

const SIDE: u32 = 8;
/// Where the small region begins, and buffers grow down from.
const TOP: u64 = L1_OF_A_CORE - 32_768;
const RING: (u64, u64) = (28_672, 70_656);
const PID: u32 = 70_100;
/// Free stretches among the buffers, in bytes.
const HOLES: [u64; 3] = [8_192, 20_480, 4_096];
/// In a busy world, what is left between storage and buffers of one core.
const NARROW: ((u32, u32), u64) = ((5, 6), 12_288);

impl World {
    /// L1 with some core.
    pub(crate) fn l1_map_with(self, core: (u32, u32)) -> Option<(DeviceKey, L1Map)> {
        if self.devices == 0 {
            return None;
        }
        let device = self.device(0);
        let buffers = self.l1_blocks();
        let lowest_buffer = buffers.first().map(|block| block.address);
        let taken: u64 = buffers.iter().map(|block| block.size_bytes).sum();
        let cell = |place: u32| {
            let (x, y) = (place % SIDE, place / SIDE);
            let cb_bytes = self.cb_bytes(x, y);
            L1Core {
                x,
                y,
                occupied_bytes: Some(RESERVED_OF_A_CORE + cb_bytes + taken),
                cb_bytes,
                cb_end: (cb_bytes > 0).then_some(RESERVED_OF_A_CORE + cb_bytes),
                lowest_buffer,
                resident: resident(x, y),
            }
        };
        let map = L1Map {
            schema: SCHEMA,
            time: NOW,
            device: device.id,
            unique_id: device.unique_id,
            columns: Some(SIDE),
            rows: Some(SIDE),
            bytes_per_core: Some(L1_OF_A_CORE),
            reserved_bytes: Some(RESERVED_OF_A_CORE),
            cores: (0..SIDE * SIDE).map(cell).collect(),
            core: Some(self.l1_column(core, &buffers)),
            buffers,
            buffers_left_out: 0,
            residents: self.residents(),
        };
        Some((device.key(), map))
    }

    fn residents(self) -> Vec<Resident> {
        let names = [
            "ttnn::matmul",
            "ttnn::layer_norm",
            "ttnn::prim::scaled_dot_product",
        ];
        let resident = |(number, usual): (u32, &str)| Resident {
            pid: Some(PID),
            program: Some(1_200 + u64::from(number)),
            name: Some(self.name(usual, number)),
            time: Some(ago(u64::from(number) * 7)),
            cores: [36, 16, 10][number as usize],
        };
        (0..).zip(names).map(resident).collect()
    }

    /// What the program that ran last has on a core; over all cores what is resident.
    fn cb_bytes(self, x: u32, y: u32) -> u64 {
        let each = self.device(0).cb.resident_bytes.unwrap_or(0) / CORES;
        let narrow = self.storage_of_the_narrow_core().unwrap_or(each);
        match (resident(x, y), (x, y)) {
            (None, _) => 0,
            (_, core) if core == NARROW.0 => narrow,
            // What one core has more, its neighbour has less.
            (_, (4, 6)) => 2 * each - narrow,
            // Ten cores share what two idle ones do not have.
            (Some(2), (6, 0)) => each + 2 * each - 9 * (each / 5),
            (Some(2), _) => each + each / 5,
            _other => each,
        }
    }

    fn storage_of_the_narrow_core(self) -> Option<u64> {
        let lowest = self.l1_blocks().first()?.address;
        self.busy.then(|| lowest - NARROW.1 - RESERVED_OF_A_CORE)
    }

    /// Buffers from the top downwards, in order of address, and those of the small region.
    fn l1_blocks(self) -> Vec<Block> {
        let device = self.device(0);
        let l1 = sizes(device.l1.charged_bytes / CORES, device.l1.buffers);
        let small = sizes(
            device.l1_small.charged_bytes / CORES,
            device.l1_small.buffers,
        );
        let mut blocks = Vec::new();
        let regions = [
            (MemoryClass::L1Small, L1_OF_A_CORE, small),
            (MemoryClass::L1, TOP, l1),
        ];
        for (class, top, sizes) in regions {
            let mut address = top;
            for (number, size_bytes) in (0..).zip(sizes) {
                let hole = match (class, number) {
                    (MemoryClass::L1, 20) => HOLES[0],
                    (MemoryClass::L1, 60) => HOLES[1],
                    (MemoryClass::L1, 90) => HOLES[2],
                    _other => 0,
                };
                address -= size_bytes + hole;
                let usual = ["ttnn::add", "ttnn::to_memory_config", "ttnn::softmax"];
                blocks.push(Block {
                    address,
                    size_bytes,
                    class,
                    pid: Some(PID),
                    mesh: Some(1),
                    buffer: HexId(0x5500_0000 + address),
                    operation: Some(self.name(usual[number as usize % 3], number)),
                    line: None,
                    time: Some(ago(3 + u64::from(number) * 13)),
                });
            }
        }
        blocks.reverse();
        blocks
    }

    fn l1_column(self, (x, y): (u32, u32), buffers: &[Block]) -> L1Column {
        let storage = self.cb_bytes(x, y);
        let part = |address, size_bytes, kind| Segment {
            address,
            size_bytes,
            kind,
            cb_kind: None,
            pid: None,
            owner: None,
            line: None,
            buffer: None,
            time: None,
            more: 0,
        };
        let ring_end = RING.0 + RING.1;
        let mut segments = vec![
            part(0, RING.0, SegmentKind::Reserved),
            Segment {
                pid: Some(PID),
                ..part(RING.0, RING.1, SegmentKind::ConfigRing)
            },
            part(
                ring_end,
                RESERVED_OF_A_CORE - ring_end,
                SegmentKind::Reserved,
            ),
        ];
        let mut end = RESERVED_OF_A_CORE;
        if let Some(resident) = resident(x, y) {
            let owner = self.residents()[resident as usize].name.clone();
            let kinds = [
                CbKind::Local,
                CbKind::Local,
                CbKind::Dataflow,
                CbKind::Scratchpad,
            ];
            for (size_bytes, kind) in sizes(storage, 7).into_iter().zip(kinds.into_iter().cycle()) {
                segments.push(Segment {
                    cb_kind: Some(kind),
                    pid: Some(PID),
                    owner: owner.clone(),
                    time: Some(ago(u64::from(resident) * 7 + 40)),
                    ..part(end, size_bytes, SegmentKind::Cb)
                });
                end += size_bytes;
            }
        }
        let lowest = buffers.first().map_or(TOP, |block| block.address);
        let gap_bytes = Some(lowest - end);
        for block in buffers {
            if block.address > end {
                segments.push(part(end, block.address - end, SegmentKind::Free));
            }
            let kind = match block.class {
                MemoryClass::L1Small => SegmentKind::L1Small,
                _other => SegmentKind::Buffer,
            };
            segments.push(Segment {
                pid: block.pid,
                owner: block.operation.clone(),
                buffer: Some(block.buffer),
                time: block.time,
                ..part(block.address, block.size_bytes, kind)
            });
            end = block.address + block.size_bytes;
        }
        if end < L1_OF_A_CORE {
            segments.push(part(end, L1_OF_A_CORE - end, SegmentKind::Free));
        }
        L1Column {
            x,
            y,
            segments,
            gap_bytes,
        }
    }
}

/// The program that ran last on a core.
fn resident(x: u32, y: u32) -> Option<u32> {
    match (x, y) {
        (6..=7, 5) => None,
        (_, 6..) => Some(1),
        (6.., _) => Some(2),
        _other => Some(0),
    }
}

/// Unequal sizes with a sum, aligned but for the last.
pub(super) fn sizes(sum: u64, count: u64) -> Vec<u64> {
    let weight = |place: u64| {
        let seed = u32::try_from(place).expect("few");
        1 + chance(seed, 10) * chance(seed + 7_000, 12) * chance(seed + 9_000, 9)
    };
    let weights: u64 = (0..count).map(weight).sum();
    let mut left = sum;
    let mut sizes = Vec::new();
    for place in 0..count {
        let size = sum * weight(place) / weights.max(1) / 32 * 32;
        let size = if place + 1 == count { left } else { size };
        left -= size;
        if size > 0 {
            sizes.push(size);
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use crate::testing::world::all;

    #[test]
    fn places_add_up_to_the_totals() {
        let mut looked_at = 0;
        for (world, data) in all() {
            let Some(map) = &data.l1map else { continue };
            let map = &map.document.1;
            let device = &data.devices()[0];
            let sum =
                |of: fn(&ttmem_report::L1Core) -> u64| -> u64 { map.cores.iter().map(of).sum() };
            assert_eq!(
                Some(sum(|core| core.cb_bytes)),
                device.cb.resident_bytes,
                "{world}"
            );
            let occupied = sum(|core| core.occupied_bytes.unwrap_or(0));
            assert_eq!(Some(occupied), device.l1.occupied_bytes, "{world}");
            let column = map.core.as_ref().expect("a core");
            let mut end = 0;
            for segment in &column.segments {
                assert_eq!(segment.address, end, "{world}");
                end += segment.size_bytes;
            }
            assert_eq!(Some(end), map.bytes_per_core, "{world}");
            looked_at += 1;
        }
        assert_eq!(looked_at, 7);
    }
}
