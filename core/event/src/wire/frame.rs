//! The frames themselves.

use super::bytes::{Cursor, put_text};
use super::define::MAX_DEFINITION_BYTES;
use super::{DecodeFrameError, DefinitionIter, FRAME_HEADER_BYTES, MAX_FRAME_BYTES};
use crate::define::Definition;
use crate::event::enumerations::enumerations;
use crate::event::{DecodeEventError, EVENT_BYTES, Event, Source};

enumerations! {
    /// The number of each kind of frame; those of the server have the high bit.
    FrameKind {
        Hello = 1 "hello",
        Define = 2 "define",
        Clock = 3 "clock",
        Events = 4 "events",
        ResyncBegin = 5 "resync begin",
        ResyncEnd = 6 "resync end",
        State = 7 "state",
        Flush = 9 "flush",
        Goodbye = 10 "goodbye",
        Handover = 11 "handover",
        Drained = 12 "drained",
        Welcome = 0x81 "welcome",
        Refused = 0x82 "refused",
        Ack = 0x83 "ack",
    }
}

/// Who a client is. The server believes the kernel about the pid, not this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Random; new for every program start and every fork.
    pub instance: [u8; 16],
    /// The pid the client sees; shown, never used.
    pub pid: u32,
    /// How its events become known.
    pub source: Source,
    pub name: &'a str,
    /// The visible-device set that logical ids are counted in; empty = all.
    pub visible_devices: &'a str,
    /// Keys and values of where it runs, as it says; of very many the first.
    pub labels: Vec<(&'a str, &'a str)>,
}

/// How ticks of a client's clock become nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// A reading of the clock.
    pub ticks: u64,
    /// The wall clock at that reading.
    pub unix_nanos: u64,
    /// Nanoseconds per tick × 2³².
    pub nanos_per_tick_q32: u64,
}

impl Clock {
    /// Ticks that are nanoseconds since the epoch already.
    pub const UNIX_NANOS: Self = Self {
        ticks: 0,
        unix_nanos: 0,
        nanos_per_tick_q32: 1 << 32,
    };

    /// The wall clock at a reading of the client's clock.
    #[must_use]
    pub fn unix_nanos_at(&self, ticks: u64) -> u64 {
        let scaled = |ticks: u64| {
            let product = u128::from(ticks) * u128::from(self.nanos_per_tick_q32);
            u64::try_from(product >> 32).unwrap_or(u64::MAX)
        };
        if ticks >= self.ticks {
            self.unix_nanos.saturating_add(scaled(ticks - self.ticks))
        } else {
            self.unix_nanos.saturating_sub(scaled(self.ticks - ticks))
        }
    }
}

/// How far a client has read one of its rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPosition {
    /// The ring's number, over all segments.
    pub ring: u32,
    /// The first position that was not read; positions never start again.
    pub position: u64,
}

/// The end of a resync: from here on the server's view is the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResyncEnd {
    /// The sequence number of the next event.
    pub next_sequence: u64,
    pub lost_events: u64,
    pub elided_events: u64,
}

/// The client leaves in order: what it held is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goodbye {
    /// The sequence number after its last event.
    pub next_sequence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    pub version: u16,
    /// Whether the server knows nothing of this instance and needs its live set.
    pub needs_resync: bool,
    /// Changes when the server restarts.
    pub server_instance: u64,
    /// The first sequence number the server has not applied.
    pub next_sequence: u64,
}

/// Why the server does not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCode {
    /// No common version or event table.
    Version,
    Full,
    /// The client broke the protocol.
    Protocol,
    /// The server is shutting down.
    ShuttingDown,
    /// A reason that only a newer server has; its text still says it.
    Unknown(u16),
}

impl RefusalCode {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Version => 1,
            Self::Full => 2,
            Self::Protocol => 3,
            Self::ShuttingDown => 4,
            Self::Unknown(code) => code,
        }
    }

    /// The reason with this number.
    #[must_use]
    pub const fn from_code(code: u16) -> Self {
        match code {
            1 => Self::Version,
            2 => Self::Full,
            3 => Self::Protocol,
            4 => Self::ShuttingDown,
            other => Self::Unknown(other),
        }
    }
}

