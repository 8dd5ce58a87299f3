//! Records from the server to a client: totals and device information.
//!
//! The sessions encode them in the generation of the asking connection. Decoding
//! is for clients and tests; it is strict, because a reply read in the wrong
//! generation has plausible numbers in the wrong fields. Fields that a generation
//! lacks are dropped on encoding and read as zero.

use thiserror::Error;

use super::codes::ArchCode;
use super::record::{Generation, MAX_RECORD_BYTES, RequestKind};

/// The device id with which a client asks for the number of devices.
const ALL_DEVICES: i32 = -1;

/// Offset of the echoed device id in every generation.
const DEVICE_ID: usize = 4;
/// Offset of the first total; the others follow without a gap.
const TOTALS: usize = 40;
/// Offset of the ring-buffer fields, which only the last generation has.
const RING_BUFFER: usize = 128;

/// Bytes live on one device, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub dram: u64,
    /// L1 buffers.
    pub l1: u64,
    /// L1_SMALL buffers.
    pub l1_small: u64,
    pub trace: u64,
    /// Circular buffers; generations 1 and 2 cannot carry it.
    pub cb: u64,
    /// Kernels; generations 1 and 2 cannot carry it.
    pub kernel: u64,
}

/// The kernel ring buffer of a device; only generation 4 carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingBuffer {
    pub total_bytes: u32,
    /// What its programs take of it.
    pub used_bytes: u32,
    pub num_programs: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    pub total_dram_bytes: u64,
    /// L1 of the device.
    pub total_l1_bytes: u64,
    pub arch_type: ArchCode,
    pub num_dram_channels: u32,
    /// DRAM per channel. The wire has 32 bits for it and gets the nearest value.
    pub dram_bytes_per_channel: u64,
    /// L1 per core.
    pub l1_bytes_per_core: u32,
    /// Its kernel ring buffer; zero if unknown.
    pub ring_buffer: RingBuffer,
}

/// A decoded device-info reply, field by field as it was on the wire.
///
/// One layout serves two questions: about one device it has `info` and no
/// `num_devices`, about all devices it is the other way round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfoReply {
    /// The device that was asked about; −1 for all.
    pub device_id: i32,
    /// Whether the device exists, or any does.
    pub is_available: bool,
    /// Number of devices, in the answer about all of them.
    pub num_devices: u32,
    /// Capacities, in the answer about one.
    pub info: DeviceInfo,
}

/// A decoded record from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The answer to a QUERY.
    Totals {
        /// The device that was asked about.
        device_id: i32,
        totals: Totals,
    },
    /// The answer to a DEVICE_INFO_QUERY.
    DeviceInfo(DeviceInfoReply),
}

/// Why a slice is not a reply of the expected generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeReplyError {
    /// The slice does not have the generation's record size.
    #[error("{found} bytes where a reply of this generation has {expected}")]
    Length { expected: usize, found: usize },
    /// The type byte is not one that a server sends.
    #[error("message type {found} is not a reply (4 or 7)")]
    UnknownType { found: u8 },
    /// A byte that no field of this kind of reply explains.
    #[error("byte {offset} of the reply is {found:#04x}, which no server of this generation sends")]
    UnexpectedByte { offset: usize, found: u8 },
}

/// Appends the answer to a QUERY to `out`.
///
/// A device nobody knows is answered with zero totals: the protocol has no error.
pub fn encode_response(generation: Generation, device_id: i32, totals: &Totals, out: &mut Vec<u8>) {
    Reply::Totals {
        device_id,
        totals: *totals,
    }
    .encode(generation, out);
}

/// Appends the answer to a DEVICE_INFO_QUERY about one device to `out`.
///
/// Without `info` the device is reported as not available.
pub fn encode_device_info(
    generation: Generation,
    device_id: i32,
    info: Option<&DeviceInfo>,
    out: &mut Vec<u8>,
) {
    Reply::DeviceInfo(DeviceInfoReply {
        device_id,
        is_available: info.is_some(),
        num_devices: 0,
        info: info.copied().unwrap_or_default(),
    })
    .encode(generation, out);
}

/// Appends the answer to a DEVICE_INFO_QUERY about all devices to `out`.
pub fn encode_device_count(generation: Generation, count: u32, out: &mut Vec<u8>) {
    Reply::DeviceInfo(DeviceInfoReply {
        device_id: ALL_DEVICES,
        is_available: count > 0,
        num_devices: count,
        info: DeviceInfo::default(),
    })
    .encode(generation, out);
}

impl Reply {
    /// Decodes one whole record of the given generation.
    pub fn decode(generation: Generation, record: &[u8]) -> Result<Self, DecodeReplyError> {
        let expected = generation.record_bytes();
        if record.len() != expected {
            return Err(DecodeReplyError::Length {
                expected,
                found: record.len(),
            });
        }
        let fields = Fields::from_record(record);
        let reply = match RequestKind::from_code(record[0]) {
            Some(RequestKind::Response) => fields.totals(generation),
            Some(RequestKind::DeviceInfoResponse) => fields.device_info(generation),
            _ => return Err(DecodeReplyError::UnknownType { found: record[0] }),
        };
        // Whatever the fields above did not read must be as an encoder leaves it.
        let canonical = Fields::from_reply(generation, &reply);
        match (0..)
            .zip(record)
            .zip(canonical.bytes)
            .find(|((_, found), ours)| **found != *ours)
        {
            None => Ok(reply),
            Some(((offset, &found), _)) => Err(DecodeReplyError::UnexpectedByte { offset, found }),
        }
    }

