//! The fixed-size wire protocol of the first instrumented TT-Metal runtimes.
//!
//! Both directions carry packed little-endian records without magic, version or
//! length: the size of the record is the version. Four sizes exist, called
//! generations here. [`Framer`] finds the generation of a connection and cuts its
//! bytes into [`Request`]s; [`encode_response`], [`encode_device_info`] and
//! [`encode_device_count`] build the answers, [`Reply`] reads them.
//!
//! The server's sessions call this from their own thread, one `Framer` per
//! connection. Nothing here does I/O, asks a clock, or decides what a request
//! means: device ranges, sizes and buffer types are the caller's to judge.

mod framer;
mod record;
mod reply;
#[cfg(test)]
mod tests;

pub use framer::{Framer, FramingError};
pub use record::{
    BufferTypeNumbering, DecodeRequestError, Generation, MalformedRequest, Request, RequestKind,
};
pub use reply::{
    DecodeReplyError, DeviceInfo, DeviceInfoReply, Reply, RingBuffer, Totals, encode_device_count,
    encode_device_info, encode_response,
};