/// One frame, borrowed from the bytes it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Client: who it is; the first frame.
    Hello(Hello<'a>),
    /// Client: definitions, before the events that use them.
    Define(DefinitionIter<'a>),
    /// Client: how to read its time stamps; before its first event and whenever it changes.
    Clock(Clock),
    /// Client: a batch of events.
    Events {
        /// The sequence number of the first.
        first_sequence: u64,
        /// Whole records of [`EVENT_BYTES`].
        records: &'a [u8],
    },
    /// Client: what follows, up to the end, is its whole state.
    ResyncBegin,
    /// Client: the state is complete.
    ResyncEnd(ResyncEnd),
    /// Client: the next bytes of its account's state, in a resync; cut anywhere.
    State(&'a [u8]),
    /// Client: acknowledge as soon as all before this is applied.
    Flush,
    Goodbye(Goodbye),
    /// Client: a segment of its rings or of its dictionary, the descriptor beside this frame.
    Handover {
        /// Bytes of the ring segment; 0 when it is a dictionary's.
        ring_bytes: u64,
        /// Bytes of the dictionary segment; 0 when it is one of rings.
        dictionary_bytes: u64,
    },
    /// Client: what its rings held before these positions comes with the next events or
    /// resync end.
    Drained(Vec<RingPosition>),
    Welcome(Welcome),
    /// Server: refused; the connection ends.
    Refused {
        code: RefusalCode,
        /// Why, for people.
        reason: &'a str,
    },
    /// Server: every event before this sequence number is applied.
    Ack {
        /// The first that is not.
        next_sequence: u64,
    },
    /// A kind from a newer peer, to be passed over.
    Unknown(u8),
}

const MAX_PAYLOAD_BYTES: usize = MAX_FRAME_BYTES as usize;

/// What a frame of a long state or of many definitions has: small pieces, since whoever receives them
/// holds an unfinished one in memory.
const PIECE_BYTES: usize = 64 << 10;
const _: () = assert!(PIECE_BYTES + MAX_DEFINITION_BYTES <= MAX_PAYLOAD_BYTES);
const RING_POSITION_BYTES: usize = 16;
/// Labels of a hello that are read; what follows them is not.
const MAX_LABELS: usize = 64;
/// What is left of the longest payload after the sequence number.
const EVENTS_PER_FRAME: usize = (MAX_PAYLOAD_BYTES - 8) / EVENT_BYTES;

impl<'a> Frame<'a> {
    /// Reads the payload of a frame of this kind.
    pub fn decode(kind: u8, payload: &'a [u8]) -> Result<Self, DecodeFrameError> {
        let Some(kind) = FrameKind::from_code(kind) else {
            return Ok(Self::Unknown(kind));
        };
        let mut body = Cursor::new(kind.name(), payload);
        Ok(match kind {
            FrameKind::Hello => Self::Hello(decode_hello(body)?),
            FrameKind::Define => Self::Define(DefinitionIter::new(payload)),
            FrameKind::Clock => Self::Clock(Clock {
                ticks: body.u64()?,
                unix_nanos: body.u64()?,
                nanos_per_tick_q32: body.u64()?,
            }),
            FrameKind::Events => {
                let first_sequence = body.u64()?;
                let invalid = body.invalid("length: not a whole number of records");
                let records = body.rest();
                if !records.len().is_multiple_of(EVENT_BYTES) {
                    return Err(invalid);
                }
                Self::Events {
                    first_sequence,
                    records,
                }
            }
            FrameKind::ResyncBegin => Self::ResyncBegin,
            FrameKind::ResyncEnd => Self::ResyncEnd(ResyncEnd {
                next_sequence: body.u64()?,
                lost_events: body.u64()?,
                elided_events: body.u64()?,
            }),
            FrameKind::State => Self::State(payload),
            FrameKind::Flush => Self::Flush,
            FrameKind::Goodbye => Self::Goodbye(Goodbye {
                next_sequence: body.u64()?,
            }),
            FrameKind::Handover => Self::Handover {
                ring_bytes: body.u64()?,
                dictionary_bytes: body.u64()?,
            },
            FrameKind::Drained => Self::Drained(decode_drained(body)?),
            FrameKind::Welcome => {
                let version = body.u16()?;
                let needs_resync = body.flag("resync flag")?;
                let _reserved = body.take(5)?;
                Self::Welcome(Welcome {
                    version,
                    needs_resync,
                    server_instance: body.u64()?,
                    next_sequence: body.u64()?,
                })
            }
            FrameKind::Refused => Self::Refused {
                code: RefusalCode::from_code(body.u16()?),
                reason: body.text("reason")?,
            },
            FrameKind::Ack => Self::Ack {
                next_sequence: body.u64()?,
            },
        })
    }

    /// The events of a batch, each read when asked for.
    pub fn events(
        records: &'a [u8],
    ) -> impl ExactSizeIterator<Item = Result<Event, DecodeEventError>> + 'a {
        let (records, _none) = records.as_chunks::<EVENT_BYTES>();
        records.iter().map(Event::decode)
    }
}

fn decode_hello(mut body: Cursor<'_>) -> Result<Hello<'_>, DecodeFrameError> {
    let instance = body.array()?;
    let pid = body.u32()?;
    let source = body.u8()?;
    let source = Source::from_code(source).ok_or_else(|| body.invalid("source"))?;
    let _reserved = body.take(3)?;
    let (name, visible_devices) = (body.text("name")?, body.text("visible devices")?);
    Ok(Hello {
        instance,
        pid,
        source,
        name,
        visible_devices,
        labels: decode_labels(body)?,
    })
}

/// Labels, which hellos of the first clients do not have.
fn decode_labels(mut body: Cursor<'_>) -> Result<Vec<(&str, &str)>, DecodeFrameError> {
    let mut labels = Vec::new();
    if !body.is_at_end() {
        for _label in 0..usize::from(body.u16()?).min(MAX_LABELS) {
            labels.push((body.text("label")?, body.text("label")?));
        }
    }
    Ok(labels)
}

fn decode_drained(mut body: Cursor<'_>) -> Result<Vec<RingPosition>, DecodeFrameError> {
    let mut positions = Vec::new();
    while !body.is_at_end() {
        let ring = body.u32()?;
        let _reserved = body.u32()?;
        let position = body.u64()?;
        positions.push(RingPosition { ring, position });
    }
    Ok(positions)
}

/// Appends frames to a buffer that is sent whole.
impl Frame<'_> {
    /// Appends a frame of this kind whose payload `write` appends.
    ///
    /// The length is filled in afterwards. A payload beyond the limit is the
    /// caller's mistake; the methods for what has no bound write several frames.
    pub fn put(out: &mut Vec<u8>, kind: FrameKind, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        out[start + 4] = kind as u8;
        write(out);
        let len = out.len() - start - FRAME_HEADER_BYTES;
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        debug_assert!(len <= MAX_FRAME_BYTES, "a frame of {len} bytes");
        out[start..start + 4].copy_from_slice(&len.to_le_bytes());
    }

    pub fn put_hello(out: &mut Vec<u8>, hello: &Hello<'_>) {
        Self::put(out, FrameKind::Hello, |out| {
            out.extend_from_slice(&hello.instance);
            out.extend_from_slice(&hello.pid.to_le_bytes());
            out.extend_from_slice(&[hello.source.code(), 0, 0, 0]);
            put_text(out, hello.name);
            put_text(out, hello.visible_devices);
            let labels = hello.labels.iter().take(MAX_LABELS);
            if let Ok(count @ 1..) = u16::try_from(labels.len()) {
                out.extend_from_slice(&count.to_le_bytes());
            }
            for (key, value) in labels {
                put_text(out, key);
                put_text(out, value);
            }
        });
    }

    /// Appends definitions, in as many frames as they need; none when there are none.
    pub fn put_define<'d>(
        out: &mut Vec<u8>,
        definitions: impl IntoIterator<Item = &'d Definition>,
    ) {
        let mut definitions = definitions.into_iter().peekable();
        while definitions.peek().is_some() {
            Self::put(out, FrameKind::Define, |out| {
                let full = out.len() + PIECE_BYTES;
                while let Some(definition) = definitions.next_if(|_| out.len() <= full) {
                    definition.encode(out);
                }
            });
        }
    }

    pub fn put_clock(out: &mut Vec<u8>, clock: &Clock) {
        Self::put(out, FrameKind::Clock, |out| {
            put_words(
                out,
                &[clock.ticks, clock.unix_nanos, clock.nanos_per_tick_q32],
            );
        });
    }

    /// Appends events, in as many frames as they need; none when there are none.
    pub fn put_events<'e>(
        out: &mut Vec<u8>,
        first_sequence: u64,
        events: impl IntoIterator<Item = &'e Event>,
    ) {
        let mut events = events.into_iter().peekable();
        let mut sequence = first_sequence;
        while events.peek().is_some() {
            Self::put(out, FrameKind::Events, |out| {
                out.extend_from_slice(&sequence.to_le_bytes());
                for event in events.by_ref().take(EVENTS_PER_FRAME) {
                    out.extend_from_slice(&event.encode());
                    sequence = sequence.wrapping_add(1);
                }
            });
        }
    }

    /// Appends the end of a resync.
    pub fn put_resync_end(out: &mut Vec<u8>, end: &ResyncEnd) {
        Self::put(out, FrameKind::ResyncEnd, |out| {
            put_words(
                out,
                &[end.next_sequence, end.lost_events, end.elided_events],
            );
        });
    }

    /// Appends the state of an account, in as many frames as it needs; none when it is empty.
    pub fn put_state(out: &mut Vec<u8>, state: &[u8]) {
        for part in state.chunks(PIECE_BYTES) {
            Self::put(out, FrameKind::State, |out| out.extend_from_slice(part));
        }
    }

    pub fn put_goodbye(out: &mut Vec<u8>, goodbye: &Goodbye) {
        Self::put(out, FrameKind::Goodbye, |out| {
            out.extend_from_slice(&goodbye.next_sequence.to_le_bytes());
        });
    }

    /// Appends the size of the memory that is passed beside this frame; one of the two is 0.
    pub fn put_handover(out: &mut Vec<u8>, ring_bytes: u64, dictionary_bytes: u64) {
        Self::put(out, FrameKind::Handover, |out| {
            put_words(out, &[ring_bytes, dictionary_bytes]);
        });
    }

    /// Appends how far rings were read, in as many frames as it needs; none when there is nothing.
    pub fn put_drained(out: &mut Vec<u8>, positions: &[RingPosition]) {
        for positions in positions.chunks(MAX_PAYLOAD_BYTES / RING_POSITION_BYTES) {
            Self::put(out, FrameKind::Drained, |out| {
                for position in positions {
                    out.extend_from_slice(&position.ring.to_le_bytes());
                    out.extend_from_slice(&[0; 4]);
                    out.extend_from_slice(&position.position.to_le_bytes());
                }
            });
        }
    }

    pub fn put_welcome(out: &mut Vec<u8>, welcome: &Welcome) {
        Self::put(out, FrameKind::Welcome, |out| {
            out.extend_from_slice(&welcome.version.to_le_bytes());
            out.push(u8::from(welcome.needs_resync));
            out.extend_from_slice(&[0; 5]);
            put_words(out, &[welcome.server_instance, welcome.next_sequence]);
        });
    }

    pub fn put_refused(out: &mut Vec<u8>, code: RefusalCode, reason: &str) {
        Self::put(out, FrameKind::Refused, |out| {
            out.extend_from_slice(&code.code().to_le_bytes());
            put_text(out, reason);
        });
    }

    pub fn put_ack(out: &mut Vec<u8>, next_sequence: u64) {
        Self::put(out, FrameKind::Ack, |out| {
            out.extend_from_slice(&next_sequence.to_le_bytes());
        });
    }
}

fn put_words(out: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}
