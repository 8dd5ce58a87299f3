//! An old client: fixed records in one of four sizes.

use super::WATCHDOG;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use ttmem_event::legacy::{Generation, Reply, Request, RequestKind, Totals};

/// A connection that speaks one generation of the old protocol.
#[derive(Debug)]
pub(crate) struct OldClient {
    pub(crate) stream: UnixStream,
    pub(crate) generation: Generation,
}

/// A request with the fields that matter; the rest is zero.
pub(crate) fn request(kind: RequestKind, device: i32, size: u64, number: u8, id: u64) -> Request {
    Request {
        kind,
        device_id: device,
        size,
        buffer_type: number,
        process_id: i32::try_from(std::process::id()).expect("a pid"),
        buffer_id: id,
        timestamp: 0,
    }
}

impl OldClient {
    pub(crate) fn connect(socket: &Path, generation: Generation) -> Self {
        let stream = UnixStream::connect(socket).expect("the server listens");
        stream.set_read_timeout(Some(WATCHDOG)).expect("a timeout");
        Self { stream, generation }
    }

    pub(crate) fn send(&mut self, request: &Request) {
        self.send_all(std::slice::from_ref(request));
    }

    pub(crate) fn send_all(&mut self, requests: &[Request]) {
        let mut bytes = Vec::new();
        for request in requests {
            request.encode(self.generation, &mut bytes);
        }
        self.stream.write_all(&bytes).expect("the server reads");
    }

    /// Sends a question and returns the reply's bytes.
    pub(crate) fn ask(&mut self, question: &Request) -> Vec<u8> {
        self.send(question);
        self.reply()
    }

    /// The bytes of the next reply.
    pub(crate) fn reply(&mut self) -> Vec<u8> {
        let mut reply = vec![0; self.generation.record_bytes()];
        self.stream
            .read_exact(&mut reply)
            .expect("the server answers");
        reply
    }

    /// The totals of a device, after all that was sent before.
    pub(crate) fn totals(&mut self, device: i32) -> Totals {
        let reply = self.ask(&request(RequestKind::Query, device, 0, 0, 0));
        let totals = match Reply::decode(self.generation, &reply).expect("a reply") {
            Reply::Totals { device_id, totals } if device_id == device => Some(totals),
            Reply::Totals { .. } | Reply::DeviceInfo(_) => None,
        };
        totals.expect("an answer to this question")
    }
}
