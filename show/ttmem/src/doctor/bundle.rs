//! `ttmem doctor --bundle`: what was found, as an archive that can be given to others.
//!
//! Everything in it is chosen here, field by field, and has no names of processes, users and hosts, no commands, no
//! values of variables and no tokens; the redactor takes out what messages repeat all the same. The
//! list comes before the file: who sends it sees first what it has.

use super::redact::{Redactor, mount, plain, version};
use super::{Check, Facts, Findings, python, roots, text};
use crate::cli::{DoctorOptions, variables};
use crate::commands::reach;
use crate::exit::UsageError;
use crate::output::{Output, Screen};
use crate::run;
use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use nix::unistd::{User, geteuid};
use serde_json::{Map, Value, json};
use std::fs::Permissions;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::PersistError;
use ttmem_machine::{Bdf, Machine, Reader, Reading, Roots};
use ttmem_reader::ApiClient;
use ttmem_report::{ClassUsage, Device, Process, Snapshot, size_text};
use ttmem_tui::text::paragraph;

/// The folder in the archive, so that unpacking it makes no mess.
const FOLDER: &str = "ttmem-support";

/// Lines are as long as they are: an archive has no screen.
const PAGE: Screen = Screen {
    width: 100,
    color: false,
};

/// Variables that change what TT-Metal does; that they are set is said, and not to what.
const UPSTREAM_VARIABLES: &[&str] = &[
    "TT_METAL_HOME",
    "TT_METAL_CACHE",
    "TT_METAL_SHM_TRACKING_DISABLED",
    "TT_METAL_VISIBLE_DEVICES",
    "TT_VISIBLE_DEVICES",
    "TT_MESH_GRAPH_DESC_PATH",
    "LD_PRELOAD",
    "VIRTUAL_ENV",
];

/// One file of the archive.
struct Entry {
    name: &'static str,
    why: &'static str,
    bytes: Vec<u8>,
}

pub(super) fn run<W: Write>(
    path: &Path,
    options: &DoctorOptions,
    socket: Option<PathBuf>,
    screen: Screen,
    output: &mut Output<W>,
) -> Result<()> {
    if path == Path::new("-") {
        bail!(UsageError(
            "an archive is written to a file; - is none".to_owned()
        ));
    }
    if path.symlink_metadata().is_ok() {
        bail!(exists(path));
    }
    let entries = entries(options, socket)?;
    output.print(&listing(&entries, screen))?;
    output.flush()?;
    if !options.yes && !is_wanted(path)? {
        output.print("nothing was written\n")?;
        return Ok(());
    }
    let archive = packed(&entries)?;
    write_new(path, &archive)?;
    output.print(&format!(
        "{} was written: {}\n",
        path.display(),
        size_text(archive.len() as u64)
    ))?;
    Ok(())
}

fn exists(path: &Path) -> String {
    format!("{} exists already, and is left as it is", path.display())
}

fn listing(entries: &[Entry], screen: Screen) -> String {
    const SAYS: &str = "A support archive has no values of the environment, no tokens, no commands, and no names of \
                        processes, users and this host. Numbers of boards, chips, processes and users are in it. \
                        This one would have:";
    let width = screen.width.min(PAGE.width);
    let mut text = paragraph("", 0, SAYS.split_whitespace(), width);
    for entry in entries {
        let size = size_text(entry.bytes.len() as u64);
        let head = format!("  {:<14}{size:>9}  ", entry.name);
        text.push_str(&paragraph(&head, 27, entry.why.split_whitespace(), width));
    }
    text
}

/// Asks whoever sits there; nobody does in a script.
fn is_wanted(path: &Path) -> Result<bool> {
    let input = io::stdin();
    if !input.is_terminal() {
        bail!(UsageError(
            "nothing was written: --yes writes the archive where nobody can be asked".to_owned()
        ));
    }
    let mut errors = io::stderr();
    write!(errors, "write {}? [y/N] ", path.display())?;
    errors.flush()?;
    let mut answer = String::new();
    input.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn packed(entries: &[Entry]) -> io::Result<Vec<u8>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for entry in entries {
        // Of nobody: whose files these were is nobody's business.
        let mut header = tar::Header::new_ustar();
        header.set_size(entry.bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(now.as_ref().map_or(0, std::time::Duration::as_secs));
        header.set_uid(0);
        header.set_gid(0);
        let name = format!("{FOLDER}/{}", entry.name);
        archive.append_data(&mut header, name, entry.bytes.as_slice())?;
    }
    archive.into_inner()?.finish()
}

/// Writes a file that is not there yet, whole or not at all, for its owner alone.
fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _here => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".ttmem-bundle-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder)
        .with_context(cannot)?;
    file.write_all(bytes).with_context(cannot)?;
    file.as_file().sync_all().with_context(cannot)?;
    match file.persist_noclobber(path) {
        Ok(_file) => Ok(()),
        Err(PersistError { error, .. }) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!(exists(path))
        }
        Err(PersistError { error, .. }) => Err(error).with_context(cannot),
    }
}

