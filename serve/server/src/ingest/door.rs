//! The threads that accept connections, and do nothing else.
//!
//! The kernel's queue of connections belongs to all users together, and whoever finds it full is
//! refused. So it is emptied by threads that never have other work: they decide by the peer's
//! credentials who is let in ([`Entrance`]), close the others, and hand over those they let in. Beyond
//! a share nothing is allocated, looked up or told to another thread.
//!
//! One thread is awake at a time, unless connections come faster than it takes them: in a storm on a
//! machine whose processors are all in use, several threads together get more time than one.

use super::entrance::Entrance;
use super::shares::{self, Refusals};
use crate::ledger_thread::SessionNumber;
use crate::peer::{self, Credentials};
use crate::{OwnedThread, lock};
use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;
use ttmem_ledger::Holder;

/// Connections accepted from one socket before the other has its turn.
const TURN: usize = 64;

/// Threads that accept: more than attackers that a machine survives for other reasons.
const THREADS: usize = 4;

/// The niceness of these threads where real time is refused.
const DOOR_NICENESS: i32 = -10;

/// With fewer connections that may wait, one thread does.
const MANY_WAITING: usize = 64;

/// What epoll calls the end of the thread; other numbers are those of sockets.
const STOP: u64 = u64::MAX;

/// How long no connections are accepted after that failed.
const ACCEPT_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

#[derive(Debug)]
pub(super) enum Arrival {
    Connection(UnixConnection),
    /// Accepting failed, and is tried again in a while.
    Failed(io::Error),
}

/// A connection that was let in; it does not block.
#[derive(Debug)]
pub(super) struct UnixConnection {
    pub(super) stream: OwnedFd,
    pub(super) number: SessionNumber,
    pub(super) credentials: Option<Credentials>,
}

/// The threads; they end with this value.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) arrivals: Receiver<Arrival>,
    doorkeeper: Arc<Doorkeeper>,
    /// Each ends when its pipe is closed.
    _threads: Vec<OwnedThread<PipeWriter>>,
}

impl Door {
    /// Accepts from these sockets from now on; `wake` is written to for each arrival.
    pub(super) fn open(
        listeners: Vec<UnixListener>,
        wake: Arc<OwnedFd>,
        refusals: Refusals,
    ) -> io::Result<Self> {
        let waiting = shares::waiting_connections();
        // Threads and turns take descriptors, which are few where connections are, too.
        let is_small = waiting < MANY_WAITING;
        let (threads, turn) = if is_small { (1, 1) } else { (THREADS, TURN) };
        // Each thread may have a failure to tell as well.
        let (sender, arrivals) = bounded(waiting + threads);
        let doorkeeper = Arc::new(Doorkeeper {
            listeners,
            turn,
            arrivals: sender,
            wake,
            entrance: Mutex::new(Entrance::new(waiting)),
            told: Mutex::default(),
            refusals,
            last_session: AtomicU64::new(0),
            turns: RwLock::new(()),
        });
        let start = |_number| {
            let (stop, stop_sender) = io::pipe()?;
            let epoll = doorkeeper.watch(&stop)?;
            let doorkeeper = Arc::clone(&doorkeeper);
            OwnedThread::start("ttmem-door", stop_sender, move || {
                doorkeeper.run(&epoll, &stop);
            })
        };
        let threads: io::Result<Vec<_>> = (0..threads).map(start).collect();
        Ok(Self {
            arrivals,
            doorkeeper,
            _threads: threads?,
        })
    }

    /// Whether every connection that was made before this call is known: taken from `arrivals`, or refused.
    pub(super) fn is_idle(&self) -> bool {
        self.doorkeeper.is_idle() && self.arrivals.is_empty()
    }
}

/// What became of connections that were let in.
#[derive(Debug)]
pub(super) enum Told {
    TakenOver(Holder),
    Charge(Holder, u32),
}

impl Door {
    pub(super) fn tell(&self, what: Told) {
        lock(&self.doorkeeper.told).push(what);
    }
}

#[derive(Debug)]
struct Doorkeeper {
    listeners: Vec<UnixListener>,
    /// Connections accepted in a turn.
    turn: usize,
    arrivals: Sender<Arrival>,
    wake: Arc<OwnedFd>,
    entrance: Mutex<Entrance>,
    /// Reports about admitted connections since the last turn.
    told: Mutex<Vec<Told>>,
    refusals: Refusals,
    last_session: AtomicU64,
    /// Held by each thread from before it accepts connections until it has handed them over.
    turns: RwLock<()>,
}

