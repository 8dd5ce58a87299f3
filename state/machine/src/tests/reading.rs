use crate::files::{Ask, Found, Reader, Source, Unread};
use rustix::fs::{FileType, Mode, mknodat};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A driver in which files named `stuck*` hang until the door opens.
#[derive(Default)]
struct Hanging {
    is_open: Mutex<bool>,
    opened: Condvar,
    asked: AtomicUsize,
}

impl Hanging {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl Source for Hanging {
    fn ask(&self, ask: &Ask) -> io::Result<Found> {
        let name = ask.path().to_string_lossy().into_owned();
        if name.starts_with("stuck") {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let is_open = self.is_open.lock().unwrap();
            drop(
                self.opened
                    .wait_while(is_open, |is_open| !*is_open)
                    .unwrap(),
            );
        }
        Ok(Found::Texts(vec![name]))
    }
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[test]
fn a_read_that_hangs_costs_its_deadline_and_not_its_neighbours() {
    let source = Arc::new(Hanging::default());
    let mut reader = Reader::of(
        Arc::clone(&source) as Arc<dyn Source>,
        Duration::from_secs(2),
    );
    let read = |reader: &mut Reader| reader.texts(paths(&["a", "stuck", "b", "c"]));
    let text = |name: &str| Ok(name.to_owned());
    assert_eq!(
        read(&mut reader),
        [text("a"), Err(Unread::Hung), text("b"), text("c")]
    );
    assert_eq!(reader.stuck(), paths(&["stuck"]));
    // It is not asked for again while it hangs.
    for _round in 0..20 {
        assert_eq!(
            read(&mut reader),
            [text("a"), Err(Unread::Hung), text("b"), text("c")]
        );
    }
    assert_eq!(source.asked.load(Ordering::Relaxed), 1);
    source.open();
    // Its thread ends by itself, and then the file is read like any other.
    while !reader.stuck().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(
        read(&mut reader),
        [text("a"), text("stuck"), text("b"), text("c")]
    );
}

#[test]
fn the_number_of_reads_that_hang_is_bounded() {
    let source = Arc::new(Hanging::default());
    let mut reader = Reader::of(
        Arc::clone(&source) as Arc<dyn Source>,
        Duration::from_millis(5),
    );
    let names: Vec<PathBuf> = (0..100)
        .map(|number| PathBuf::from(format!("stuck{number}")))
        .collect();
    let answers = reader.texts(names);
    assert_eq!(answers.len(), 100);
    assert!(answers.iter().all(|answer| *answer == Err(Unread::Hung)));
    assert_eq!(reader.stuck().len(), 16);
    source.open();
}

#[test]
fn files_of_anybody_that_hang_leave_the_drivers_readable() {
    let source = Arc::new(Hanging::default());
    let mut reader = Reader::of(
        Arc::clone(&source) as Arc<dyn Source>,
        Duration::from_millis(50),
    );
    let made = |number: u64| Ask::Region(PathBuf::from(format!("stuck{number}")), number);
    let answers = reader.all((0..100).map(made).collect());
    assert!(
        answers
            .iter()
            .all(|answer| answer.as_ref().err() == Some(&Unread::Hung))
    );
    assert_eq!(reader.stuck().len(), 8);
    // On a busy machine any file may seem to hang.
    let read = (0..50).any(|_attempt| reader.text(PathBuf::from("value")).is_ok());
    assert!(read, "{reader:?}");
    source.open();
}

#[test]
fn a_pipe_a_folder_and_a_node_are_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let mut reader = super::patient();
    for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
        let read = reader.text(path.to_owned());
        assert!(matches!(read, Err(Unread::Malformed(_))), "{read:?}");
    }
    assert_eq!(reader.stuck(), paths(&[]));
    assert_eq!(
        reader.text(folder.path().join("none")),
        Err(Unread::Missing)
    );
    // Something else is where a folder should be: what is below it is not known.
    let below = reader.text(pipe.join("below"));
    let not_a_folder = rustix::io::Errno::NOTDIR.raw_os_error();
    assert_eq!(below, Err(Unread::Failed(not_a_folder)));
}