fn entries(options: &DoctorOptions, socket: Option<PathBuf>) -> Result<Vec<Entry>> {
    let roots = roots(options);
    let redactor = redactor(options, socket.as_deref());
    let mut facts = Facts::read(&roots);
    without_names(&mut facts);
    let machine = machine(&facts.machine, &roots);
    let versions = versions(&facts.machine, options, &roots);
    let mut findings = facts.findings(options, socket.clone());
    redact(&mut findings, &redactor);
    let document = |mut value: Value| {
        redactor.document(&mut value);
        serde_json::to_string_pretty(&value).map(|text| (text + "\n").into_bytes())
    };
    let mut entries = vec![
        Entry {
            name: "checks.txt",
            why: "what `ttmem doctor` prints",
            bytes: text(&findings, PAGE).into_bytes(),
        },
        Entry {
            name: "doctor.json",
            why: "the same as JSON, with the driver's values and TT-Metal's counters, decoded",
            bytes: document(serde_json::to_value(&findings)?)?,
        },
        Entry {
            name: "versions.json",
            why: "of ttmem, kernel, driver and ttnn; which variables are set, without their values",
            bytes: document(versions)?,
        },
        Entry {
            name: "machine.json",
            why: "cards, parameters of the driver, huge pages, IOMMU, /dev/shm, namespaces",
            bytes: document(machine)?,
        },
    ];
    if options.root.is_none()
        && let Ok(socket) = reach::socket(socket)
    {
        let server = match ApiClient::new(socket).snapshot() {
            Ok(snapshot) => server(&snapshot),
            Err(error) => json!({"error": error.to_string()}),
        };
        entries.push(Entry {
            name: "server.json",
            why: "what the server counts: bytes of devices and of processes by their number",
            bytes: document(server)?,
        });
    }
    Ok(entries)
}

/// What is known here of paths, names and variables.
fn redactor(options: &DoctorOptions, socket: Option<&Path>) -> Redactor {
    let mut redactor = Redactor::default();
    let variable = |name: &str| std::env::var_os(name);
    if let Some(root) = &options.root {
        redactor.path(root, "");
    }
    if let Some(home) = variable("HOME") {
        redactor.path(Path::new(&home), "~");
    }
    // Where things were found: their folders may be named after anything.
    if let Some(installed) = python::find(variable) {
        redactor.path(&installed.folder, "[its folder]");
        redactor.version(&installed.version);
    }
    let named = variable("TTMEM_ATTACH_LIBRARY").map(PathBuf::from);
    if let Ok(library) = run::attach_library(named.as_deref())
        && !is_of_system(&library)
    {
        redactor.path(&library, "[its file]");
    }
    let program = std::env::current_exe().unwrap_or_default();
    for folder in program.ancestors().skip(1).take(2) {
        if !is_of_system(folder) {
            redactor.path(folder, "[ttmem's folder]");
        }
    }
    if let Some(socket) = socket.filter(|socket| !is_of_system(socket)) {
        redactor.path(socket, "[its socket]");
    }
    for user in users() {
        redactor.path(&user.dir, "~");
        redactor.name(&user.name, "user");
    }
    for name in ["USER", "LOGNAME", "SUDO_USER"] {
        let name = variable(name).unwrap_or_default();
        redactor.name(&name.to_string_lossy(), "user");
    }
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    redactor.name(&host, "host");
    redactor.name(host.split('.').next().unwrap_or_default(), "host");
    // The runtime folder is that of a number, and says which server was asked.
    let runtime = format!("/run/user/{}", geteuid());
    redactor.environment(std::env::vars_os().filter(|(_name, value)| *value != *runtime));
    redactor.settle();
    redactor
}

