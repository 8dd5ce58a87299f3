//! `cargo xtask arrows`: the dependencies between crates follow the order of the folders.
//!
//! The tables below are the architecture, compared with what `cargo tree` prints. A crate in a folder
//! that is in no row fails the check, so that a new folder cannot slip past. Only linked crates count:
//! dev- and build-dependencies and procedural macros are left out.

use crate::command::{cargo, read, root};
use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A folder of crates, which may use all crates of other folders, and never reach some.
#[derive(Clone, Copy, Debug)]
struct Folder {
    name: &'static str,
    uses: &'static [&'static str],
    /// Crates of the registry, crates of the workspace by their paths, or whole folders.
    never: &'static [&'static str],
}

/// Linked into other people's processes: no async runtime, no serde, no logging framework.
const NOT_IN_A_USERS_PROCESS: &[&str] = &[
    "tokio",
    "serde",
    "serde_core",
    "tracing",
    "tracing-core",
    "log",
    "anyhow",
];

/// In the order of the arrows: a crate may only use folders above its own.
const FOLDERS: &[Folder] = &[
    Folder {
        name: "core",
        uses: &[],
        never: NOT_IN_A_USERS_PROCESS,
    },
    Folder {
        name: "capture",
        uses: &["core"],
        never: NOT_IN_A_USERS_PROCESS,
    },
    Folder {
        name: "state",
        uses: &["core"],
        never: &["tokio"],
    },
    Folder {
        name: "report",
        uses: &["core", "state"],
        never: &["tokio"],
    },
    Folder {
        name: "serve",
        uses: &["core", "capture", "state", "report"],
        never: &["capture/client", "capture/attach", "capture/capi"],
    },
    Folder {
        name: "show",
        uses: &["core", "capture", "state", "report", "serve"],
        never: &["tests"],
    },
    Folder {
        name: "tests",
        uses: &["core", "capture", "state", "report", "serve"],
        never: &["serve/server"],
    },
    Folder {
        name: "xtask",
        uses: &[],
        never: &[],
    },
];

/// The crates of its own folder that a crate may use.
const WITHIN: &[(&str, &[&str])] = &[
    ("core/account", &["core/event"]),
    ("capture/client", &["capture/ring"]),
    ("capture/capi", &["capture/client", "capture/ring"]),
    (
        "capture/attach",
        &["capture/client", "capture/pystack", "capture/ring"],
    ),
    ("state/record", &["state/ledger"]),
    ("serve/server", &["serve/reader"]),
    ("show/ttmem", &["show/tui"]),
];

/// What single crates must not reach although others of their folder may.
const NARROWER: &[(&str, &[&str])] = &[
    // Read CPython's memory and nothing else.
    ("capture/pystack", &["core"]),
    // Asks a server, and knows nothing of how one is built.
    ("serve/reader", &["core", "capture", "state"]),
    // Shows documents: knows neither the server nor what feeds it.
    ("show/tui", &["core", "capture", "state", "serve/server"]),
];

/// Compares every crate of the workspace with the tables.
pub(crate) fn run() -> anyhow::Result<()> {
    let workspace = root().display().to_string();
    let mut graphs = Vec::new();
    for name in members()? {
        let words = [
            "tree",
            "--edges",
            "normal,no-proc-macro",
            "--prefix",
            "depth",
        ];
        let tree = read(&mut cargo(words.into_iter().chain(["--package", &name])))?;
        graphs
            .push(Graph::parse(&tree, &workspace).with_context(|| format!("the tree of {name}"))?);
    }
    let faults = faults(&RULES, &graphs);
    if !faults.is_empty() {
        bail!("dependencies that must not be:\n  {}", faults.join("\n  "));
    }
    let own: BTreeSet<&str> = graphs.iter().map(|graph| graph.root.as_str()).collect();
    for graph in &graphs {
        let reached = graph.paths();
        let used = reached.keys().copied().filter(|name| own.contains(name));
        let used: Vec<&str> = used.collect();
        let others = reached.len() - used.len();
        let used = if used.is_empty() {
            "-".to_owned()
        } else {
            used.join(", ")
        };
        println!("{:<16} uses {used} and {others} others", graph.root);
    }
    println!("{} crates, every arrow points the right way", graphs.len());
    Ok(())
}

/// The crates of the workspace.
fn members() -> anyhow::Result<Vec<String>> {
    let words = ["tree", "--workspace", "--depth", "0", "--prefix", "none"];
    let roots = read(&mut cargo(words))?;
    let name = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let members: Vec<String> = roots.lines().filter_map(name).collect();
    if members.is_empty() {
        bail!("`cargo tree` names no crate of the workspace");
    }
    Ok(members)
}