    fn encode(&self, generation: Generation, out: &mut Vec<u8>) {
        let fields = Fields::from_reply(generation, self);
        out.extend_from_slice(&fields.bytes[..generation.record_bytes()]);
    }
}

/// A record of any generation, zero beyond its end, with typed access by offset.
struct Fields {
    bytes: [u8; MAX_RECORD_BYTES],
}

impl Fields {
    fn from_record(record: &[u8]) -> Self {
        let mut bytes = [0; MAX_RECORD_BYTES];
        bytes[..record.len()].copy_from_slice(record);
        Self { bytes }
    }

    fn from_reply(generation: Generation, reply: &Reply) -> Self {
        let mut fields = Self {
            bytes: [0; MAX_RECORD_BYTES],
        };
        match reply {
            Reply::Totals { device_id, totals } => {
                fields.put(0, [RequestKind::Response.code()]);
                fields.put(DEVICE_ID, device_id.to_le_bytes());
                fields.put_totals(generation, totals);
            }
            Reply::DeviceInfo(reply) => {
                fields.put(0, [RequestKind::DeviceInfoResponse.code()]);
                fields.put(DEVICE_ID, reply.device_id.to_le_bytes());
                fields.put_device_info(generation, reply);
            }
        }
        fields
    }

    fn put_totals(&mut self, generation: Generation, totals: &Totals) {
        self.put(TOTALS, totals.dram.to_le_bytes());
        self.put(TOTALS + 8, totals.l1.to_le_bytes());
        self.put(TOTALS + 16, totals.l1_small.to_le_bytes());
        self.put(TOTALS + 24, totals.trace.to_le_bytes());
        if has_program_totals(generation) {
            self.put(TOTALS + 32, totals.cb.to_le_bytes());
            self.put(TOTALS + 40, totals.kernel.to_le_bytes());
        }
    }

    fn put_device_info(&mut self, generation: Generation, reply: &DeviceInfoReply) {
        let Some(block) = device_block(generation) else {
            return;
        };
        let info = &reply.info;
        let dram_per_channel = u32::try_from(info.dram_bytes_per_channel).unwrap_or(u32::MAX);
        self.put(block, info.total_dram_bytes.to_le_bytes());
        self.put(block + 8, info.total_l1_bytes.to_le_bytes());
        self.put(block + 16, info.arch_type.0.to_le_bytes());
        self.put(block + 20, info.num_dram_channels.to_le_bytes());
        self.put(block + 24, dram_per_channel.to_le_bytes());
        self.put(block + 28, info.l1_bytes_per_core.to_le_bytes());
        self.put(block + 32, u32::from(reply.is_available).to_le_bytes());
        self.put(block + 36, reply.num_devices.to_le_bytes());
        if generation == Generation::G4 {
            self.put(RING_BUFFER, info.ring_buffer.total_bytes.to_le_bytes());
            self.put(RING_BUFFER + 4, info.ring_buffer.used_bytes.to_le_bytes());
            self.put(RING_BUFFER + 8, info.ring_buffer.num_programs.to_le_bytes());
        }
    }

    fn totals(&self, generation: Generation) -> Reply {
        let program_total = |offset| {
            if has_program_totals(generation) {
                self.u64(offset)
            } else {
                0
            }
        };
        Reply::Totals {
            device_id: i32::from_le_bytes(self.get(DEVICE_ID)),
            totals: Totals {
                dram: self.u64(TOTALS),
                l1: self.u64(TOTALS + 8),
                l1_small: self.u64(TOTALS + 16),
                trace: self.u64(TOTALS + 24),
                cb: program_total(TOTALS + 32),
                kernel: program_total(TOTALS + 40),
            },
        }
    }

    fn device_info(&self, generation: Generation) -> Reply {
        let device_id = i32::from_le_bytes(self.get(DEVICE_ID));
        let Some(block) = device_block(generation) else {
            return Reply::DeviceInfo(DeviceInfoReply {
                device_id,
                ..DeviceInfoReply::default()
            });
        };
        Reply::DeviceInfo(DeviceInfoReply {
            device_id,
            is_available: self.u32(block + 32) != 0,
            num_devices: self.u32(block + 36),
            info: DeviceInfo {
                total_dram_bytes: self.u64(block),
                total_l1_bytes: self.u64(block + 8),
                arch_type: ArchCode(self.u32(block + 16)),
                num_dram_channels: self.u32(block + 20),
                dram_bytes_per_channel: u64::from(self.u32(block + 24)),
                l1_bytes_per_core: self.u32(block + 28),
                ring_buffer: RingBuffer {
                    total_bytes: self.u32(RING_BUFFER),
                    used_bytes: self.u32(RING_BUFFER + 4),
                    num_programs: self.u32(RING_BUFFER + 8),
                },
            },
        })
    }

    fn put<const N: usize>(&mut self, offset: usize, value: [u8; N]) {
        self.bytes[offset..offset + N].copy_from_slice(&value);
    }

    fn get<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut value = [0; N];
        value.copy_from_slice(&self.bytes[offset..offset + N]);
        value
    }

    fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.get(offset))
    }

    fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.get(offset))
    }
}

/// Whether a RESPONSE has the two totals that were inserted before the device block.
const fn has_program_totals(generation: Generation) -> bool {
    matches!(generation, Generation::G3 | Generation::G4)
}

/// Offset of the device information, which moved when the totals grew.
const fn device_block(generation: Generation) -> Option<usize> {
    match generation {
        Generation::G1 => None,
        Generation::G2 => Some(72),
        Generation::G3 | Generation::G4 => Some(88),
    }
}
