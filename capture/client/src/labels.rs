//! What a process says of where it runs: its job, its rank, its pod, its unit.
//!
//! Found once, by the pump, before it first greets a server. The environment is read from the kernel as the
//! program was started with it: the C library's may be changed by another thread while it is read. What is
//! missing or makes no sense gives no label, and nothing here can fail.

use crate::cgroup::{read, read_bytes};

use std::path::Path;

/// Labels of a process; a server takes no more.
const MOST: usize = 16;
/// The longest key, in bytes, and the longest value, in characters.
const LONGEST_KEY: usize = 32;
const LONGEST_VALUE: usize = 128;
/// Labels that are numbers, and the largest: no launcher starts more processes.
const NUMBERS: [&str; 3] = ["rank", "world_size", "local_rank"];
const MAX_WORLD: u32 = 1 << 20;
/// Bytes of the environment that are looked at.
const LONGEST_ENVIRONMENT: usize = 1 << 20;
/// Digits of a container's id, and those that are shown of it.
const CONTAINER_DIGITS: usize = 64;
const SHOWN_DIGITS: usize = 12;

/// Which variables a label is from: of several the first that is there.
const FROM_VARIABLES: [(&str, &[&str]); 9] = [
    ("job", &["SLURM_JOB_ID"]),
    ("step", &["SLURM_STEP_ID"]),
    ("rank", &["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"]),
    ("world_size", &["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]),
    ("local_rank", &["OMPI_COMM_WORLD_LOCAL_RANK"]),
    ("mesh", &["TT_MESH_ID"]),
    ("mesh_host_rank", &["TT_MESH_HOST_RANK"]),
    ("pod", &["POD_NAME"]),
    ("namespace", &["POD_NAMESPACE"]),
];

/// The same of a step of Slurm: outside of one they say nothing of this process.
const FROM_STEP: [(&str, &str); 3] = [
    ("rank", "SLURM_PROCID"),
    ("world_size", "SLURM_STEP_NUM_TASKS"),
    ("local_rank", "SLURM_LOCALID"),
];

type Label = (String, String);

/// All labels of this process; `added` are those of its user. What cannot be read is left out: `ttmem run` and
/// `ttmem doctor` name it.
pub(crate) fn found(added: Option<&str>) -> Vec<Label> {
    let environment = read_bytes(Path::new("/proc/self/environ"), LONGEST_ENVIRONMENT);
    let environment = environment.unwrap_or_default();
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let mut labels = found_in(&environment, &groups);
    let _complaints = add(&mut labels, added.unwrap_or_default());
    labels
}

/// What of `TTMEM_LABELS` is left out or cut, each in a sentence, as a process with it says.
pub(crate) fn refused_labels(added: &str) -> Vec<String> {
    add(&mut Vec::new(), added)
}

/// Adds the user's labels; what is wrong with them, and with what a launcher set.
fn add(labels: &mut Vec<Label>, added: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let shown = |text: &str| text.chars().take(LONGEST_VALUE).collect::<String>();
    for pair in added.split(',') {
        match parsed(pair) {
            Some((key, value)) => {
                if value.chars().count() > LONGEST_VALUE {
                    let cut = "is cut to its first";
                    complaints.push(format!(
                        "TTMEM_LABELS: {key} {cut} {LONGEST_VALUE} characters"
                    ));
                }
                put(labels, key, value);
            }
            None if pair.trim().is_empty() => {}
            None => complaints.push(format!(
                "TTMEM_LABELS: {:?} is not key=value, a key being at most {LONGEST_KEY} letters, digits and _; \
                 it is left out",
                shown(pair)
            )),
        }
    }
    for (key, value) in labels
        .iter()
        .filter(|(key, _)| NUMBERS.contains(&key.as_str()))
    {
        let number: Option<u32> = value.parse().ok();
        if number.is_none_or(|number| number > MAX_WORLD) {
            complaints.push(format!(
                "label {key}: {value:?} is not a number up to {MAX_WORLD}; it counts as no {key}"
            ));
        }
    }
    if labels.len() > MOST {
        let beyond: Vec<&str> = labels[MOST..].iter().map(|(key, _)| key.as_str()).collect();
        complaints.push(format!(
            "a process has {MOST} labels; left out: {}",
            shown(&beyond.join(", "))
        ));
        labels.truncate(MOST);
    }
    complaints
}

/// The labels that an environment and a list of control groups give.
fn found_in(environment: &[u8], groups: &str) -> Vec<Label> {
    let variable = |name: &str| {
        let mut variables = environment.split(|byte| *byte == 0);
        let value = variables.find_map(|variable| {
            let rest = variable.strip_prefix(name.as_bytes())?;
            rest.strip_prefix(b"=")
        });
        std::str::from_utf8(value?).ok().map(str::trim)
    };
    let mut labels = Vec::new();
    for (key, names) in FROM_VARIABLES {
        if let Some(value) = names.iter().find_map(|name| variable(name)) {
            put(&mut labels, key, value);
        }
    }
    if variable("SLURM_STEP_ID").is_some() {
        for (key, name) in FROM_STEP {
            let is_known = labels.iter().any(|(known, _value)| known == key);
            if let (Some(value), false) = (variable(name), is_known) {
                put(&mut labels, key, value);
            }
        }
    }
    let paths = || groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    if let (true, Some(pod), None) = (
        paths().any(|path| path.contains("kubepods")),
        variable("HOSTNAME"),
        variable("POD_NAME"),
    ) {
        put(&mut labels, "pod", pod);
    }
    if let Some(container) = paths().find_map(container) {
        put(&mut labels, "container", container);
    }
    if let Some(unit) = paths().find_map(unit) {
        put(&mut labels, "unit", unit);
    }
    labels
}

/// Adds a label, or replaces the one with its key.
fn put(labels: &mut Vec<Label>, key: &str, value: &str) {
    let value: String = value.chars().take(LONGEST_VALUE).collect();
    if value.is_empty() {
        return;
    }
    match labels.iter_mut().find(|(known, _value)| known == key) {
        Some(label) => label.1 = value,
        None => labels.push((key.to_owned(), value)),
    }
}

/// A pair of `TTMEM_LABELS`.
fn parsed(pair: &str) -> Option<(&str, &str)> {
    let (key, value) = pair.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    let mut bytes = key.bytes();
    let is_key = key.len() <= LONGEST_KEY
        && bytes.next()?.is_ascii_alphabetic()
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let can_be = is_key && !value.is_empty() && !value.contains(char::is_control);
    can_be.then_some((key, value))
}

/// The beginning of a container's id, as Docker, containerd, CRI-O and Podman put it into a path.
fn container(path: &str) -> Option<&str> {
    let mut parts = path.rsplit(|c: char| !c.is_ascii_hexdigit());
    let id = parts.find(|part| part.len() == CONTAINER_DIGITS)?;
    id.get(..SHOWN_DIGITS)
}

/// The innermost unit of a path, unless that is a container's.
fn unit(path: &str) -> Option<&str> {
    let mut parts = path.rsplit('/');
    parts.find(|part| {
        (part.ends_with(".service") || part.ends_with(".scope")) && container(part).is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f5e0c1b2a39485766f0e1d2c3b4a5968778695a4b3c2d1e0f9e8d7c6b5a4938";

    fn of(variables: &[&str], groups: &str) -> String {
        let labels = found_in(variables.join("\0").as_bytes(), groups);
        let mut labels: Vec<_> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        labels.sort();
        labels.join(" ")
    }

    #[test]
    fn launchers_are_understood() {
        let slurm = [
            "SLURM_JOB_ID=91",
            "SLURM_STEP_ID=0",
            "SLURM_PROCID=3",
            "SLURM_LOCALID=1",
            "SLURM_STEP_NUM_TASKS=8",
        ];
        assert_eq!(
            of(&slurm, ""),
            "job=91 local_rank=1 rank=3 step=0 world_size=8"
        );
        assert_eq!(
            of(&["SLURM_JOB_ID=91", "SLURM_PROCID=0"], ""),
            "job=91",
            "no step, no rank"
        );
        let tt_run = [
            "OMPI_COMM_WORLD_RANK=5",
            "OMPI_COMM_WORLD_SIZE=16",
            "OMPI_COMM_WORLD_LOCAL_RANK=1",
            "PMIX_RANK=77",
            "SLURM_STEP_ID=0",
            "SLURM_PROCID=0",
            "TT_MESH_ID=2",
            "TT_MESH_HOST_RANK=1",
        ];
        let expected = "local_rank=1 mesh=2 mesh_host_rank=1 rank=5 step=0 world_size=16";
        assert_eq!(of(&tt_run, ""), expected, "mpirun below a step of Slurm");
        assert_eq!(of(&["PMI_RANK=1", "PMI_SIZE=4"], ""), "rank=1 world_size=4");
        assert_eq!(
            of(&["XSLURM_JOB_ID=1", "SLURM_JOB_IDS=1", "PMI_RANK="], ""),
            ""
        );
    }

    #[test]
    fn control_groups_are_understood() {
        let short = &ID[..12];
        for (groups, expected) in [
            ("0::/\n".to_owned(), String::new()),
            (
                "0::/user.slice/user-1000.slice/session-3.scope".to_owned(),
                "unit=session-3.scope".to_owned(),
            ),
            (
                format!("0::/system.slice/docker-{ID}.scope"),
                format!("container={short}"),
            ),
            (
                format!("12:memory:/docker/{ID}\n0::/docker/{ID}"),
                format!("container={short}"),
            ),
            (
                format!("0::/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-{ID}.scope"),
                format!("container={short} pod=host-1"),
            ),
            (
                "0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0".to_owned(),
                "unit=slurmstepd.scope".to_owned(),
            ),
            (
                "1:name=systemd:/system.slice/model.service\nnonsense\n::".to_owned(),
                "unit=model.service".to_owned(),
            ),
            (format!("0::/{ID}0/{}", &ID[1..]), String::new()),
        ] {
            assert_eq!(of(&["HOSTNAME=host-1"], &groups), expected, "{groups}");
        }
        let pod = ["HOSTNAME=host-1", "POD_NAME=model-0", "POD_NAMESPACE=ml"];
        assert_eq!(of(&pod, "0::/kubepods/x"), "namespace=ml pod=model-0");
    }

    #[test]
    fn only_pairs_are_labels() {
        assert_eq!(parsed(" team = vision "), Some(("team", "vision")));
        assert_eq!(parsed("a=b=c"), Some(("a", "b=c")));
        let long = format!("{}=1", "k".repeat(33));
        for nonsense in [
            "",
            "=",
            "team",
            "team=",
            "=x",
            "9a=x",
            "a b=x",
            "a=\u{1b}[31m",
            &long,
        ] {
            assert_eq!(parsed(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn what_is_left_out_or_cut_is_said() {
        assert_eq!(refused_labels(""), [""; 0]);
        assert_eq!(refused_labels("team=vision, run=42,"), [""; 0]);
        assert_eq!(refused_labels("rank=0,world_size=1048576"), [""; 0]);
        let all = refused_labels("9a=x,rank=1048577,local_rank=first,team=vision");
        let expected = [
            "TTMEM_LABELS: \"9a=x\" is not key=value, a key being at most 32 letters, digits and _; \
             it is left out",
            "label rank: \"1048577\" is not a number up to 1048576; it counts as no rank",
            "label local_rank: \"first\" is not a number up to 1048576; it counts as no local_rank",
        ];
        assert_eq!(all, expected);
        let long = format!("note={}", "x".repeat(129));
        let cut = "TTMEM_LABELS: note is cut to its first 128 characters";
        assert_eq!(refused_labels(&long), [cut]);
        let many: Vec<String> = (0..18).map(|number| format!("k{number}=1")).collect();
        let beyond = "a process has 16 labels; left out: k16, k17";
        assert_eq!(refused_labels(&many.join(",")), [beyond]);
        // What a launcher set counts as well.
        let mut labels = found_in(b"PMI_RANK=none\0SLURM_JOB_ID=7", "");
        let complaints = add(&mut labels, "");
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(
            complaints[0].starts_with("label rank: \"none\""),
            "{complaints:?}"
        );
    }

    #[test]
    fn whatever_is_there_the_labels_are_few_and_short() {
        let long = "x".repeat(100_000);
        let environment = format!("POD_NAME={long}\0SLURM_JOB_ID=\u{ff}");
        assert_eq!(found_in(environment.as_bytes(), &long).len(), 2);
        assert_eq!(found_in(b"POD_NAME=\xff\xfe\0\0\0=\0", "").len(), 0);
        let added: Vec<String> = (0..50).map(|number| format!("k{number}={long}")).collect();
        let labels = found(Some(&added.join(",")));
        assert_eq!(labels.len(), MOST);
        let is_short = |(_key, value): &Label| value.len() <= LONGEST_VALUE;
        assert!(
            labels
                .iter()
                .filter(|(key, _)| key.starts_with('k'))
                .all(is_short)
        );
    }
}