/// A crate by its path below the workspace, or by its name.
fn crate_name<'a>(line: &'a str, workspace: &str) -> &'a str {
    let path = line.split_once(" (").map(|(_name, rest)| rest);
    let path = path.and_then(|rest| rest.strip_prefix(workspace)?.strip_prefix('/'));
    match path.and_then(|path| path.split_once(')')) {
        Some((path, _rest)) => path,
        None => line.split_whitespace().next().unwrap_or_default(),
    }
}

/// What a crate is linked with.
#[derive(Debug, Default)]
struct Graph {
    root: String,
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Reads the output of `cargo tree --prefix depth`: a depth and a crate on every line, those of the workspace with their paths.
    fn parse(tree: &str, workspace: &str) -> anyhow::Result<Self> {
        let mut graph = Self::default();
        let mut above: Vec<&str> = Vec::new();
        for line in tree.lines().filter(|line| !line.is_empty()) {
            let digits = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
            let (depth, rest) = line.split_at(digits);
            let depth: usize = depth.parse().with_context(|| format!("no depth: {line}"))?;
            let name = crate_name(rest, workspace);
            if name.is_empty() || depth > above.len() {
                bail!("not a line of a tree: {line}");
            }
            above.truncate(depth);
            match above.last() {
                Some(parent) => {
                    let uses = graph.edges.entry((*parent).to_owned()).or_default();
                    uses.insert(name.to_owned());
                }
                None => name.clone_into(&mut graph.root),
            }
            above.push(name);
        }
        if graph.root.is_empty() {
            bail!("the tree is empty");
        }
        Ok(graph)
    }

    /// Every crate that the root reaches, with a shortest way to it.
    fn paths(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut paths: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut open = VecDeque::from([vec![self.root.as_str()]]);
        while let Some(path) = open.pop_front() {
            let uses = path.last().and_then(|last| self.edges.get(*last));
            for name in uses.into_iter().flatten() {
                if *name == self.root || paths.contains_key(name.as_str()) {
                    continue;
                }
                let mut longer = path.clone();
                longer.push(name);
                paths.insert(name, longer.clone());
                open.push_back(longer);
            }
        }
        paths
    }
}

/// The tables.
struct Rules {
    folders: &'static [Folder],
    within: &'static [(&'static str, &'static [&'static str])],
    narrower: &'static [(&'static str, &'static [&'static str])],
}

const RULES: Rules = Rules {
    folders: FOLDERS,
    within: WITHIN,
    narrower: NARROWER,
};

impl Rules {
    /// Whether a crate in this folder may be linked with a crate of the workspace.
    fn allow(&self, folder: &Folder, root: &str, name: &str) -> bool {
        let other = folder_of(name);
        if other == folder.name {
            let own = self.within.iter().find(|(user, _used)| *user == root);
            return own.is_some_and(|(_user, used)| used.contains(&name));
        }
        folder.uses.contains(&other)
    }

    /// Whether a crate must not reach another, of the workspace or not.
    fn forbid(&self, folder: &Folder, root: &str, name: &str) -> bool {
        let narrower = self.narrower.iter().find(|(user, _never)| *user == root);
        let narrower = narrower.map_or(&[][..], |(_user, never)| never);
        let mut never = folder.never.iter().chain(narrower);
        never.any(|never| *never == name || *never == folder_of(name))
    }
}

/// The folder of a crate of the workspace, which is named by its path.
fn folder_of(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

/// Everything that the tables do not allow.
fn faults(rules: &Rules, graphs: &[Graph]) -> Vec<String> {
    let own: BTreeSet<&str> = graphs.iter().map(|graph| graph.root.as_str()).collect();
    let mut faults = Vec::new();
    for graph in graphs {
        let root = graph.root.as_str();
        let folder = rules
            .folders
            .iter()
            .find(|folder| folder.name == folder_of(root));
        let Some(folder) = folder else {
            faults.push(format!("{root} is in no folder of xtask/src/arrows.rs"));
            continue;
        };
        for (name, path) in graph.paths() {
            let is_allowed = !own.contains(name) || rules.allow(folder, root, name);
            if !is_allowed || rules.forbid(folder, root, name) {
                let path = path.join(" -> ");
                faults.push(format!("{root} must not reach {name}: {path}"));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests;
