//! `cargo xtask arrows`: the dependencies between crates point one way.
//!
//! The table below is the architecture; what `cargo tree` says is held against
//! it. A crate that is in no row of the table fails the check, so that a new one
//! cannot slip past; a row whose crate does not exist (yet) is no fault. Only
//! what is linked counts: dev- and build-dependencies and procedural macros are
//! left out.

use crate::command::{cargo, read};
use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a crate may use of the workspace.
#[derive(Clone, Copy, Debug)]
enum Own {
    Any,
    Only(&'static [&'static str]),
}

/// A row of the table: a crate, what it may use of the workspace, what it must never reach.
type Rule = (&'static str, Own, &'static [&'static str]);

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

/// Shows what the read API says: knows neither the server nor what feeds it.
const NOT_IN_A_VIEWER: &[&str] = &["ttmem-server", "ttmem-client", "ttmem-ring"];

const RULES: &[Rule] = {
    use Own::{Any, Only};
    const CLIENT: &[&str] = &["ttmem-event", "ttmem-account", "ttmem-ring", "ttmem-client"];
    &[
        ("ttmem-event", Only(&[]), NOT_IN_A_USERS_PROCESS),
        (
            "ttmem-account",
            Only(&["ttmem-event"]),
            NOT_IN_A_USERS_PROCESS,
        ),
        ("ttmem-ring", Only(&["ttmem-event"]), NOT_IN_A_USERS_PROCESS),
        (
            "ttmem-client",
            Only(&["ttmem-event", "ttmem-account", "ttmem-ring"]),
            NOT_IN_A_USERS_PROCESS,
        ),
        ("ttmem-capi", Only(CLIENT), NOT_IN_A_USERS_PROCESS),
        ("ttmem-pystack", Only(&[]), NOT_IN_A_USERS_PROCESS),
        (
            "ttmem-attach",
            Only(&[
                "ttmem-event",
                "ttmem-account",
                "ttmem-ring",
                "ttmem-client",
                "ttmem-pystack",
            ]),
            NOT_IN_A_USERS_PROCESS,
        ),
        ("ttmem-sim", Only(&["ttmem-event"]), &[]),
        ("ttmem-ledger", Only(&["ttmem-event", "ttmem-account"]), &[]),
        (
            "ttmem-record",
            Only(&["ttmem-event", "ttmem-account", "ttmem-ledger"]),
            &[],
        ),
        ("ttmem-api", Only(&[]), &[]),
        ("ttmem-host", Only(&["ttmem-event"]), NOT_IN_A_VIEWER),
        ("ttmem-explain", Only(&["ttmem-api"]), NOT_IN_A_VIEWER),
        (
            "ttmem-server",
            Only(&[
                "ttmem-event",
                "ttmem-account",
                "ttmem-ring",
                "ttmem-ledger",
                "ttmem-record",
                "ttmem-api",
                "ttmem-explain",
                "ttmem-host",
            ]),
            &[],
        ),
        ("ttmem-tui", Only(&["ttmem-api"]), NOT_IN_A_VIEWER),
        ("ttmem", Any, &[]),
        (
            "ttmem-bench",
            Only(&[
                "ttmem-event",
                "ttmem-account",
                "ttmem-ring",
                "ttmem-client",
                "ttmem-api",
                "ttmem-ledger",
                "ttmem-record",
                "ttmem-sim",
                "ttmem-host",
            ]),
            &[],
        ),
        ("ttmem-ttnn", Only(&["ttmem-event"]), &[]),
        ("xtask", Only(&[]), &[]),
    ]
};

/// Holds every crate of the workspace against the table.
pub(crate) fn run() -> anyhow::Result<()> {
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
        graphs.push(Graph::parse(&tree).with_context(|| format!("the tree of {name}"))?);
    }
    let faults = faults(RULES, &graphs);
    if !faults.is_empty() {
        bail!("dependencies that must not be:\n  {}", faults.join("\n  "));
    }
    let own: BTreeSet<&str> = graphs.iter().map(|graph| graph.root.as_str()).collect();
    for graph in &graphs {
        let reached = graph.paths();
        let used: Vec<&str> = reached
            .keys()
            .copied()
            .filter(|name| own.contains(name))
            .collect();
        let others = reached.len() - used.len();
        let used = if used.is_empty() {
            "-".to_owned()
        } else {
            used.join(", ")
        };
        println!("{:<14} uses {used} and {others} others", graph.root);
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

/// What a crate is linked with.
#[derive(Debug, Default)]
struct Graph {
    root: String,
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Reads the output of `cargo tree --prefix depth`: a depth and a name on every line.
    fn parse(tree: &str) -> anyhow::Result<Self> {
        let mut graph = Self::default();
        let mut above: Vec<&str> = Vec::new();
        for line in tree.lines().filter(|line| !line.is_empty()) {
            let digits = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
            let (depth, rest) = line.split_at(digits);
            let depth: usize = depth.parse().with_context(|| format!("no depth: {line}"))?;
            let name = rest.split_whitespace().next().unwrap_or_default();
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

/// Everything that the table does not allow.
fn faults(rules: &[Rule], graphs: &[Graph]) -> Vec<String> {
    let own: BTreeSet<&str> = graphs.iter().map(|graph| graph.root.as_str()).collect();
    let mut faults = Vec::new();
    for graph in graphs {
        let root = graph.root.as_str();
        let rule = rules.iter().find(|(name, _own, _forbidden)| *name == root);
        let Some((_name, may_use, forbidden)) = rule else {
            faults.push(format!(
                "{root} is in no row of the table in xtask/src/arrows.rs"
            ));
            continue;
        };
        for (name, path) in graph.paths() {
            let is_allowed = match may_use {
                Own::Any => true,
                Own::Only(allowed) => !own.contains(name) || allowed.contains(&name),
            };
            if !is_allowed || forbidden.contains(&name) {
                let path = path.join(" -> ");
                faults.push(format!(
                    "{root} must not reach {name}: {path}\n    \
                     (see `cargo tree -e normal -p {root} -i {name}`)"
                ));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests;
