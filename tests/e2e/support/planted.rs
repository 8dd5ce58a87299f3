//! A client with a secret in every text that a client can choose, as a process of its own.
//!
//! The texts are found in the vocabulary: a text field of an event, a definition or a hello without a secret fails the
//! test, or is an error of the compiler.

use super::client::{Client, MESH, n150_capacities};
use super::old_client::{OldClient, request};
use super::server::{Killed, without_settings};
use nix::unistd::{Gid, Uid, setresgid, setresuid};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use ttmem_event::catalogue::Arch;
use ttmem_event::event::field::FieldValue;
use ttmem_event::event::kinds::LAYOUT;
use ttmem_event::legacy::{Generation, RequestKind};
use ttmem_event::wire::{Frame, Hello};
use ttmem_event::{
    BinaryStatus, BufferId, CacheResult, CbKind, ClashKind, Class, CoreSet, CoreType, CoresId,
    Definition, DeviceDefinition, DeviceId, Direction, DispatchPath, Event, EventKind, KernelId,
    KernelKind, Layout, MeshDefinition, MeshId, MeshKind, ProgramId, Source, TextId,
};
use ttmem_reader::ApiClient;

const ASKED: &str = "E2E_PLANTED";
/// What the process prints once all is known to the server.
const READY: &str = "planted";

/// The mesh over a device without an id of its own: it is told from others by the set of visible devices.
const OTHER_MESH: MeshId = MeshId(2);

/// Steps that leave something behind: enough to be called growth.
const STEPS: u64 = 8;

/// The secret of one text: other in each run, short enough for every bound, and nothing that documents have by chance.
pub(crate) fn secret(seed: u64, place: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (seed, place).hash(&mut hasher);
    format!("zq{:010x}", hasher.finish() >> 24)
}

/// The mark that a user sets by `ttmem mark`, and the one that the server's user sets.
pub(crate) const MARK_OF_A_USER: &str = "mark of a user";
pub(crate) const MARK_FOR_ALL: &str = "mark for all";

/// Where texts are that are no part of the protocol.
const OF_THE_PROCESS: [&str; 4] = [
    "command line",
    "name of the thread",
    "folder",
    "environment",
];

/// Every place of a text that is planted.
pub(crate) fn places() -> Vec<String> {
    let mut places: Vec<String> = OF_THE_PROCESS.map(str::to_owned).to_vec();
    places.extend(
        [
            "hello.name",
            "hello.visible_devices",
            "label key",
            "label value",
        ]
        .map(str::to_owned),
    );
    places.extend(["device.board", "python.path", "python.function"].map(str::to_owned));
    places.extend(text_fields());
    places.extend([MARK_OF_A_USER, MARK_FOR_ALL].map(str::to_owned));
    places
}

/// The fields of events that are texts.
fn text_fields() -> BTreeSet<String> {
    let fields = LAYOUT.iter().flat_map(|event| {
        let texts = event.fields.iter();
        let texts = texts.filter(|field| field.type_name.contains("TextId"));
        texts.map(|field| format!("{}.{}", event.name, field.name))
    });
    fields.collect()
}

/// A process that has planted its secrets; killed when the test is done with it.
pub(crate) struct Planted {
    child: Killed,
}

