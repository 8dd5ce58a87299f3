//! Behaviours: what a program does must not depend on whether it is tracked.
//!
//! Each program of the folder `python/behaviours` is run twice on the same board, plain and
//! under the real `ttmem run`. How it ends, what it prints and what it tells must be equal;
//! and the report must say of the tracked run what the program itself says that it did.
//!
//! * [`run_behaviour`] runs such a pair.
//! * `setting` is where both take place: the same board, and nobody else's files.
//! * `expectation` compares a report with what the program says of itself.
//! * `outcome` and `normal` are what is compared, without what differs between any two runs.

mod expectation;
mod normal;
mod outcome;
mod pair;
mod setting;

pub(crate) use outcome::Outcome;
pub use pair::run_behaviour;

/// How the second run of a program is tracked, and how both are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By `ttmem run`, with the server that it starts.
    Run,
    /// By `ttmem run`, with the report at the end of standard error instead of in a file.
    Stderr,
    /// By `ttmem run` with a server that runs already.
    RunningServer,
    /// By `ttmem run`, which like the plain program gets SIGINT when the program is ready.
    Interrupted,
    /// By `ttmem run` in a terminal, where Ctrl-C is typed when the program is ready.
    Terminal,
    /// By what `ttmem env` prints, in a shell, with a server that runs already.
    Shell,
}

/// A program that is run twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    pub name: &'static str,
    /// Its command: a file of `python/behaviours`, or a program that is no Python.
    pub program: &'static str,
    /// Its words, after the two files for what it tells.
    pub words: &'static [&'static str],
    pub variables: &'static [(&'static str, &'static str)],
    pub way: Way,
    /// Whether a library of the user's is preloaded both times.
    pub own_library: bool,
    /// Whether it finds no kernel compiled, both times.
    pub cold_kernels: bool,
}

/// The variable that turns the runtime's own figures in shared memory off.
const SHM_VARIABLE: &str = "TT_METAL_SHM_TRACKING_DISABLED";

impl Behaviour {
    const fn new(
        name: &'static str,
        program: &'static str,
        words: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            program,
            words,
            variables: &[],
            way: Way::Run,
            own_library: false,
            cold_kernels: false,
        }
    }

    const fn with(self, variables: &'static [(&'static str, &'static str)]) -> Self {
        Self { variables, ..self }
    }

    const fn by(self, way: Way) -> Self {
        Self { way, ..self }
    }

    const fn with_own_library(self) -> Self {
        Self {
            own_library: true,
            ..self
        }
    }

    const fn without_kernels(self) -> Self {
        Self {
            cold_kernels: true,
            ..self
        }
    }

    /// Whether it uses ttnn, and so must be tracked.
    fn is_python(self) -> bool {
        self.program.ends_with(".py")
    }
}

pub const BEHAVIOURS: [Behaviour; 31] = [
    Behaviour::new("ends-return", "endings.py", &["return", "freed"]),
    Behaviour::new("ends-exit-3", "endings.py", &["exit-3", "freed"]),
    Behaviour::new("ends-exception", "endings.py", &["exception", "freed"]),
    Behaviour::new("ends-os-exit", "endings.py", &["os-exit", "freed"]),
    Behaviour::new("ends-sigterm", "endings.py", &["sigterm", "freed"]),
    Behaviour::new("ends-sigkill", "endings.py", &["sigkill", "freed"]),
    Behaviour::new("ends-abort", "endings.py", &["abort", "freed"]),
    Behaviour::new("alive-return", "endings.py", &["return", "alive"]),
    Behaviour::new("alive-exception", "endings.py", &["exception", "alive"]),
    Behaviour::new("open-return", "endings.py", &["return", "open"]),
    Behaviour::new("open-exception", "endings.py", &["exception", "open"]),
    Behaviour::new("open-os-exit", "endings.py", &["os-exit", "open"]),
    Behaviour::new("open-sigkill", "endings.py", &["sigkill", "open"]),
    Behaviour::new("open-abort", "endings.py", &["abort", "open"]),
    Behaviour::new("refusals", "refusals.py", &[]),
    Behaviour::new("regions", "regions.py", &[]),
    Behaviour::new("captures", "captures.py", &[]),
    Behaviour::new("shm-usual", "upstream_files.py", &[]),
    Behaviour::new("shm-on", "upstream_files.py", &[]).with(&[(SHM_VARIABLE, "0")]),
    Behaviour::new("shm-off", "upstream_files.py", &[]).with(&[(SHM_VARIABLE, "1")]),
    Behaviour::new("children-exit", "children.py", &["exits"]),
    Behaviour::new("children-spawn", "children.py", &["spawn"]),
    Behaviour::new("children-fork", "children.py", &["fork"]),
    Behaviour::new("compilers", "compilers.py", &[]).without_kernels(),
    Behaviour::new("interrupted", "interrupted.py", &[]).by(Way::Interrupted),
    Behaviour::new("ctrl-c", "interrupted.py", &[]).by(Way::Terminal),
    Behaviour::new("own-library", "small_work.py", &["report", "own-library"]).with_own_library(),
    Behaviour::new("report-on-stderr", "small_work.py", &["report"]).by(Way::Stderr),
    Behaviour::new("running-server", "small_work.py", &["report"]).by(Way::RunningServer),
    Behaviour::new("shell", "small_work.py", &["snapshot"]).by(Way::Shell),
    Behaviour::new("no-runtime", "ls", &["-d", "/"]),
];

/// The word that names all of them.
const ALL: &str = "behaviours";

/// The behaviours among some words, and the words that name none.
///
/// Without any word all of them are meant; with words, those that are named.
#[must_use]
pub fn select<'w>(words: &[&'w str]) -> (Vec<Behaviour>, Vec<&'w str>) {
    let names = |word: &str, behaviour: &Behaviour| word == ALL || word == behaviour.name;
    let chosen = BEHAVIOURS
        .into_iter()
        .filter(|behaviour| words.is_empty() || words.iter().any(|word| names(word, behaviour)));
    let others = words
        .iter()
        .copied()
        .filter(|word| !BEHAVIOURS.iter().any(|behaviour| names(word, behaviour)));
    (chosen.collect(), others.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_program_is_there_and_names_are_names_of_one() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/behaviours");
        let mut names = BTreeSet::from([ALL]);
        for behaviour in BEHAVIOURS {
            assert!(names.insert(behaviour.name), "{}", behaviour.name);
            if behaviour.is_python() {
                let path = folder.join(behaviour.program);
                assert!(path.exists(), "{}", path.display());
            }
        }
    }

    #[test]
    fn words_choose_behaviours_and_the_rest_is_left() {
        let chosen = |words: &[&str]| select(words).0.len();
        assert_eq!(chosen(&[]), BEHAVIOURS.len());
        assert_eq!(chosen(&["behaviours"]), BEHAVIOURS.len());
        assert_eq!(chosen(&["captures", "n150", "ctrl-c"]), 2);
        assert_eq!(chosen(&["n150"]), 0);
        assert_eq!(select(&["captures", "n150", "x"]).1, ["n150", "x"]);
    }
}
