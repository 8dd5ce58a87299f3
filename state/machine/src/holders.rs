//! Who has a device open: as the driver counts, and as far as permitted from the descriptors of processes.

use crate::files::{Reader, Reading, Unread};
use crate::roots::Roots;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A process with a device open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: i32,
    /// How many descriptors it has of the device.
    pub descriptors: u32,
    /// The name of its main thread, if this user may know.
    pub name: Option<String>,
}

/// The driver's own list of who has a device open.
pub(crate) fn holders_path(roots: &Roots, ordinal: u32) -> PathBuf {
    roots.path(&format!("/proc/driver/tenstorrent/{ordinal}/pids"))
}

/// Holders of a device by that list.
pub fn holders(roots: &Roots, reader: &mut Reader, ordinal: u32) -> Reading<Vec<Holder>> {
    let mut found = holders_in(&reader.text(holders_path(roots, ordinal))?)?;
    let names = names_of(
        roots,
        reader,
        found.iter().map(|holder| holder.pid).collect(),
    );
    for holder in &mut found {
        holder.name = names.get(&holder.pid).cloned();
    }
    Ok(found)
}

/// Holders by the text of that list, without their names.
///
/// It has a line per descriptor and numbers as of our namespace; 0 is a process outside of it.
pub(crate) fn holders_in(text: &str) -> Reading<Vec<Holder>> {
    let mut counts: BTreeMap<i32, u32> = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let pid = line.parse::<i32>().ok().filter(|pid| *pid >= 0);
        let pid = pid.ok_or_else(|| Unread::Malformed("pids".to_owned()))?;
        let count = counts.entry(pid).or_default();
        *count = count.saturating_add(1);
    }
    Ok(unnamed(counts))
}

fn unnamed(counts: BTreeMap<i32, u32>) -> Vec<Holder> {
    let holder = |(pid, descriptors)| Holder {
        pid,
        descriptors,
        name: None,
    };
    counts.into_iter().map(holder).collect()
}

/// The names of the main threads of some processes, of those that this user may know.
pub(crate) fn names_of(
    roots: &Roots,
    reader: &mut Reader,
    pids: BTreeSet<i32>,
) -> BTreeMap<i32, String> {
    let path = |pid: &i32| roots.path(&format!("/proc/{pid}/comm"));
    let names = reader.texts(pids.iter().map(path).collect());
    let shown = |name: String| name.replace(char::is_control, "\u{fffd}");
    let known = pids.into_iter().zip(names);
    let known = known.filter_map(|(pid, name)| Some((pid, shown(name.ok()?))));
    known.collect()
}

/// What the descriptors of all processes say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenFiles {
    /// By ordinal.
    pub holders: BTreeMap<u32, Vec<Holder>>,
    /// Processes whose descriptors this user may not see.
    pub hidden: u32,
    /// Processes whose descriptors could not be read for another reason.
    pub unread: Vec<(i32, Unread)>,
}

/// Looks through the descriptors of every process; the only way to holders before driver 2.5.0.
pub fn open_files(roots: &Roots, reader: &mut Reader) -> Reading<OpenFiles> {
    let mut found: BTreeMap<u32, BTreeMap<i32, u32>> = BTreeMap::new();
    let mut hidden = 0;
    let mut unread = Vec::new();
    for name in reader.names(roots.path("/proc"))? {
        let Ok(pid) = name.parse::<i32>() else {
            continue;
        };
        let descriptors = match descriptors(roots, reader, pid) {
            Ok(descriptors) => descriptors,
            Err(Unread::Denied) => {
                hidden += 1;
                continue;
            }
            Err(error) if has_ended(&error) => continue,
            Err(error) => {
                unread.push((pid, error));
                continue;
            }
        };
        for target in reader.links(descriptors) {
            let Ok(target) = target else { continue };
            let ordinal = target.strip_prefix("/dev/tenstorrent/");
            if let Some(ordinal) = ordinal.and_then(|text| text.parse().ok()) {
                let count = found.entry(ordinal).or_default().entry(pid).or_default();
                *count += 1;
            }
        }
    }
    let holders = found
        .into_iter()
        .map(|(ordinal, counts)| (ordinal, unnamed(counts)));
    let mut holders: BTreeMap<u32, Vec<Holder>> = holders.collect();
    let pids = holders.values().flatten().map(|holder| holder.pid);
    let names = names_of(roots, reader, pids.collect());
    for holder in holders.values_mut().flatten() {
        holder.name = names.get(&holder.pid).cloned();
    }
    Ok(OpenFiles {
        holders,
        hidden,
        unread,
    })
}

/// What a process has open. Where its first thread has ended it shows none: the others still have them.
fn descriptors(roots: &Roots, reader: &mut Reader, pid: i32) -> Reading<Vec<PathBuf>> {
    let all = |reader: &mut Reader, folder: PathBuf| -> Reading<Vec<PathBuf>> {
        let names = reader.names(folder.clone())?;
        Ok(names.iter().map(|name| folder.join(name)).collect())
    };
    let process = roots.path(&format!("/proc/{pid}"));
    let found = all(reader, process.join("fd"))?;
    if !found.is_empty() {
        return Ok(found);
    }
    // All threads share them: the first that shows some is enough.
    for thread in reader.names(process.join("task"))? {
        match all(reader, process.join("task").join(thread).join("fd")) {
            Ok(found) if found.is_empty() => {}
            Err(error) if has_ended(&error) => {}
            found => return found,
        }
    }
    Ok(Vec::new())
}

/// Whether a file is not there for the end of its process or thread.
fn has_ended(error: &Unread) -> bool {
    *error == Unread::Missing || *error == Unread::Failed(Errno::SRCH.raw_os_error())
}