/// Folders that packages have, in which nobody keeps what is theirs.
fn is_of_system(path: &Path) -> bool {
    ["/usr", "/run", "/opt/tenstorrent"]
        .iter()
        .any(|folder| path.starts_with(folder))
}

/// Whoever runs this, and people that this machine lists itself.
fn users() -> Vec<User> {
    let listed = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = listed.lines().filter_map(|line| {
        let id = line.split(':').nth(2)?.parse::<u32>().ok()?;
        (1000..60_000).contains(&id).then_some(id)
    });
    let ids = [geteuid().as_raw()].into_iter().chain(ids);
    let users = ids.filter_map(|id| User::from_uid(id.into()).ok()?);
    users.collect()
}

/// Takes out what processes and drivers may have written as they like.
fn without_names(facts: &mut Facts) {
    let shorten = |reading: &mut Reading<String>| {
        if let Ok(text) = reading {
            *text = plain(text);
        }
    };
    shorten(&mut facts.machine.driver);
    let sample = &mut facts.sample;
    for device in sample.devices.iter_mut().flatten() {
        shorten(&mut device.card_type);
        shorten(&mut device.link.speed);
        shorten(&mut device.link.max_speed);
        device.firmware.values_mut().for_each(shorten);
        for holder in device.holders.iter_mut().flatten() {
            holder.name = None;
        }
    }
    for person in sample.people.values_mut() {
        person.name = None;
    }
    for region in sample.regions.iter_mut().flatten() {
        let Ok(content) = &mut region.content else {
            continue;
        };
        for process in &mut content.region.processes {
            process.name.clear();
        }
    }
}

fn redact(findings: &mut Findings, redactor: &Redactor) {
    for Check { found, remedy, .. } in &mut findings.checks {
        *found = redactor.text(found);
        *remedy = remedy.take().map(|remedy| redactor.text(&remedy));
    }
}

fn versions(machine: &Machine, options: &DoctorOptions, roots: &Roots) -> Value {
    let mut reader = Reader::default();
    let mut line = |path: &str| {
        let text = reader.text(roots.path(path));
        text.map(|text| plain(text.lines().next().unwrap_or_default()))
    };
    let kernel = shown(&line("/proc/sys/kernel/osrelease"));
    let mut versions = json!({
        "ttmem": env!("CARGO_PKG_VERSION"),
        "kernel": kernel,
        "driver": shown(&machine.driver),
        "system": system(&mut reader, roots),
    });
    if options.root.is_none() {
        let ttnn = python::find(|name| std::env::var_os(name));
        let ttnn = ttnn.map(
            |ttnn| json!({"version": version(&ttnn.version), "python": format!("3.{}", ttnn.minor)}),
        );
        let set = variables().chain(UPSTREAM_VARIABLES.iter().copied());
        let set = set.filter(|name| std::env::var_os(name).is_some());
        versions["ttnn"] = json!(ttnn);
        versions["architecture"] = json!(std::env::consts::ARCH);
        versions["variables_set"] = json!(set.collect::<Vec<_>>());
    }
    versions
}

/// The distribution, by the two words that name it.
fn system(reader: &mut Reader, roots: &Roots) -> Value {
    let text = reader
        .text(roots.path("/etc/os-release"))
        .unwrap_or_default();
    let word = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.map(|value| plain(value.trim_matches('"')))
    };
    json!({"id": word("ID="), "version": word("VERSION_ID=")})
}

/// A value, or why there is none.
fn shown<T: serde::Serialize>(reading: &Reading<T>) -> Value {
    match reading {
        Ok(value) => json!(value),
        Err(why) => json!({"unread": why.to_string()}),
    }
}

