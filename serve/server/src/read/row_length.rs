//! How long a row is in JSON, at most, without writing it.
//!
//! A page ends early when its rows are long. To write each row once only to count its bytes would
//! make a page of 10,000 buffers half as dear again; what makes rows long are their texts and lists,
//! and those are quickly measured. The rest of a row is bounded by its kind.

use ttmem_report::{BufferRow, CbRow, KernelRow, ProgramRow, escaped_json_growth};

pub(super) trait RowLength {
    /// No fewer bytes than it has in JSON, with a comma behind it.
    fn max_json_bytes(&self) -> u64;
}

/// Rows without their texts and lists: names, punctuation, the largest numbers, the longest words.
const BUFFER: u64 = 464;
const KERNEL: u64 = 384;
const CB: u64 = 320;
const PROGRAM: u64 = 656;

/// What a program has for each device.
const PROGRAM_DEVICE: u64 = 448;

/// A logical id in a list, with its comma.
const DEVICE_ID: u64 = 11;

impl RowLength for BufferRow {
    fn max_json_bytes(&self) -> u64 {
        let frames = self.stack.iter().chain(&self.python).flatten();
        let stack: u64 = frames.map(|frame| text(frame)).sum();
        let texts = known(&self.instance) + known(&self.operation) + stack;
        BUFFER + texts + ids(&self.device_ids)
    }
}

impl RowLength for KernelRow {
    fn max_json_bytes(&self) -> u64 {
        let texts = known(&self.instance) + known(&self.program_name) + known(&self.name);
        KERNEL + texts + ids(&self.device_ids)
    }
}

impl RowLength for CbRow {
    fn max_json_bytes(&self) -> u64 {
        CB + known(&self.instance) + ids(&self.device_ids)
    }
}

impl RowLength for ProgramRow {
    fn max_json_bytes(&self) -> u64 {
        let frames = self.python.iter().flatten();
        let stack: u64 = frames.map(|frame| text(frame)).sum();
        let texts = known(&self.instance) + known(&self.name) + stack;
        PROGRAM + texts + PROGRAM_DEVICE * self.devices.len() as u64
    }
}

fn ids(device_ids: &[u32]) -> u64 {
    DEVICE_ID * device_ids.len() as u64
}

fn known(value: &Option<String>) -> u64 {
    value.as_deref().map_or(0, text)
}

/// A text with its quotes and a comma. What JSON escapes takes six bytes at most.
fn text(value: &str) -> u64 {
    let is_escaped = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let escaped = value.bytes().filter(|byte| is_escaped(byte)).count();
    (value.len() + 5 * escaped + escaped_json_growth(value) + 3) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;
    use ttmem_report::{
        BinaryState, BufferLayout, CbKind, CoreType, HexId, KernelKind, MemoryClass, ProgramDevice,
        Timestamp, escape_json,
    };

    const TIME: Timestamp = Timestamp::from_unix_nanos(u64::MAX);

    /// Fails unless a row of the largest values is as long as its bound says, and not much shorter.
    fn holds(row: &(impl RowLength + Serialize)) {
        let written = escape_json(serde_json::to_string(row).unwrap()).len() as u64 + 1;
        let bound = row.max_json_bytes();
        assert!(written <= bound, "{written} bytes, not {bound}");
        assert!(
            bound < written + written / 4 + 100,
            "{written} bytes, far from {bound}"
        );
    }

    /// Texts that are short, long, and all that JSON escapes.
    fn texts() -> Vec<Option<String>> {
        let all: String = (0..=0x7f_u8).map(char::from).collect();
        let texts = [
            "",
            "ttnn::add",
            "\u{1}\u{1f}\0",
            "ä–🦀",
            "\u{7f}\u{9b}\u{202e}\u{e0041}",
            &all,
        ];
        let texts = texts.map(|text| Some(text.repeat(7)));
        std::iter::once(None).chain(texts).collect()
    }

    #[test]
    fn no_row_is_longer_than_its_bound() {
        for value in texts() {
            for devices in [0, 1, 32] {
                let device_ids = vec![u32::MAX; devices];
                let stack = value.as_ref().map(|text| vec![text.clone(); devices]);
                let instance = Some("0123456789abcdef".repeat(2));
                holds(&BufferRow {
                    pid: Some(u32::MAX),
                    instance: instance.clone(),
                    device_ids: device_ids.clone(),
                    class: MemoryClass::L1Small,
                    id: HexId(u64::MAX),
                    address: Some(u64::MAX),
                    requested_bytes: u64::MAX,
                    charged_bytes: u64::MAX,
                    per_bank_bytes: Some(u64::MAX),
                    banks: Some(u32::MAX),
                    layout: Some(BufferLayout::HeightSharded),
                    page_bytes: Some(u64::MAX),
                    aliases: u32::MAX,
                    time: Some(TIME),
                    operation: value.clone(),
                    python: stack.clone(),
                    stack,
                });
                holds(&KernelRow {
                    pid: Some(u32::MAX),
                    instance: instance.clone(),
                    device_ids: device_ids.clone(),
                    program: Some(u64::MAX),
                    program_name: value.clone(),
                    kernel: HexId(u64::MAX),
                    name: value.clone(),
                    kind: KernelKind::Application,
                    core_type: Some(CoreType::ActiveEth),
                    binary_bytes: Some(u64::MAX),
                    cores: Some(u32::MAX),
                    total_bytes: u64::MAX,
                    time: Some(TIME),
                    dispatches: u64::MAX,
                });
                holds(&CbRow {
                    pid: Some(u32::MAX),
                    instance: instance.clone(),
                    device_ids,
                    program: Some(u64::MAX),
                    cb: HexId(u64::MAX),
                    kind: Some(CbKind::DataflowBorrowed),
                    address: Some(u64::MAX),
                    size_bytes: u64::MAX,
                    cores: Some(u32::MAX),
                    total_bytes: u64::MAX,
                    time: Some(TIME),
                });
                holds(&program(instance, value.clone(), devices));
            }
        }
    }

    fn program(instance: Option<String>, name: Option<String>, devices: usize) -> ProgramRow {
        let device = ProgramDevice {
            id: u32::MAX,
            unique_id: Some(HexId(u64::MAX)),
            binary: BinaryState::Committed,
            sent_bytes: Some(u64::MAX),
            command_bytes: Some(u64::MAX),
            dispatches: u64::MAX,
            program_cache_hits: u64::MAX,
            program_cache_misses: u64::MAX,
            binary_reuses: u64::MAX,
            last_run: Some(TIME),
            resident_cores: u32::MAX,
        };
        ProgramRow {
            pid: Some(u32::MAX),
            instance,
            program: Some(u64::MAX),
            python: name.clone().map(|frame| vec![frame; 3]),
            name,
            runtime_id: Some(u64::MAX),
            kind: Some(KernelKind::Application),
            created: TIME,
            cores: Some(u32::MAX),
            config_bytes: Some(u64::MAX),
            text_bytes: Some(u64::MAX),
            binary_bytes: Some(u64::MAX),
            cb_bytes: u64::MAX,
            kernel_bytes: u64::MAX,
            kernels: u64::MAX,
            jit_disk_hits: u64::MAX,
            dispatches: u64::MAX,
            first_run: Some(TIME),
            last_run: Some(TIME),
            devices: vec![device; devices],
        }
    }
}
