//! Replays the kept inputs of the fuzz target `wire_frames`.

use std::fs;
use std::path::Path;

use crate::fuzz::check_frames;

#[test]
fn kept_inputs_keep_every_promise() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/wire_frames");
    let mut replayed = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is in the repository") {
        let input = fs::read(entry.unwrap().path()).unwrap();
        check_frames(&input);
        replayed += 1;
    }
    assert!(
        replayed >= 12,
        "only {replayed} inputs in {}",
        corpus.display()
    );
}
