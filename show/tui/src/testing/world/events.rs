//! Events of a world: the last moments of its processes, newest last.

use super::{NOW, World, chance};
use ttmem_report::{EventFields, FieldValue, LastEvent, StreamEvent, Timestamp};

/// Events of a usual world: more than fit on any screen.
const USUAL: u32 = 120;

const STEP_NANOS: u64 = 37_115_003;

impl World {
    /// The events of its stream. A busy world's have failures, a gap, and what a dead process left.
    pub(super) fn events(self) -> Vec<StreamEvent> {
        if self.processes == 0 {
            return Vec::new();
        }
        let count = if self.busy { 4 * USUAL } else { USUAL };
        (0..count).map(|number| self.event(number, count)).collect()
    }

    fn event(self, number: u32, count: u32) -> StreamEvent {
        let left = u64::from(count - 1 - number);
        let time = Timestamp::from_unix_nanos(NOW.unix_nanos() - left * STEP_NANOS);
        // One reader was too slow, once.
        let missed = if self.busy && left < 9 { 1_234 } else { 0 };
        let process = chance(number, u64::from(self.processes));
        let process = u32::try_from(process).expect("of few processes");
        let (name, fields) = self.happening(number, left);
        let event = LastEvent {
            time,
            pid: Some(4_300 + process),
            process: Some(self.name("python3", process)),
            recovered: self.busy && (14..18).contains(&left),
            event: name.to_owned(),
            fields: EventFields(fields),
        };
        StreamEvent {
            id: 700_000 + u64::from(number) + missed,
            applied: time,
            event,
        }
    }

    fn happening(self, number: u32, left: u64) -> (&'static str, Vec<(String, FieldValue)>) {
        let of_device = u32::try_from(chance(number, u64::from(self.devices))).unwrap_or(0);
        let devices = match number % 3 {
            0 => FieldValue::Devices((0..self.devices).collect()),
            _one => FieldValue::Devices(vec![of_device]),
        };
        let operation = ["ttnn::matmul", "ttnn::add", "ttnn::softmax"];
        let operation = operation[usize::try_from(chance(number, 3)).unwrap_or(0)];
        let operation = FieldValue::Text(self.name(operation, number));
        let buffer = FieldValue::Text(format!("{:#x}", 0x5f00 + u64::from(number / 8)));
        let program = FieldValue::Number(u64::from(number / 8));
        let number_of = FieldValue::Number;
        let word = |word: &str| FieldValue::Text(word.to_owned());
        let bytes = 2048 << chance(number / 8, 14);
        let address = number_of(0x20_0000 + 4096 * chance(number, 5_000));
        if self.busy && left % 11 == 3 {
            let fields = [
                ("devices", devices),
                ("class", word("l1")),
                ("banks", number_of(64)),
                ("requested_bytes", number_of(64 * bytes)),
                ("per_bank_bytes", number_of(bytes)),
                ("free_bytes", number_of(bytes + 4096)),
                ("largest_free_bytes", number_of(bytes / 2)),
                ("bank_bytes", number_of(1_358_752)),
                ("operation", operation),
            ];
            return ("allocation_failed", named(fields));
        }
        match number % 8 {
            0 => {
                let fields = [
                    ("program", program),
                    ("name", operation),
                    ("runtime_id", number_of(u64::from(number))),
                    ("pointer", word("0x7f21a8004c10")),
                ];
                ("program_created", named(fields))
            }
            1 => {
                let class = if chance(number, 2) == 0 { "dram" } else { "l1" };
                let fields = [
                    ("devices", devices),
                    ("buffer", buffer),
                    ("class", word(class)),
                    ("layout", word("interleaved")),
                    ("direction", word("bottom_up")),
                    ("address", address),
                    ("requested_bytes", number_of(bytes)),
                    ("per_bank_bytes", number_of(bytes / 8)),
                    ("page_bytes", number_of(2048)),
                    ("cores", FieldValue::Unknown),
                    ("operation", operation),
                    ("banks", number_of(12)),
                ];
                ("buffer_allocated", named(fields))
            }
            2 => {
                let fields = [
                    ("devices", devices),
                    ("program", program),
                    ("cb", number_of(0)),
                    ("kind", word("local")),
                    ("address", number_of(0x1_a460)),
                    ("size_bytes", number_of(4096)),
                    ("cores", number_of(64)),
                ];
                ("cb_allocated", named(fields))
            }
            3 => {
                let fields = [
                    ("devices", devices),
                    ("program", program),
                    ("kernel", word("0x9a3c55d2e0417b68")),
                    (
                        "name",
                        FieldValue::Text(self.name("reader_bmm_tile_layout", number)),
                    ),
                    ("binary_bytes", number_of(3_072)),
                    ("cores", number_of(64)),
                    ("core_count", number_of(64)),
                    ("kind", word("application")),
                    ("core_type", word("tensix")),
                ];
                ("kernel_loaded", named(fields))
            }
            4 => {
                let fields = [
                    ("devices", devices),
                    ("sub_device", number_of(0)),
                    ("core_type", word("tensix")),
                    ("stalled", FieldValue::Flag(self.busy)),
                    ("size_bytes", number_of(7_424)),
                    ("sync", number_of(u64::from(number))),
                ];
                ("config_ring_reserved", named(fields))
            }
            5 => {
                let fields = [
                    ("devices", devices),
                    ("program", program),
                    ("runtime_id", number_of(u64::from(number))),
                    ("operation", operation),
                    ("program_cache", word("hit")),
                    ("binary_reused", FieldValue::Flag(true)),
                    ("path", word("fast")),
                ];
                ("dispatched", named(fields))
            }
            6 => (
                "buffer_freed",
                named([("devices", devices), ("buffer", buffer)]),
            ),
            _destroyed => ("program_destroyed", named([("program", program)])),
        }
    }
}

fn named<const N: usize>(fields: [(&str, FieldValue); N]) -> Vec<(String, FieldValue)> {
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
}
