//! The protocol between a ttmem client and the server, version 2.
//!
//! A client opens with a [`Preamble`] and from then on both ends send frames: a
//! length, a kind, a payload. [`Frame`] is one frame, borrowed from the bytes it
//! came in; [`FrameReader`] finds frames in a stream cut anywhere. Frames of an
//! unknown kind are skipped by their length, so a newer peer may say more than
//! this one understands. Everything is sans-IO; `docs/protocol.md` has the byte
//! tables.

mod bytes;
mod define;
mod frame;
mod preamble;
mod reader;

pub use define::{
    DEFINITION_HEAD_BYTES, DEFINITION_ID_BYTES, DefinitionIter, DefinitionKind, MAX_MESH_DEVICES,
};
pub use frame::{
    Clock, Frame, FrameKind, Goodbye, Hello, RefusalCode, ResyncEnd, RingPosition, Welcome,
};
pub use preamble::{MAGIC, OLDEST_VERSION, PREAMBLE_BYTES, Preamble, VERSION};
pub use reader::{FRAME_HEADER_BYTES, FrameReader, MAX_FRAME_BYTES};

/// Bytes that are not what the protocol says should stand there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeFrameError {
    /// The stream does not begin with the magic.
    #[error("the stream does not begin with ttmem's magic")]
    NotTtmem,
    /// The peer speaks no version that this end speaks.
    #[error(
        "the peer speaks versions {oldest} to {version}, this end {OLDEST_VERSION} to {VERSION}"
    )]
    Version {
        version: u16,
        /// The oldest version the peer speaks.
        oldest: u16,
    },
    /// The event table of the peer is another one.
    #[error("the peer's event layout is {theirs:#018x}, this end's is {ours:#018x}")]
    Layout { theirs: u64, ours: u64 },
    /// A frame is longer than any frame may be.
    #[error("a frame of {0} bytes is longer than the limit of {MAX_FRAME_BYTES}")]
    TooLong(u32),
    /// A payload ends early, or its parts do not add up.
    #[error("a {frame} frame of {len} bytes ends inside the field at byte {at}")]
    Truncated {
        frame: &'static str,
        at: usize,
        len: usize,
    },
    /// A field of a frame holds a value outside its range.
    #[error("a {frame} frame has an invalid {field}")]
    Invalid {
        frame: &'static str,
        field: &'static str,
    },
}

#[cfg(test)]
mod tests;
