//! One record from a client: its four sizes, its fields, its reserved bytes.
//!
//! The first 40 bytes are the same in every generation; what follows belongs to
//! replies and is zero in a request. Those zeros and the two pads are the only
//! redundancy of the protocol, so every one of them is checked.

use crate::event::Class;
use thiserror::Error;

/// Bytes of a record that carry a request; everything after them is zero.
pub(super) const HEAD_BYTES: usize = 40;

/// Size of the largest record of any generation.
pub(super) const MAX_RECORD_BYTES: usize = Generation::G4.record_bytes();

/// The four record layouts, in the order in which they appeared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Generation {
    /// 72 bytes: buffers and their totals.
    G1,
    /// 112 bytes: device information added.
    G2,
    /// 128 bytes: circular-buffer and kernel totals inserted.
    G3,
    /// 144 bytes: ring-buffer fields appended.
    G4,
}

impl Generation {
    /// All generations, smallest record first.
    pub const ALL: [Self; 4] = [Self::G1, Self::G2, Self::G3, Self::G4];

    /// Size of a record of this generation, in both directions.
    #[must_use]
    pub const fn record_bytes(self) -> usize {
        match self {
            Self::G1 => 72,
            Self::G2 => 112,
            Self::G3 => 128,
            Self::G4 => 144,
        }
    }

    /// The generation whose record has exactly this size.
    #[must_use]
    pub fn from_record_bytes(bytes: usize) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|generation| generation.record_bytes() == bytes)
    }
}

/// Which list of memory classes a sender's `buffer_type` indexes.
///
/// The old Python client shipped with a list that lacks SYSTEM_MEMORY, so its
/// L1_SMALL and TRACE are off by one. Its records cannot be told from the
/// runtime's, therefore the numbering is configured, never detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BufferTypeNumbering {
    /// The runtime's own enumeration, sent by every C++ sender.
    #[default]
    Runtime,
    /// The Python client's: 0 DRAM, 1 L1, 2 L1_SMALL, 3 TRACE.
    PythonClient,
}

impl BufferTypeNumbering {
    /// The memory class of a `buffer_type`; `None` if it names none in this numbering.
    #[must_use]
    pub fn class(self, buffer_type: u8) -> Option<Class> {
        match self {
            Self::Runtime => Class::from_code(buffer_type),
            Self::PythonClient => [Class::Dram, Class::L1, Class::L1Small, Class::Trace]
                .get(usize::from(buffer_type))
                .copied(),
        }
    }
}

/// What a record says or asks, by its type byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RequestKind {
    Alloc = 1,
    Free = 2,
    /// Asks for the totals of a device.
    Query = 3,
    /// The answer to a query; well-formed, but no client has a reason to send it.
    Response = 4,
    /// Asks the server to list what is still allocated.
    DumpRemaining = 5,
    /// Asks for a device's capacities, or with device −1 for the number of devices.
    DeviceInfoQuery = 6,
    /// The answer to a device-info query; no client has a reason to send it.
    DeviceInfoResponse = 7,
    /// A circular buffer was allocated.
    CbAlloc = 8,
    /// A circular buffer was freed.
    CbFree = 9,
    KernelLoad = 10,
    KernelUnload = 11,
    /// Asks the server to list the loaded kernels.
    DumpKernels = 12,
}

impl RequestKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Self; 12] = [
        Self::Alloc,
        Self::Free,
        Self::Query,
        Self::Response,
        Self::DumpRemaining,
        Self::DeviceInfoQuery,
        Self::DeviceInfoResponse,
        Self::CbAlloc,
        Self::CbFree,
        Self::KernelLoad,
        Self::KernelUnload,
        Self::DumpKernels,
    ];

    /// The type byte on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this type byte.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        // A match, not a look into `ALL`: it becomes a range check, and every old message needs it.
        Some(match code {
            1 => Self::Alloc,
            2 => Self::Free,
            3 => Self::Query,
            4 => Self::Response,
            5 => Self::DumpRemaining,
            6 => Self::DeviceInfoQuery,
            7 => Self::DeviceInfoResponse,
            8 => Self::CbAlloc,
            9 => Self::CbFree,
            10 => Self::KernelLoad,
            11 => Self::KernelUnload,
            12 => Self::DumpKernels,
            _ => return None,
        })
    }
}

/// The content of one record from a client.
///
/// Which fields mean something depends on the kind; the others are zero from
/// every known sender but are carried through unjudged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the record says or asks.
    pub kind: RequestKind,
    /// The sender's logical device number; −1 asks for the number of devices.
    pub device_id: i32,
    /// Size in bytes of the buffer, circular buffer or kernel; 0 in a FREE.
    pub size: u64,
    /// Memory class of an ALLOC, kernel type of a KERNEL_LOAD.
    pub buffer_type: u8,
    /// The pid the sender claims; in another pid namespace it means nothing here.
    pub process_id: i32,
    /// Address of the buffer or circular buffer, or id of the kernel.
    pub buffer_id: u64,
    /// The sender's clock in nanoseconds since the epoch, 0 where it sent none.
    pub timestamp: u64,
}

