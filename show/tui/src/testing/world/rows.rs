//! Buffers of a world, one by one and in groups: what its server would answer to any question.

use super::{NOW, World, ago, chance};
use crate::data::Window;
use std::collections::BTreeMap;
use ttmem_report::{
    BufferGroup, BufferGroups, BufferLayout, BufferPage, BufferQuery, BufferRow, GroupBy, HexId,
    MemoryClass, SCHEMA, SortBy,
};

/// What buffers are allocated for: the operation, the class, the layout, bytes, bytes of a page.
type Kind = (&'static str, MemoryClass, BufferLayout, u64, u64);

const DRAM: MemoryClass = MemoryClass::Dram;
const L1: MemoryClass = MemoryClass::L1;

const KINDS: [Kind; 9] = [
    (
        "ttnn::from_torch",
        DRAM,
        BufferLayout::Interleaved,
        32 << 20,
        2048,
    ),
    (
        "ttnn::matmul",
        DRAM,
        BufferLayout::Interleaved,
        4 << 20,
        2048,
    ),
    (
        "ttnn::linear",
        DRAM,
        BufferLayout::WidthSharded,
        1_572_864,
        2048,
    ),
    (
        "ttnn::layer_norm",
        DRAM,
        BufferLayout::Interleaved,
        262_144,
        2048,
    ),
    (
        "ttnn::paged_update_cache",
        DRAM,
        BufferLayout::HeightSharded,
        524_288,
        1088,
    ),
    (
        "ttnn::softmax",
        L1,
        BufferLayout::HeightSharded,
        131_072,
        2048,
    ),
    (
        "ttnn::conv2d",
        L1,
        BufferLayout::BlockSharded,
        409_600,
        2048,
    ),
    (
        "ttnn::halo",
        MemoryClass::L1Small,
        BufferLayout::HeightSharded,
        16_384,
        64,
    ),
    (
        "ttnn::begin_trace_capture",
        MemoryClass::Trace,
        BufferLayout::Interleaved,
        2 << 20,
        4096,
    ),
];

impl World {
    /// The first rows of the question with which the view of buffers begins.
    pub(super) fn buffers(self) -> Window {
        self.answer(&BufferQuery {
            sort: Some(SortBy::Size),
            descending: true,
            offset: Some(0),
            limit: Some(192),
            ..BufferQuery::default()
        })
    }

    /// What was allocated since the mark, by operation.
    pub(super) fn groups(self) -> (BufferQuery, BufferGroups) {
        let query = BufferQuery {
            since: Some(ago(95)),
            by: Some(GroupBy::Operation),
            ..BufferQuery::default()
        };
        let groups = self.answer_groups(&query);
        (query, groups)
    }

    /// Some buffers, as a server would give them.
    pub(crate) fn answer(self, query: &BufferQuery) -> Window {
        let mut rows = self.matching(query);
        match query.sort {
            Some(SortBy::Size) => rows.sort_by_key(|row| row.charged_bytes),
            Some(SortBy::Address) => rows.sort_by_key(|row| row.address),
            Some(SortBy::Time) => rows.sort_by_key(|row| row.time),
            _as_they_are => {}
        }
        if query.descending {
            rows.reverse();
        }
        let (matched, bytes) = (rows.len(), rows.iter().map(|row| row.charged_bytes).sum());
        let offset = usize::try_from(query.offset.unwrap_or(0)).unwrap();
        let limit = usize::try_from(query.limit.unwrap_or(1000)).unwrap();
        let next = (matched > offset + limit).then(|| "k-1".to_owned());
        Window {
            query: query.clone(),
            page: BufferPage {
                schema: SCHEMA,
                rows: rows.into_iter().skip(offset).take(limit).collect(),
                next,
                matched: Some(matched as u64),
                matched_bytes: Some(bytes),
            },
        }
    }

    /// Buffers summed up, as a server would.
    pub(crate) fn answer_groups(self, query: &BufferQuery) -> BufferGroups {
        let by = query.by.unwrap_or(GroupBy::Operation);
        let mut groups: BTreeMap<Option<String>, BufferGroup> = BTreeMap::new();
        let rows = self.matching(query);
        for row in &rows {
            let key = match by {
                GroupBy::Size => Some(row.charged_bytes.to_string()),
                GroupBy::Class => Some(row.class.to_string()),
                GroupBy::Layout => row.layout.map(|layout| layout.to_string()),
                GroupBy::Process => row.pid.map(|pid| {
                    let name = if pid == 70_100 {
                        "python3"
                    } else {
                        "vllm-worker"
                    };
                    format!("{pid} {}", self.name(name, 0))
                }),
                _operation => row.operation.clone(),
            };
            let group = groups.entry(key.clone()).or_insert(BufferGroup {
                key,
                stack: None,
                buffers: 0,
                charged_bytes: 0,
                requested_bytes: 0,
                oldest: row.time,
                newest: row.time,
            });
            group.buffers += 1;
            group.charged_bytes += row.charged_bytes;
            group.requested_bytes += row.requested_bytes;
            group.oldest = group.oldest.min(row.time);
            group.newest = group.newest.max(row.time);
        }
        let mut groups: Vec<BufferGroup> = groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.charged_bytes));
        BufferGroups {
            schema: SCHEMA,
            time: NOW,
            by,
            buffers: rows.len() as u64,
            charged_bytes: rows.iter().map(|row| row.charged_bytes).sum(),
            groups,
            left_out: 0,
        }
    }

    fn matching(self, query: &BufferQuery) -> Vec<BufferRow> {
        // As many as the snapshot counts on each device.
        let count = if self.devices == 0 { 0 } else { 1_613 };
        let mut rows: Vec<BufferRow> = (0..count).map(|number| self.buffer(number)).collect();
        let operation = query.operation.as_deref().map(str::to_lowercase);
        let find = ttmem_report::Search::of(query.find.as_deref().unwrap_or(""));
        rows.retain(|row| {
            let named = row.operation.as_deref().unwrap_or_default().to_lowercase();
            query.pid.is_none_or(|pid| row.pid == Some(pid))
                && query.class.is_none_or(|class| row.class == class)
                && query.device.is_none_or(|id| row.device_ids.contains(&id))
                && query
                    .unique_id
                    .is_none_or(|id| (0..self.devices).any(|place| Self::unique_id(place) == id))
                && query.since.is_none_or(|since| row.time >= Some(since))
                && row.charged_bytes >= query.min_bytes.unwrap_or(0)
                && operation.as_ref().is_none_or(|text| named.contains(text))
                && (find.is_in(&named)
                    || find.is_in_number(row.address.unwrap_or(0))
                    || find.is_in_number(row.id.0)
                    || find.is_in(&row.pid.map_or_else(String::new, |pid| pid.to_string())))
        });
        rows
    }

    fn buffer(self, number: u32) -> BufferRow {
        let (operation, class, layout, requested, page) = match number {
            0..1_482 => KINDS[[0, 1, 1, 2, 3, 3, 4][usize::try_from(chance(number, 7)).unwrap()]],
            1_482..1_600 => KINDS[5 + number as usize % 2],
            1_600..1_609 => KINDS[7],
            _trace => KINDS[8],
        };
        let banks = if matches!(class, MemoryClass::L1 | MemoryClass::L1Small) {
            64
        } else {
            12
        };
        // Layers differ, and few are as large as the largest.
        let requested = (requested >> chance(number + 3, 4)) - page * chance(number + 7, 5);
        let per_bank = requested.div_ceil(page).div_ceil(u64::from(banks)) * page;
        // Three of four were there long before the mark.
        let age = if number % 16 < 15 {
            200 + (1_613 - u64::from(number)) * 6
        } else {
            1 + chance(number, 94)
        };
        let owner = if self.processes > 1 && number % 7 == 3 {
            2
        } else {
            0
        };
        let frames = [
            "libtt_metal.so+0x1f2a30 _ZN2tt8tt_metal6Buffer6createEPNS0_7IDeviceEmm",
            "libtt_metal.so+0x2b8814 _ZN2tt8tt_metal11distributed10MeshBuffer6createE",
            "_ttnncpp.so+0x91c0d2 _ZN4ttnn10operations6matmul6matmulERKN2tt9TensorE",
            "python3.10+0x15a1e7 _PyEval_EvalFrameDefault",
        ];
        let frames = frames.map(|frame| self.name(frame, number));
        BufferRow {
            pid: Some(70_100 + 37 * owner),
            instance: Some(format!("{:032x}", 0xabcd_ef00 + owner)),
            device_ids: (0..self.devices).collect(),
            class,
            id: HexId(0x7f00_0000_0000 + u64::from(number) * 0x140),
            address: Some(match class {
                MemoryClass::L1 => 1_466_368 - u64::from(number % 180) * 6_144,
                MemoryClass::L1Small => 1_466_368 + u64::from(number % 9) * 512,
                _dram => 1_048_576 + u64::from(number) * 0x8_0000,
            }),
            requested_bytes: requested,
            charged_bytes: per_bank * u64::from(banks),
            per_bank_bytes: Some(per_bank),
            banks: Some(banks),
            layout: Some(layout),
            page_bytes: Some(page),
            aliases: u32::from(number % 50 == 8),
            time: Some(ago(age)),
            // What a program allocates outside of any operation.
            operation: (number % 23 != 5).then(|| self.name(operation, number)),
            stack: number.is_multiple_of(3).then(|| frames.to_vec()),
            python: None,
        }
    }
}
