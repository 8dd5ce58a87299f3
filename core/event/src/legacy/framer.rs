//! Cuts one connection's byte stream into requests and finds its generation.
//!
//! A record of one generation is a byte prefix of the same record of every later
//! one: after the head come only zeros, and nothing says how many. The first
//! non-zero byte after them is the type of the next record, and its distance from
//! the start of the first is the record size. So the first record is *open* until
//! another byte follows; only its head needs to be kept.
//!
//! A sender that asks one question and waits for the answer never sends that byte.
//! Hence [`Framer::awaits_pause`] and [`Framer::pause`]: the caller, who has the
//! clock, says that nothing came for a while, the record is taken as whole, and
//! zeros that arrive later only make it longer.
//!
//! Called by the server's session thread. Must not trust a byte: it never panics,
//! never holds more than one record, and after an error says the same error again.

use thiserror::Error;

use super::record::{
    Generation, HEAD_BYTES, MAX_RECORD_BYTES, MalformedRequest, Request, check_bytes,
};

/// Why a connection's bytes cannot be cut into records any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FramingError {
    /// A record is not a request of this protocol.
    #[error("after {decoded} whole messages: {reason}")]
    Malformed {
        /// Records decoded before this one.
        decoded: u64,
        /// What is wrong with it.
        reason: MalformedRequest,
    },
    /// The first record ends where no generation's does.
    #[error(
        "byte {offset} of the first message is {found:#04x}, \
         but messages are 72, 112, 128 or 144 bytes, zero from byte 40 on"
    )]
    UnknownSize {
        /// Offset within the first record.
        offset: usize,
        found: u8,
    },
    /// The stream ended inside a record.
    #[error("the stream ended inside a message; its last {dropped} bytes were dropped")]
    Truncated {
        /// Bytes after the last whole record.
        dropped: usize,
    },
}

/// What is known about the size of this connection's records.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Inside the head of the first record.
    Head,
    /// In the zeros after the first record's head, perhaps at their end.
    Zeros {
        /// The first record, until it is emitted. A pause can do that before its
        /// size is certain; later zeros then only lengthen it.
        pending: Option<Request>,
    },
    Decided(Generation),
}

/// Incremental decoder of one connection's requests.
#[derive(Clone, Debug)]
pub struct Framer {
    phase: Phase,
    /// The record begun and not completed. The zeros of the first one are counted,
    /// not written.
    held: [u8; MAX_RECORD_BYTES],
    /// Bytes received of that record.
    held_bytes: usize,
    /// Records given to the sink.
    decoded: u64,
    /// Set by the first error. A stream without markers cannot be picked up again.
    failure: Option<FramingError>,
}

impl Default for Framer {
    fn default() -> Self {
        Self::new()
    }
}