/// Why the bytes of a record are not a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MalformedRequest {
    /// The type byte names no message.
    #[error("message type {found} is not one of 1 to 12")]
    UnknownType { found: u8 },
    /// A pad or the tail, zero from every sender of this protocol, is not.
    #[error("byte {offset} of the message is {found:#04x} where the protocol has zero")]
    NonZeroByte { offset: usize, found: u8 },
}

/// Why a slice is not one whole request record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeRequestError {
    /// The slice does not have the generation's record size.
    #[error("{found} bytes where a message of this generation has {expected}")]
    Length { expected: usize, found: usize },
    /// The size is right, the content is not.
    #[error(transparent)]
    Malformed(#[from] MalformedRequest),
}

impl Request {
    /// Appends the record to `out`.
    pub fn encode(&self, generation: Generation, out: &mut Vec<u8>) {
        let mut head = [0; HEAD_BYTES];
        head[0] = self.kind.code();
        head[4..8].copy_from_slice(&self.device_id.to_le_bytes());
        head[8..16].copy_from_slice(&self.size.to_le_bytes());
        head[16] = self.buffer_type;
        head[20..24].copy_from_slice(&self.process_id.to_le_bytes());
        head[24..32].copy_from_slice(&self.buffer_id.to_le_bytes());
        head[32..40].copy_from_slice(&self.timestamp.to_le_bytes());
        let end = out.len() + generation.record_bytes();
        out.extend_from_slice(&head);
        out.resize(end, 0);
    }

    /// Decodes one whole record, reserved bytes checked.
    pub fn decode(generation: Generation, record: &[u8]) -> Result<Self, DecodeRequestError> {
        match record.split_first_chunk() {
            Some((head, tail)) if record.len() == generation.record_bytes() => {
                Ok(Self::from_parts(head, tail)?)
            }
            _ => Err(DecodeRequestError::Length {
                expected: generation.record_bytes(),
                found: record.len(),
            }),
        }
    }

    /// Decodes a head and the reserved bytes after it, as far as they are there.
    ///
    /// Always inlined: with a constant record size the checks become a few wide
    /// loads, which is what makes decoding keep up with a busy sender.
    #[inline(always)]
    pub(super) fn from_parts(
        head: &[u8; HEAD_BYTES],
        tail: &[u8],
    ) -> Result<Self, MalformedRequest> {
        let Some(kind) = RequestKind::from_code(head[0]) else {
            return Err(MalformedRequest::UnknownType { found: head[0] });
        };
        let pads = head[1] | head[2] | head[3] | head[17] | head[18] | head[19];
        if pads != 0 || !is_zero(tail) {
            check_bytes(head, 0)?;
            check_bytes(tail, HEAD_BYTES)?;
        }
        Ok(Self {
            kind,
            device_id: i32::from_le_bytes(field(head, 4)),
            size: u64::from_le_bytes(field(head, 8)),
            buffer_type: head[16],
            process_id: i32::from_le_bytes(field(head, 20)),
            buffer_id: u64::from_le_bytes(field(head, 24)),
            timestamp: u64::from_le_bytes(field(head, 32)),
        })
    }
}

/// Checks the part `bytes` of a record that begins at offset `from`, and names its first fault.
///
/// Lets the framer refuse a record at the first wrong byte instead of waiting for
/// the rest of it, and gives the same verdict however the bytes were cut.
#[inline(never)]
pub(super) fn check_bytes(bytes: &[u8], from: usize) -> Result<(), MalformedRequest> {
    for (offset, &found) in (from..).zip(bytes) {
        match offset {
            0 if RequestKind::from_code(found).is_none() => {
                return Err(MalformedRequest::UnknownType { found });
            }
            1..4 | 17..20 | HEAD_BYTES.. if found != 0 => {
                return Err(MalformedRequest::NonZeroByte { offset, found });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether all bytes are zero, tested eight at a time.
#[inline(always)]
fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words
        .iter()
        .fold(0, |seen, word| seen | u64::from_le_bytes(*word));
    let rest = rest.iter().fold(0, |seen, byte| seen | byte);
    words == 0 && rest == 0
}

/// The `N` bytes at a constant offset of the head.
#[inline(always)]
fn field<const N: usize>(head: &[u8; HEAD_BYTES], offset: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&head[offset..offset + N]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        for kind in RequestKind::ALL {
            assert_eq!(RequestKind::from_code(kind.code()), Some(kind));
        }
        assert_eq!([0, 13, 255].map(RequestKind::from_code), [None; 3]);
    }

    #[test]
    fn the_runtimes_numbering_is_that_of_the_classes() {
        for code in 0..=u8::MAX {
            let class = BufferTypeNumbering::Runtime.class(code);
            assert_eq!(class.map(Class::code), (code < 5).then_some(code));
        }
    }

    #[test]
    fn python_numbering_skips_system_memory() {
        let mapped = [0, 1, 2, 3, 4, 255].map(|code| BufferTypeNumbering::PythonClient.class(code));
        let mapped = mapped.map(|class| class.map(Class::code));
        assert_eq!(mapped, [Some(0), Some(1), Some(3), Some(4), None, None]);
    }
}