impl Doorkeeper {
    /// What one thread waits for.
    fn watch(&self, stop: &PipeReader) -> io::Result<OwnedFd> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, stop, EventData::new_u64(STOP), EventFlags::IN)?;
        for (index, listener) in (0..).zip(&self.listeners) {
            // A connection wakes one thread that waits, not all of them.
            let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
            epoll::add(&epoll, listener, EventData::new_u64(index), flags)?;
        }
        Ok(epoll)
    }

    /// Whether no connection waits in a queue of the kernel or is in the hands of a thread.
    fn is_idle(&self) -> bool {
        let mut queues: Vec<PollFd<'_>> = self
            .listeners
            .iter()
            .map(|listener| PollFd::new(listener, PollFlags::IN))
            .collect();
        // In this order: what leaves a queue is in a turn until it has arrived.
        matches!(poll(&mut queues, Some(&Timespec::default())), Ok(0))
            && self.turns.try_write().is_ok()
    }

    fn run(&self, epoll: &OwnedFd, stop: &PipeReader) {
        take_priority();
        let mut ready = Vec::with_capacity(1 + self.listeners.len());
        loop {
            match epoll::wait(epoll, spare_capacity(&mut ready), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_unusable) => return,
            }
            for event in ready.drain(..) {
                let index = event.data.u64();
                if index == STOP {
                    return;
                }
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                if let Err(error) = self.accept_some(index, Instant::now()) {
                    self.hand_over(Arrival::Failed(error));
                    // Trying again at once would only spin.
                    let mut stop = [PollFd::new(stop, PollFlags::IN)];
                    let _stopped = poll(&mut stop, Some(&ACCEPT_PAUSE));
                }
            }
        }
    }

    /// Accepts connections that wait on a socket, at most one turn of them, and decides on them together.
    ///
    /// One lock for a turn: threads that met at it for every connection would spend a storm waiting for
    /// each other.
    fn accept_some(&self, index: usize, now: Instant) -> io::Result<()> {
        let Some(listener) = self.listeners.get(index) else {
            return Ok(());
        };
        let _turn = self.turns.read().unwrap_or_else(PoisonError::into_inner);
        let mut accepted = Vec::new();
        let result = self.accept_turn(listener, &mut accepted);
        let mut refused = Vec::new();
        // Never wait for this lock: the next turn takes what is being added now.
        let told = self.told.try_lock();
        let told = told.map_or_else(|_taken| Vec::new(), |mut told| std::mem::take(&mut *told));
        let mut entrance = lock(&self.entrance);
        for told in told {
            match told {
                Told::TakenOver(holder) => entrance.take_over(holder),
                Told::Charge(holder, units) => entrance.charge(holder, units, now),
            }
        }
        let admitted: Vec<UnixConnection> = accepted
            .into_iter()
            .filter_map(|connection| {
                let holder = shares::holder(connection.credentials, connection.number);
                match entrance.admit(holder, now) {
                    Ok(()) => Some(connection),
                    Err(reason) => {
                        refused.push((connection, reason));
                        None
                    }
                }
            })
            .collect();
        drop(entrance);
        for connection in admitted {
            self.hand_over(Arrival::Connection(connection));
        }
        for connections in refused.chunk_by(|(_, reason), (_, next)| reason == next) {
            if let Some((connection, reason)) = connections.last() {
                let pid = connection.credentials.and_then(|peer| peer.pid);
                self.refusals.count(pid, reason, connections.len() as u64);
            }
        }
        result
    }

    fn accept_turn(
        &self,
        listener: &UnixListener,
        accepted: &mut Vec<UnixConnection>,
    ) -> io::Result<()> {
        for _connection in 0..self.turn {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let stream = match accept_with(listener, flags) {
                Ok(stream) => stream,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => return Err(error.into()),
            };
            accepted.push(UnixConnection {
                number: SessionNumber(1 + self.last_session.fetch_add(1, Relaxed)),
                credentials: peer::credentials(&stream).ok(),
                stream,
            });
        }
        Ok(())
    }

    fn hand_over(&self, arrival: Arrival) {
        // There is room for those that were let in; a failure is told by another thread as well.
        let _full = self.arrivals.try_send(arrival);
        // The counter of an eventfd cannot fill up by ones; a failure means it is closed.
        let _closed = rustix::io::write(self.wake.as_ref(), &1_u64.to_ne_bytes());
    }
}

/// Raises this thread's priority where the server is allowed to: while it waits for a processor, the kernel's
/// queue of connections fills.
///
/// Niceness alone is not enough: it only counts within a session or control group.
fn take_priority() {
    let is_above =
        rustix::process::getpriority_process(None).is_ok_and(|niceness| niceness <= DOOR_NICENESS);
    if !set_real_time() && !is_above {
        let _refused = rustix::process::setpriority_process(None, DOOR_NICENESS);
    }
}

/// Gives this thread the lowest real-time priority; threads that it starts do not inherit it. Returns false if refused.
///
/// A real-time thread must not spin on a normal one, which could not run to release it.
#[expect(unsafe_code, reason = "no safe wrapper has this call")]
fn set_real_time() -> bool {
    use nix::libc::{SCHED_RESET_ON_FORK, SCHED_RR, sched_param, sched_setscheduler};
    let lowest = sched_param { sched_priority: 1 };
    // SAFETY: the pointer is to a value that outlives the call, which only reads it.
    unsafe { sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &raw const lowest) == 0 }
}
