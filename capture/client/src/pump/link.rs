//! The conversation with the server: connect, greet, hand over, resync, send.
//!
//! Nothing here waits, and nothing the server does is trusted: a bad answer ends
//! the connection, and there will be another. Each connection begins with what
//! the server says it knows; unless it has everything up to a point in the
//! history, it is sent the whole state.

use super::definitions::Definitions;
use super::history::History;
use super::socket::{Broken, Socket};
use crate::client::Client;
use crate::clock::{Calibration, Instant};
use crate::config::Config;
use crate::host;
use crate::labels;
use crate::trust;
use std::time::Duration;
use ttmem_event::wire::{Frame, FrameKind, FrameReader, Goodbye, Hello, Preamble, ResyncEnd};
use ttmem_event::wire::{VERSION, Welcome};

/// Events in one frame: large enough that a system call is nothing, small enough to fit into a
/// socket at once.
const BATCH: usize = 1024;
/// Batches sent in one turn at most: the rings must be read in between.
const BATCHES_PER_TURN: usize = 16;
/// How long a server may take to answer the greeting.
const GREETING: Duration = Duration::from_secs(5);
/// How soon an answer to the greeting is looked for.
const SHORTEST_GREETING: Duration = Duration::from_millis(2);
/// The pause after the first failed attempt, and after many.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The pause after the server refused us: it will not change its mind soon.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_millis(200);
/// Characters of a server's reason that are shown.
const LONGEST_REASON: usize = 200;
/// Bytes of answers read in one turn.
const RECEIVE_BYTES: usize = 4096;
/// Room for frames that is kept between turns; a large state is not kept.
const KEPT_BYTES: usize = 1 << 20;
/// Giving back more than this takes longer than the pump should be held.
const LARGE_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Link {
    state: Phase,
    reader: FrameReader,
    calibration: Calibration,
    /// Frames that are being sent, and how much of them was.
    out: Vec<u8>,
    written: usize,
    handed: Handed,
    pause: Duration,
    resyncs: u64,
    complained: bool,
    /// What this process says of where it runs, once it was looked for.
    labels: Option<Vec<(String, String)>>,
}

#[derive(Debug)]
enum Phase {
    /// No connection; the next attempt is due then.
    Down {
        until: Instant,
    },
    /// Connected; the server has not answered yet.
    Greeting {
        socket: Socket,
        until: Instant,
    },
    Up {
        socket: Socket,
        synced: Synced,
    },
}

/// Whether the server is known to have the state up to the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Synced {
    Due,
    /// The state was put into frames; confirmed when the server confirms this number.
    Sent {
        front: u64,
    },
    Confirmed,
}

/// What this server was given: memory only if it is trusted.
#[derive(Clone, Copy, Debug, Default)]
struct Handed {
    trusted: bool,
    rings: usize,
    dictionaries: usize,
}

impl Phase {
    fn socket(&self) -> Option<&Socket> {
        match self {
            Self::Down { .. } => None,
            Self::Greeting { socket, .. } | Self::Up { socket, .. } => Some(socket),
        }
    }
}

/// Gives back the memory of a large state in a thread of its own, if there is one to be had.
fn drop_beside(frames: Vec<u8>) {
    // Without a thread, they are dropped here.
    let _no_thread = host::spawn(c"ttmem-state", move || drop(frames));
}

fn is_trusted(socket: &Socket, config: &Config) -> bool {
    let own = host::own_uid();
    let server = socket.server_uid();
    server.is_some_and(|uid| trust::is_trusted(uid, own, config.trusted_uid))
}

/// The beginning of a server's reason, fit for a terminal.
fn printable(reason: &str) -> String {
    let shown = reason.chars().take(LONGEST_REASON);
    shown
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Socket,
    /// Anything, but no longer than this.
    AtMost(Duration),
}

impl Link {
    pub(super) fn new(calibration: Calibration) -> Self {
        Self {
            state: Phase::Down {
                until: Instant::now(),
            },
            reader: FrameReader::default(),
            calibration,
            out: Vec::new(),
            written: 0,
            handed: Handed::default(),
            pause: FIRST_PAUSE,
            resyncs: 0,
            complained: false,
            labels: None,
        }
    }

