//! Records from the server to a client: totals and device information.
//!
//! The sessions encode them in the generation of the asking connection. Decoding
//! is for clients and tests; it is strict, because a reply read in the wrong
//! generation has plausible numbers in the wrong fields. Fields that a generation
//! lacks are dropped on encoding and read as zero.

use thiserror::Error;

use super::record::{Generation, MAX_RECORD_BYTES, RequestKind};
use crate::event::Field;

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
    pub l1: u64,
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
    pub total_l1_bytes: u64,
    /// The runtime's number of the architecture; 0 where the old viewers know none.
    pub arch_type: u32,
    pub num_dram_channels: u32,
    /// DRAM per channel. The wire has 32 bits for it and gets the nearest value.
    pub dram_bytes_per_channel: u64,
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
        let mut reply = match RequestKind::from_code(record[0]) {
            Some(RequestKind::Response) => Self::Totals {
                device_id: 0,
                totals: Totals::default(),
            },
            Some(RequestKind::DeviceInfoResponse) => Self::DeviceInfo(DeviceInfoReply::default()),
            _ => return Err(DecodeReplyError::UnknownType { found: record[0] }),
        };
        reply.pass(generation, &mut Reader(record));
        // Whatever the fields did not read must be as an encoder leaves it.
        let canonical = reply.bytes(generation);
        match (0..)
            .zip(record)
            .zip(canonical)
            .find(|((_, found), ours)| **found != *ours)
        {
            None => Ok(reply),
            Some(((offset, &found), _)) => Err(DecodeReplyError::UnexpectedByte { offset, found }),
        }
    }

    fn encode(self, generation: Generation, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes(generation)[..generation.record_bytes()]);
    }

    fn bytes(mut self, generation: Generation) -> [u8; MAX_RECORD_BYTES] {
        let mut bytes = [0; MAX_RECORD_BYTES];
        bytes[0] = match self {
            Self::Totals { .. } => RequestKind::Response.code(),
            Self::DeviceInfo(_) => RequestKind::DeviceInfoResponse.code(),
        };
        self.pass(generation, &mut Writer(&mut bytes));
        bytes
    }

    /// Passes every field that a record of this generation has, with its offset.
    fn pass(&mut self, generation: Generation, record: &mut impl Record) {
        match self {
            Self::Totals { device_id, totals } => {
                record.field(DEVICE_ID, device_id);
                record.field(TOTALS, &mut totals.dram);
                record.field(TOTALS + 8, &mut totals.l1);
                record.field(TOTALS + 16, &mut totals.l1_small);
                record.field(TOTALS + 24, &mut totals.trace);
                if matches!(generation, Generation::G3 | Generation::G4) {
                    record.field(TOTALS + 32, &mut totals.cb);
                    record.field(TOTALS + 40, &mut totals.kernel);
                }
            }
            Self::DeviceInfo(reply) => {
                record.field(DEVICE_ID, &mut reply.device_id);
                // The block moved when the totals before it grew.
                let block = match generation {
                    Generation::G1 => return,
                    Generation::G2 => 72,
                    Generation::G3 | Generation::G4 => 88,
                };
                let info = &mut reply.info;
                let per_channel = u32::try_from(info.dram_bytes_per_channel);
                let mut per_channel = per_channel.unwrap_or(u32::MAX);
                let mut is_available = u32::from(reply.is_available);
                record.field(block, &mut info.total_dram_bytes);
                record.field(block + 8, &mut info.total_l1_bytes);
                record.field(block + 16, &mut info.arch_type);
                record.field(block + 20, &mut info.num_dram_channels);
                record.field(block + 24, &mut per_channel);
                record.field(block + 28, &mut info.l1_bytes_per_core);
                record.field(block + 32, &mut is_available);
                record.field(block + 36, &mut reply.num_devices);
                if generation == Generation::G4 {
                    record.field(RING_BUFFER, &mut info.ring_buffer.total_bytes);
                    record.field(RING_BUFFER + 4, &mut info.ring_buffer.used_bytes);
                    record.field(RING_BUFFER + 8, &mut info.ring_buffer.num_programs);
                }
                info.dram_bytes_per_channel = per_channel.into();
                reply.is_available = is_available != 0;
            }
        }
    }
}

/// A record whose fields are read or written.
trait Record {
    fn field<T: Field>(&mut self, offset: usize, value: &mut T);
}

struct Reader<'a>(&'a [u8]);

impl Record for Reader<'_> {
    fn field<T: Field>(&mut self, offset: usize, value: &mut T) {
        // Numbers can have every value.
        if let Ok(read) = T::get(&self.0[offset..offset + T::WIDTH]) {
            *value = read;
        }
    }
}

struct Writer<'a>(&'a mut [u8]);

impl Record for Writer<'_> {
    fn field<T: Field>(&mut self, offset: usize, value: &mut T) {
        value.put(&mut self.0[offset..offset + T::WIDTH]);
    }
}
