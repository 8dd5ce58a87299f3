//! Memory that runs out under the preloaded library, at any of its requests.

use super::{AS_IT_IS, StandIn};
use crate::support::place::attach_library;
use crate::support::random::Random;
use std::fs::File;
use std::process::Command;

const STORIES: [&str; 8] = [
    "dispatches",
    "traces",
    "system_kernels",
    "slow",
    "exceptions",
    "blocks",
    "reopened",
    "elsewhere",
];

/// Requests of a story: more than most make.
const REQUESTS: usize = 300;

/// How a story ends, and what it says.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    code: Option<i32>,
    stdout: String,
}

impl StandIn {
    /// Plays a story to its end; also what was said on standard error.
    fn play(&self, story: &str, variables: &[(&str, &str)]) -> (Ended, String) {
        let told = self.folder.path().join("told");
        std::fs::write(&told, "\n".repeat(100)).expect("a file");
        let mut driver = Command::new(self.made.join("driver"));
        let driver = driver.arg(self.made.join("libstories.so")).arg(story);
        let driver = driver
            .env("TTMEM_SOCKET", self.folder.path().join("no-server"))
            .envs(variables.iter().copied());
        let driver = driver.stdin(File::open(&told).expect("just written"));
        let output = driver.output().expect("the driver starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let ended = Ended {
            code: output.status.code(),
            stdout: text(output.stdout),
        };
        (ended, text(output.stderr))
    }
}

#[test]
fn any_request_may_be_the_first_that_fails() {
    let Some(stand_in) = StandIn::build(AS_IT_IS) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let library = attach_library(folder.path());
    let library = library.to_str().expect("a path that is text");
    let is_many = std::env::var_os("TTMEM_TESTS_MEMORY").is_some();
    let mut random = Random::new(29);
    let mut off = 0;
    for story in STORIES {
        let (plain, _nothing) = stand_in.play(story, &[]);
        let some: Vec<usize> = (0..6).map(|_each| 1 + random.below(REQUESTS)).collect();
        let (requests, seeds) = if is_many {
            ((1..REQUESTS).collect(), 200)
        } else {
            (some, 1)
        };
        let from_one_on = requests.iter().map(ToString::to_string);
        // Each by itself.
        let at_random =
            (1..=seeds).flat_map(|seed| [3, 50].map(|one_in| format!("{seed}/{one_in}")));
        for failing in from_one_on.chain(at_random) {
            let (tracked, said) = stand_in.play(
                story,
                &[
                    ("LD_PRELOAD", library),
                    ("TTMEM_STACKS", "1"),
                    ("TTMEM_TEST_FAILING_REQUEST", &failing),
                ],
            );
            assert_eq!(tracked, plain, "{story}, request {failing}: {said}");
            let is_ours = said.lines().all(|line| line.starts_with("ttmem: "));
            assert!(is_ours, "{story}, request {failing}: {said}");
            off += usize::from(said.contains("there is no memory left for it"));
        }
    }
    // Builds for use have no failing requests.
    assert!(off > 0 || !cfg!(debug_assertions), "no request has failed");
}