    /// How often the whole state was sent.
    pub(super) fn resyncs(&self) -> u64 {
        self.resyncs
    }

    /// Whether a server has confirmed the state of this process.
    pub(super) fn is_synced(&self) -> bool {
        matches!(
            self.state,
            Phase::Up {
                synced: Synced::Confirmed,
                ..
            }
        )
    }

    /// Whether the server has applied every event below `until`.
    pub(super) fn is_settled(&self, history: &History, until: u64) -> bool {
        self.is_synced() && history.front() >= until
    }

    /// What to wait for before the next turn.
    pub(super) fn wait_before_next(&self, history: &History, impatient: bool) -> Wait {
        let unwritten = self.written < self.out.len();
        match &self.state {
            Phase::Down { until } => Wait::AtMost(until.saturating_duration_since(Instant::now())),
            Phase::Greeting { .. } if impatient => Wait::Socket,
            Phase::Greeting { until, .. } => {
                let left = until.saturating_duration_since(Instant::now());
                // As long again as it has been: a server that does not answer is asked ever less.
                Wait::AtMost(GREETING.saturating_sub(left).max(SHORTEST_GREETING))
            }
            Phase::Up { .. } if unwritten || impatient => Wait::Socket,
            Phase::Up { .. } if history.has_unsent() => Wait::AtMost(Duration::ZERO),
            Phase::Up { .. } => Wait::AtMost(Duration::MAX),
        }
    }

    pub(super) fn wait(&self, longest: Duration) {
        if let Some(socket) = self.state.socket() {
            socket.wait(self.written < self.out.len(), longest);
        }
    }

    /// Goes on with the conversation as far as it goes without waiting.
    pub(super) fn turn(
        &mut self,
        client: &Client,
        history: &mut History,
        definitions: &mut Definitions,
    ) {
        let outcome = match &self.state {
            Phase::Down { until } if *until <= Instant::now() => {
                self.connect(client);
                // The hello and the memory go out at once: after a death in the next moment the
                // server can read it.
                self.send(client, history, definitions)
            }
            Phase::Down { .. } => Ok(()),
            Phase::Greeting { until, .. } if *until <= Instant::now() => Err(Broken),
            Phase::Greeting { .. } | Phase::Up { .. } => self
                .receive(client, history, definitions)
                .and_then(|()| self.send(client, history, definitions)),
        };
        if outcome.is_err() {
            self.disconnect(self.pause);
        }
    }

    fn connect(&mut self, client: &Client) {
        let paths = client.config.socket_paths();
        let mut found = None;
        for path in &paths {
            // Anybody can listen under /tmp: a server that is trusted goes before any other.
            match Socket::connect(path) {
                Ok(socket) if is_trusted(&socket, &client.config) => {
                    found = Some((socket, true));
                    break;
                }
                Ok(socket) => found = found.or(Some((socket, false))),
                Err(_nobody) => {}
            }
        }
        let Some((socket, trusted)) = found else {
            return self.disconnect(self.pause);
        };
        client.connection.set(socket.identity());
        self.handed = Handed {
            trusted,
            ..Handed::default()
        };
        self.reader = FrameReader::default();
        self.out.clear();
        self.written = 0;
        self.out.extend_from_slice(&Preamble::OURS.encode());
        let visible = client.config.visible_devices.clone();
        let visible = visible.or_else(|| std::env::var("TT_VISIBLE_DEVICES").ok());
        let pid = host::own_pid();
        let name = client.config.name.clone().or_else(host::program_name);
        let found = || labels::found(client.config.labels.as_deref());
        let labels = self.labels.get_or_insert_with(found);
        let hello = Hello {
            instance: client.instance,
            pid: pid.cast_unsigned(),
            source: client.config.source,
            name: name.as_deref().unwrap_or(""),
            visible_devices: visible.as_deref().unwrap_or(""),
            labels: labels
                .iter()
                .map(|(key, value)| (&**key, &**value))
                .collect(),
        };
        Frame::put_hello(&mut self.out, &hello);
        // Events that the server finds after a death in the next moment have no other.
        self.put_clock();
        let until = Instant::now() + GREETING;
        self.state = Phase::Greeting { socket, until };
    }

