//! Tests of the codec as a whole.

mod corpus;
mod framing;
mod pauses;
mod properties;
mod replies;
mod vectors;

use super::{Framer, FramingError, Generation, Request, RequestKind};

/// A framer with everything it has emitted.
#[derive(Default)]
struct Session {
    framer: Framer,
    emitted: Vec<(Generation, Request)>,
}

impl Session {
    fn push(&mut self, bytes: &[u8]) -> Result<(), FramingError> {
        self.framer
            .push(bytes, &mut |g, r| self.emitted.push((g, r)))
    }

    fn pause(&mut self) {
        self.framer.pause(&mut |g, r| self.emitted.push((g, r)));
    }

    fn finish(&mut self) -> Result<(), FramingError> {
        self.framer.finish(&mut |g, r| self.emitted.push((g, r)))
    }
}

/// An ALLOC whose fields have no zero byte, so that a misplaced one shows.
fn alloc() -> Request {
    Request {
        kind: RequestKind::Alloc,
        device_id: 0x0102_0304,
        size: 0x1112_1314_1516_1718,
        buffer_type: 1,
        process_id: 0x2122_2324,
        buffer_id: 0x3132_3334_3536_3738,
        timestamp: 0x4142_4344_4546_4748,
    }
}

/// A request with nothing but its kind and a device.
fn bare(kind: RequestKind, device_id: i32) -> Request {
    Request {
        kind,
        device_id,
        size: 0,
        buffer_type: 0,
        process_id: 0,
        buffer_id: 0,
        timestamp: 0,
    }
}

fn encoded(generation: Generation, requests: &[Request]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        request.encode(generation, &mut bytes);
    }
    bytes
}