fn machine(machine: &Machine, roots: &Roots) -> Value {
    let mut reader = Reader::default();
    let folder = roots.path("/sys/module/tenstorrent/parameters");
    let names = reader.names(folder.clone()).unwrap_or_default();
    let names: Vec<String> = names
        .into_iter()
        .filter(|name| *name == plain(name))
        .collect();
    let values = reader.texts(names.iter().map(|name| folder.join(name)).collect());
    let values = values
        .into_iter()
        .map(|value| shown(&value.map(|text| plain(&text))));
    let parameters: Map<String, Value> = names.into_iter().zip(values).collect();
    let addresses = |cards: &[String]| {
        let cards = cards.iter().filter_map(|card| card.parse::<Bdf>().ok());
        cards.map(|card| card.to_string()).collect::<Vec<_>>()
    };
    let spaces = &machine.namespaces;
    let nodes = machine.nodes.iter();
    let mounts = machine.huge_page_mounts.iter();
    json!({
        "cards": shown(&machine.cards.clone().map(|cards| addresses(&cards))),
        "driver_parameters": parameters,
        "nodes": nodes.map(|node| json!({"ordinal": node.ordinal, "may_use": shown(&node.may_use)})).collect::<Vec<_>>(),
        "huge_pages_of_1_gib": {"total": shown(&machine.huge_pages.total), "free": shown(&machine.huge_pages.free)},
        "huge_page_mounts": mounts.map(|found| mount(&found.place)).collect::<Vec<_>>(),
        "cards_without_iommu": addresses(&machine.untranslated),
        "dev_shm": machine.shm.as_ref().map(|mount| json!({"kind": plain(&mount.kind), "free_bytes": mount.free_bytes})),
        "first_namespaces": {
            "pid": shown(&spaces.is_first_pid),
            "ipc": shown(&spaces.is_first_ipc),
            "user": shown(&spaces.is_first_user),
        },
    })
}

/// What a server counts. It may be anybody's: of its texts only those are taken that look like what they are.
fn server(snapshot: &Snapshot) -> Value {
    let server = &snapshot.server;
    let anomalies = snapshot.anomalies.seen();
    let anomalies: Map<String, Value> = anomalies
        .map(|(name, count)| (plain(name), json!(count)))
        .collect();
    json!({
        "version": plain(&server.version),
        "uptime_seconds": server.uptime_seconds,
        "clients": server.clients,
        "clients_limit": server.clients_limit,
        "clients_refused": server.clients_refused,
        "events_applied": server.events_applied,
        "events_lost": server.events_lost,
        "events_elided": server.events_elided,
        "log_lines_elided": server.log_lines_elided,
        "marks": snapshot.marks.len(),
        "errors": snapshot.errors.len(),
        "failures": snapshot.failures.count,
        "anomalies": anomalies,
        "devices": snapshot.devices.iter().map(of_device).collect::<Vec<_>>(),
        "processes": snapshot.processes.iter().map(of_process).collect::<Vec<_>>(),
    })
}

fn of_device(device: &Device) -> Value {
    let text = |text: &Option<String>| text.as_deref().map(plain);
    let class = |class: &ClassUsage| {
        json!({
            "capacity_bytes": class.capacity_bytes,
            "banks": class.banks,
            "charged_bytes": class.charged_bytes,
            "peak_bytes": class.peak_bytes,
            "buffers": class.buffers,
            "largest_free_bytes_per_bank": class.largest_free_bytes_per_bank,
        })
    };
    json!({
        "id": device.id,
        "unique_id": device.unique_id,
        "arch": text(&device.arch),
        "board": text(&device.board),
        "remote": device.remote,
        "source": device.source,
        "verified": device.verified,
        "dram": class(&device.dram),
        "l1": class(&device.l1),
        "l1_small": class(&device.l1_small),
        "trace": class(&device.trace),
        "cb_resident_bytes": device.cb.resident_bytes,
        "kernel_resident_bytes": device.kernel.resident_bytes,
        "cb_headroom_bytes": device.cb_headroom_bytes,
        "failures": device.failures,
    })
}

fn of_process(process: &Process) -> Value {
    let reasons = process.incomplete_reasons.iter();
    let reasons =
        reasons.map(|reason| json!({"reason": plain(&reason.reason), "count": reason.count}));
    let devices = process.devices.iter().map(|device| {
        json!({
            "id": device.id,
            "buffer_bytes": device.buffer_bytes(),
            "cb_bytes": device.cb_bytes,
            "kernel_bytes": device.kernel_bytes,
            "buffers": device.buffers,
        })
    });
    let released = process.released.as_ref();
    json!({
        "pid": process.pid,
        "uid": process.uid,
        "state": process.state,
        "source": process.source,
        "incomplete_reasons": reasons.collect::<Vec<_>>(),
        "resyncing": process.resyncing,
        "lost_events": process.lost_events,
        "elided_events": process.elided_events,
        "anomalies": process.anomalies,
        "connections": process.connections,
        "devices": devices.collect::<Vec<_>>(),
        "released": released.map(|released| json!({"bytes": released.bytes, "reason": plain(&released.reason)})),
    })
}