    /// Ends the connection; the next attempt comes after a pause, which grows.
    fn disconnect(&mut self, pause: Duration) {
        self.state = Phase::Down {
            until: Instant::now() + pause,
        };
        self.out = Vec::new();
        self.written = 0;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn receive(
        &mut self,
        client: &Client,
        history: &mut History,
        definitions: &mut Definitions,
    ) -> Result<(), Broken> {
        let Some(socket) = self.state.socket() else {
            return Ok(());
        };
        let mut buffer = [0; RECEIVE_BYTES];
        let count = socket.receive(&mut buffer)?;
        self.reader.push(&buffer[..count]);
        let mut reader = std::mem::take(&mut self.reader);
        while let Some(frame) = reader.next_frame().map_err(|_not_ours| Broken)? {
            match frame {
                Frame::Welcome(welcome) => self.begin(client, &welcome, history, definitions)?,
                Frame::Ack { next_sequence } => self.confirm(next_sequence, history)?,
                Frame::Refused { code: _, reason } => {
                    if !std::mem::replace(&mut self.complained, true) {
                        let reason = printable(reason);
                        host::complain(&format!("the server refuses this process: {reason}"));
                    }
                    self.disconnect(REFUSED_PAUSE);
                    return Ok(());
                }
                Frame::Unknown(_newer) => {}
                _misplaced => return Err(Broken),
            }
        }
        self.reader = reader;
        Ok(())
    }

    /// The server has accepted: finds out where its events begin.
    fn begin(
        &mut self,
        client: &Client,
        welcome: &Welcome,
        history: &mut History,
        definitions: &mut Definitions,
    ) -> Result<(), Broken> {
        if welcome.version != VERSION {
            return Err(Broken);
        }
        let down = Phase::Down {
            until: Instant::now(),
        };
        let Phase::Greeting { socket, .. } = std::mem::replace(&mut self.state, down) else {
            return Err(Broken);
        };
        definitions.forget_sent();
        let known = welcome.next_sequence >= history.front()
            && !welcome.needs_resync
            && !history.has_gap()
            && history.confirm(welcome.next_sequence);
        history.rewind();
        let synced = if known {
            Synced::Confirmed
        } else {
            Synced::Due
        };
        self.state = Phase::Up { socket, synced };
        self.put_clock();
        if known {
            definitions.put_new(client, &mut self.out);
        }
        Ok(())
    }

    fn confirm(&mut self, sequence: u64, history: &mut History) -> Result<(), Broken> {
        let Phase::Up { synced, .. } = &mut self.state else {
            return Err(Broken);
        };
        if let Synced::Sent { front } = *synced
            && sequence >= front
        {
            *synced = Synced::Confirmed;
        }
        if *synced == Synced::Confirmed {
            // Only now: a server that welcomes and hangs up is no better than none.
            self.pause = FIRST_PAUSE;
        }
        if history.confirm(sequence) {
            Ok(())
        } else {
            // It confirms what it was never sent.
            Err(Broken)
        }
    }

    fn send(
        &mut self,
        client: &Client,
        history: &mut History,
        definitions: &mut Definitions,
    ) -> Result<(), Broken> {
        for _batch in 0..BATCHES_PER_TURN {
            if self.written == self.out.len() {
                self.out.clear();
                if self.out.capacity() > LARGE_BYTES {
                    drop_beside(std::mem::take(&mut self.out));
                }
                self.out.shrink_to(KEPT_BYTES);
                self.written = 0;
                self.hand_over(client)?;
                if matches!(self.state, Phase::Up { .. }) {
                    history.frames_delivered();
                    self.fill(client, history, definitions);
                }
            }
            let Some(socket) = self.state.socket() else {
                return Ok(());
            };
            let rest = self.out.get(self.written..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            self.written += socket.send(rest, None)?;
            if self.written < self.out.len() {
                break;
            }
        }
        if self.written == self.out.len() && matches!(self.state, Phase::Up { .. }) {
            history.frames_delivered();
        }
        Ok(())
    }

    /// Gives the server the memory that it does not have yet, one piece per message.
    ///
    /// Also before it has answered: the system says who runs it, not its answer.
    fn hand_over(&mut self, client: &Client) -> Result<(), Broken> {
        let Some(socket) = self.state.socket() else {
            return Ok(());
        };
        if !self.handed.trusted {
            return Ok(());
        }
        let rings = client.segments().skip(self.handed.rings);
        let rings = rings.map(|segment| (segment.memory(), false));
        let dictionaries = client.dictionary.segments().skip(self.handed.dictionaries);
        let dictionaries = dictionaries.map(|segment| (segment.memory(), true));
        for (memory, is_dictionary) in rings.chain(dictionaries) {
            let bytes = memory.bytes() as u64;
            let (ring_bytes, dictionary_bytes, handed) = if is_dictionary {
                (0, bytes, &mut self.handed.dictionaries)
            } else {
                (bytes, 0, &mut self.handed.rings)
            };
            Frame::put_handover(&mut self.out, ring_bytes, dictionary_bytes);
            // Without a descriptor (ours alone, or closed by the program) the frame keeps the place
            // among the others.
            let sent = socket.send(&self.out, memory.descriptor())?;
            *handed += usize::from(sent > 0);
            if sent > 0 && sent < self.out.len() {
                // The descriptor went with the first byte; the rest follows.
                self.written = sent;
                return Ok(());
            }
            self.out.clear();
            if sent == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    fn fill(&mut self, client: &Client, history: &mut History, definitions: &mut Definitions) {
        if !self.out.is_empty() {
            return;
        }
        let Phase::Up { synced, .. } = &self.state else {
            return;
        };
        if *synced == Synced::Due || history.has_gap() {
            // The whole state comes first; see `put_state`.
            return;
        }
        if self.calibration.is_due() {
            self.put_clock();
        }
        definitions.put_new(client, &mut self.out);
        if let Some(batch) = history.take_batch(BATCH) {
            Frame::put_drained(&mut self.out, &batch.positions);
            Frame::put(&mut self.out, FrameKind::Events, |out| {
                out.extend_from_slice(&batch.first_sequence.to_le_bytes());
                for records in batch.records {
                    out.extend_from_slice(records);
                }
            });
        }
    }

    fn put_clock(&mut self) {
        let clock = self.calibration.clock();
        Frame::put_clock(&mut self.out, &clock);
    }

    /// Whether the whole state is to be sent next.
    pub(super) fn is_state_due(&self, history: &History) -> bool {
        let Phase::Up { synced, .. } = &self.state else {
            return false;
        };
        let due = *synced == Synced::Due || history.has_gap();
        due && self.written == self.out.len() && !history.is_folding()
    }

    /// Takes the whole state, as of the front of the history, to be sent next.
    pub(super) fn put_state(
        &mut self,
        client: &Client,
        state: Vec<u8>,
        history: &History,
        definitions: &mut Definitions,
    ) {
        let Phase::Up { synced, .. } = &mut self.state else {
            return;
        };
        *synced = Synced::Sent {
            front: history.front(),
        };
        self.resyncs += 1;
        self.out = state;
        self.written = 0;
        let out = &mut self.out;
        definitions.forget_sent();
        definitions.put_new(client, out);
        Frame::put_drained(out, &history.positions_at_front());
        let end = ResyncEnd {
            next_sequence: history.front(),
            lost_events: history.lost_before_front(),
            elided_events: history.elided(),
        };
        Frame::put_resync_end(out, &end);
    }

    /// Says goodbye, if there is somebody to say it to.
    pub(super) fn goodbye(&mut self, history: &History) {
        let next_sequence = history.end();
        Frame::put_goodbye(&mut self.out, &Goodbye { next_sequence });
        let until = Instant::now() + GOODBYE;
        while let Phase::Up { socket, .. } = &self.state
            && let Some(rest) = self.out.get(self.written..)
            && !rest.is_empty()
            && Instant::now() < until
        {
            match socket.send(rest, None) {
                Ok(0) => socket.wait(true, Duration::from_millis(10)),
                Ok(sent) => self.written += sent,
                Err(Broken) => break,
            }
        }
        self.disconnect(LONGEST_PAUSE);
    }
}