impl Framer {
    /// A framer for a new connection.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            phase: Phase::Head,
            held: [0; MAX_RECORD_BYTES],
            held_bytes: 0,
            decoded: 0,
            failure: None,
        }
    }

    /// Takes the next bytes of the stream and gives every completed request to `sink`.
    ///
    /// The requests and the error do not depend on how the stream is cut into
    /// calls. Requests before the faulty byte have been given to `sink` when an
    /// error is returned; the connection is of no further use then.
    pub fn push(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FnMut(Generation, Request),
    ) -> Result<(), FramingError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.advance(bytes, sink)
            .inspect_err(|&failure| self.failure = Some(failure))
    }

    /// Whether a pause would complete the first record.
    ///
    /// True while exactly one record of some size is there and nothing tells
    /// whether more of it will come. The caller then calls [`Framer::pause`] if no
    /// byte arrives for 20 ms.
    #[must_use]
    pub fn awaits_pause(&self) -> bool {
        self.failure.is_none()
            && matches!(self.phase, Phase::Zeros { pending: Some(_) })
            && Generation::from_record_bytes(self.held_bytes).is_some()
    }

    /// Takes the first record as whole, because the sender has paused.
    ///
    /// Does nothing unless [`Framer::awaits_pause`]. The generation is provisional:
    /// zeros that follow belong to the record given to `sink` here and raise
    /// [`Framer::generation`]; nothing is emitted twice. A caller that answered the
    /// record in the smaller size can tell by that the sender waits for more.
    pub fn pause(&mut self, sink: &mut impl FnMut(Generation, Request)) {
        if let Phase::Zeros { pending } = &mut self.phase
            && self.failure.is_none()
            && let Some(generation) = Generation::from_record_bytes(self.held_bytes)
            && let Some(request) = pending.take()
        {
            self.emit(generation, request, sink);
        }
    }

    /// Ends the stream.
    ///
    /// A first record that is exactly of one size is whole; any other rest is
    /// [`FramingError::Truncated`]. May be called again with the same result.
    pub fn finish(
        &mut self,
        sink: &mut impl FnMut(Generation, Request),
    ) -> Result<(), FramingError> {
        self.pause(sink);
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let whole = match self.phase {
            // Of a record already emitted, the part up to a possible end is no loss.
            Phase::Zeros { pending: None } => Generation::ALL
                .into_iter()
                .map(Generation::record_bytes)
                .rfind(|&size| size <= self.held_bytes)
                .unwrap_or(0),
            Phase::Head | Phase::Zeros { pending: Some(_) } | Phase::Decided(_) => 0,
        };
        match self.held_bytes - whole {
            0 => Ok(()),
            dropped => Err(*self.failure.insert(FramingError::Truncated { dropped })),
        }
    }

    /// The generation of this connection's records, once one was emitted.
    ///
    /// While it is provisional, this is the smallest that the bytes so far allow;
    /// it can only grow.
    #[must_use]
    pub fn generation(&self) -> Option<Generation> {
        match self.phase {
            Phase::Head | Phase::Zeros { pending: Some(_) } => None,
            Phase::Zeros { pending: None } => Generation::ALL
                .into_iter()
                .find(|g| g.record_bytes() >= self.held_bytes),
            Phase::Decided(generation) => Some(generation),
        }
    }

    /// Bytes received that belong to no emitted record; always less than one record.
    #[must_use]
    pub const fn pending_bytes(&self) -> usize {
        match self.phase {
            Phase::Zeros { pending: None } => 0,
            Phase::Head | Phase::Zeros { pending: Some(_) } | Phase::Decided(_) => self.held_bytes,
        }
    }

    /// Consumes all of `bytes`, in the phase at hand and those that follow it.
    fn advance(
        &mut self,
        mut bytes: &[u8],
        sink: &mut impl FnMut(Generation, Request),
    ) -> Result<(), FramingError> {
        if let Phase::Head = self.phase {
            bytes = self.first_head(bytes)?;
        }
        if let Phase::Zeros { pending } = self.phase {
            bytes = self.first_zeros(pending, bytes, sink)?;
        }
        match self.phase {
            Phase::Head | Phase::Zeros { .. } => Ok(()),
            Phase::Decided(Generation::G1) => self.records::<72>(Generation::G1, bytes, sink),
            Phase::Decided(Generation::G2) => self.records::<112>(Generation::G2, bytes, sink),
            Phase::Decided(Generation::G3) => self.records::<128>(Generation::G3, bytes, sink),
            Phase::Decided(Generation::G4) => self.records::<144>(Generation::G4, bytes, sink),
        }
    }

    /// Keeps what `bytes` has of the first record's head; returns the rest.
    fn first_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], FramingError> {
        let (part, rest) = split_at_most(bytes, HEAD_BYTES - self.held_bytes);
        self.hold(part)?;
        if let Some((head, [])) = self.held[..self.held_bytes].split_first_chunk() {
            let request = Request::from_parts(head, &[]).map_err(|r| self.malformed(r))?;
            self.phase = Phase::Zeros {
                pending: Some(request),
            };
        }
        Ok(rest)
    }

    /// Counts the zeros after the first record's head; returns what follows them.
    ///
    /// Nothing follows them unless they decide the generation.
    fn first_zeros<'a>(
        &mut self,
        pending: Option<Request>,
        bytes: &'a [u8],
        sink: &mut impl FnMut(Generation, Request),
    ) -> Result<&'a [u8], FramingError> {
        let (window, _) = split_at_most(bytes, MAX_RECORD_BYTES - self.held_bytes);
        let zeros = window.iter().take_while(|&&byte| byte == 0).count();
        self.held_bytes += zeros;
        let rest = &bytes[zeros..];
        let generation = match window.get(zeros) {
            Some(&found) => {
                Generation::from_record_bytes(self.held_bytes).ok_or(FramingError::UnknownSize {
                    offset: self.held_bytes,
                    found,
                })?
            }
            // Nothing is longer than the largest record: it ends here whatever follows.
            None if self.held_bytes == MAX_RECORD_BYTES => Generation::G4,
            None => return Ok(rest),
        };
        self.phase = Phase::Decided(generation);
        self.held_bytes = 0;
        if let Some(request) = pending {
            self.emit(generation, request, sink);
        }
        Ok(rest)
    }

    /// Decodes records of the decided size, straight from `bytes` wherever one lies whole in it.
    fn records<const N: usize>(
        &mut self,
        generation: Generation,
        mut bytes: &[u8],
        sink: &mut impl FnMut(Generation, Request),
    ) -> Result<(), FramingError> {
        if self.held_bytes > 0 {
            let (part, rest) = split_at_most(bytes, N - self.held_bytes);
            self.hold(part)?;
            if self.held_bytes < N {
                return Ok(());
            }
            if let Some((head, tail)) = self.held[..N].split_first_chunk() {
                let request = Request::from_parts(head, tail).map_err(|r| self.malformed(r))?;
                self.emit(generation, request, sink);
            }
            self.held_bytes = 0;
            bytes = rest;
        }
        let (whole, part) = bytes.as_chunks::<N>();
        for record in whole {
            if let Some((head, tail)) = record.split_first_chunk() {
                let request = Request::from_parts(head, tail).map_err(|r| self.malformed(r))?;
                self.emit(generation, request, sink);
            }
        }
        self.hold(part)
    }

    /// Appends to the record begun, refusing it at its first wrong byte.
    fn hold(&mut self, part: &[u8]) -> Result<(), FramingError> {
        check_bytes(part, self.held_bytes).map_err(|reason| self.malformed(reason))?;
        let end = self.held_bytes + part.len();
        self.held[self.held_bytes..end].copy_from_slice(part);
        self.held_bytes = end;
        Ok(())
    }

    #[inline(always)]
    fn emit(
        &mut self,
        generation: Generation,
        request: Request,
        sink: &mut impl FnMut(Generation, Request),
    ) {
        self.decoded += 1;
        sink(generation, request);
    }

    #[cold]
    const fn malformed(&self, reason: MalformedRequest) -> FramingError {
        FramingError::Malformed {
            decoded: self.decoded,
            reason,
        }
    }
}

/// Splits after `at` bytes, or after all of them if there are fewer.
fn split_at_most(bytes: &[u8], at: usize) -> (&[u8], &[u8]) {
    bytes.split_at(at.min(bytes.len()))
}