impl Planted {
    /// Starts one as a user, where the test may.
    pub(crate) fn start(socket: &Path, seed: u64, user: Option<u32>, folder: &Path) -> Self {
        let place = folder.join(secret(seed, "folder"));
        std::fs::create_dir_all(&place).expect("a folder");
        let mut command = without_settings(std::env::current_exe().expect("this program"));
        command
            .args(["--exact", "workload_process", "--nocapture"])
            // The name of no test: it is there to be read.
            .arg(secret(seed, "command line"))
            .env("SOME_SETTING", secret(seed, "environment"))
            .env(
                ASKED,
                format!("{seed}\n{}\n{}", user.unwrap_or(0), socket.display()),
            )
            .current_dir(&place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = Killed(command.spawn().expect("it starts"));
        let output = child.0.stdout.as_mut().expect("a pipe");
        let mut lines = BufReader::new(output).lines();
        let is_ready = |line: std::io::Result<String>| line.is_ok_and(|line| line.ends_with(READY));
        assert!(lines.any(is_ready), "it planted its secrets");
        Self { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }
}

/// The body of such a process: it plants, and waits until it is killed.
pub(crate) fn run_if_asked() {
    let Ok(asked) = std::env::var(ASKED) else {
        return;
    };
    let mut lines = asked.lines();
    let mut number = || {
        lines
            .next()
            .and_then(|line| line.parse().ok())
            .expect("a number")
    };
    let (seed, user): (u64, u64) = (number(), number());
    let socket = Path::new(lines.next().expect("a socket"));
    let name = secret(seed, "name of the thread");
    std::fs::write("/proc/self/comm", name).expect("its own name");
    become_user(u32::try_from(user).expect("a user"));
    let mut old = OldClient::connect(socket, Generation::G4);
    old.send(&request(RequestKind::Alloc, 5, 4096, 0, 0x1000));
    let _totals = old.totals(5);
    drop(old);
    let _client = plant(socket, seed);
    if user > 0 {
        let name = secret(seed, MARK_OF_A_USER);
        ApiClient::new(socket).mark(&name).expect("anybody may");
    }
    #[expect(clippy::print_stdout, reason = "the test waits for it")]
    {
        println!("{READY}");
    }
    let _killed = std::io::stdin().read(&mut [0]);
}

/// Lets this whole process be a user; 0 is who it is.
pub(crate) fn become_user(user: u32) {
    if user > 0 {
        let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
        setresgid(gid, gid, gid).expect("root may");
        setresuid(uid, uid, uid).expect("root may");
    }
}

fn plant(socket: &Path, seed: u64) -> Client {
    let secret = |place: &str| secret(seed, place);
    let (name, visible) = (secret("hello.name"), secret("hello.visible_devices"));
    let (key, value) = (secret("label key"), secret("label value"));
    let hello = Hello {
        instance: [7; 16],
        pid: std::process::id(),
        source: Source::Client,
        name: &name,
        visible_devices: &visible,
        labels: vec![(key.as_str(), value.as_str()), ("job", value.as_str())],
    };
    let mut client = Client::introduce(socket, &hello);
    let fields: Vec<String> = text_fields().into_iter().collect();
    let text_id = |field: &str| {
        let place = fields.iter().position(|known| known == field);
        let place = place.expect("a text field of the vocabulary");
        TextId(100 + u32::try_from(place).expect("few"))
    };
    // A name alone: a stack of Python follows those of operations.
    let is_name = |field: &str| field.starts_with("Marked.") || field.starts_with("NotTracked.");
    let (path, function) = (secret("python.path"), secret("python.function"));
    let mut definitions: Vec<Definition> = fields
        .iter()
        .map(|field| Definition::Text {
            id: text_id(field),
            text: if is_name(field) {
                secret(field)
            } else {
                format!("{}\n/{path}/model.py:12 in {function}", secret(field))
            },
        })
        .collect();
    definitions.push(Definition::Text {
        id: TextId(1),
        text: secret("device.board"),
    });
    definitions.push(Definition::Cores {
        id: CoresId(1),
        cores: CoreSet::grid(2, 2),
    });
    for (device, mesh, unique_id) in [(0, MESH, Some(0xABC)), (1, OTHER_MESH, None)] {
        definitions.push(Definition::Device(DeviceDefinition {
            id: DeviceId(device),
            logical_id: device,
            unique_id,
            arch: Arch::Wormhole,
            board: TextId(1),
            remote: Some(false),
            grid_columns: 8,
            grid_rows: 8,
            l1_bytes_per_core: 1_499_136,
            l1_reserved_bytes: 105_824,
        }));
        definitions.push(Definition::Mesh(MeshDefinition {
            id: mesh,
            kind: MeshKind::Mesh,
            handle: 1,
            rows: 1,
            columns: 1,
            devices: vec![DeviceId(device)],
        }));
    }
    let mut bytes = Vec::new();
    Frame::put_define(&mut bytes, &definitions);
    client.send_bytes(&bytes);
    client.send(&n150_capacities());
    let events = events(&text_id);
    let planted: BTreeSet<String> = events
        .iter()
        .flat_map(|event| texts_of(&event.kind))
        .collect();
    assert_eq!(
        planted,
        text_fields(),
        "every text of the vocabulary has a secret"
    );
    client.send(&events);
    client
}

/// The fields of an event that name a text.
fn texts_of(kind: &EventKind) -> Vec<String> {
    let mut texts = Vec::new();
    kind.visit(|field, value| {
        if matches!(value, FieldValue::Text(id) if id != TextId::NONE) {
            texts.push(format!("{}.{field}", kind.name()));
        }
    });
    texts
}

/// What happens: something of everything that has a text, and what it is found by.
fn events(text: &impl Fn(&str) -> TextId) -> Vec<Event> {
    let program = ProgramId(1);
    let buffer = |buffer: u64, mesh, class| EventKind::BufferAllocated {
        mesh,
        buffer: BufferId(buffer),
        class,
        layout: Layout::Interleaved,
        direction: Direction::BottomUp,
        address: 0x10_0000 + buffer * 0x1_0000,
        requested_bytes: 4096 * 12,
        per_bank_bytes: 4096,
        page_bytes: 2048,
        cores: CoresId::NONE,
        operation: text("BufferAllocated.operation"),
        banks: 12,
    };
    let stack = |buffer: u64| EventKind::StackNoted {
        mesh: MESH,
        buffer: BufferId(buffer),
        program: ProgramId(0),
        stack: text("StackNoted.stack"),
    };
    let mut kinds = Vec::new();
    for step in 0..STEPS {
        kinds.push(EventKind::Marked {
            name: text("Marked.name"),
            number: step,
        });
        kinds.push(buffer(10 + step, MESH, Class::Dram));
        kinds.push(stack(10 + step));
    }
    kinds.extend([
        buffer(1, MESH, Class::L1),
        buffer(2, OTHER_MESH, Class::Dram),
        EventKind::ProgramCreated {
            program,
            name: text("ProgramCreated.name"),
            runtime_id: 1,
            pointer: 1,
        },
        EventKind::KernelLoaded {
            mesh: MESH,
            program,
            kernel: KernelId(1),
            name: text("KernelLoaded.name"),
            binary_bytes: 4096,
            cores: CoresId(1),
            core_count: 0,
            kind: KernelKind::Application,
            core_type: CoreType::Tensix,
        },
        EventKind::CbAllocated {
            mesh: MESH,
            program,
            cb: 0,
            kind: CbKind::Local,
            address: 200_000,
            size_bytes: 4096,
            cores: CoresId(1),
        },
        EventKind::BinaryStatusChanged {
            mesh: MESH,
            program,
            status: BinaryStatus::Committed,
        },
        EventKind::Dispatched {
            mesh: MESH,
            program,
            runtime_id: 1,
            operation: text("Dispatched.operation"),
            program_cache: CacheResult::Miss,
            binary_reused: false,
            path: DispatchPath::Fast,
        },
        EventKind::JitDiskLookup {
            program,
            kernel: KernelId(1),
            name: text("JitDiskLookup.name"),
            hit: true,
        },
        EventKind::AllocationFailed {
            mesh: MESH,
            class: Class::Dram,
            banks: 12,
            requested_bytes: 1 << 40,
            per_bank_bytes: 1 << 36,
            free_bytes: 4096,
            largest_free_bytes: 4096,
            bank_bytes: 1_072_693_184,
            operation: text("AllocationFailed.operation"),
            call_first: 0,
        },
        EventKind::Clashed {
            mesh: MESH,
            program,
            kind: ClashKind::L1Buffer,
            cores: CoresId(1),
            region_end: 0x20_0000,
            limit: 0x11_0000,
            call_first: 0,
        },
        EventKind::NotTracked {
            what: text("NotTracked.what"),
            why: text("NotTracked.why"),
        },
        // What it holds on the other device is held at close.
        EventKind::MeshClosed { mesh: OTHER_MESH },
    ]);
    let events = (1..).zip(kinds);
    events
        .map(|(time, kind)| Event {
            time: time * 1_000_000,
            kind,
        })
        .collect()
}
