//! Replays the kept inputs of the fuzz target `legacy_framer`.

use std::fs;
use std::path::Path;

use crate::fuzz::check_framer;

#[test]
fn kept_inputs_keep_every_promise() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/legacy_framer");
    let mut replayed = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is in the repository") {
        let input = fs::read(entry.unwrap().path()).unwrap();
        check_framer(&input);
        replayed += 1;
    }
    assert!(
        replayed >= 12,
        "only {replayed} inputs in {}",
        corpus.display()
    );
}
