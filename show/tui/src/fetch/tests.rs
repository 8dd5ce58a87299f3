//! What is asked for when, of a server that writes down what it was asked.

use super::*;
use crate::testing::world::{NOW, Names, World, ago};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Mutex;
use std::time::Instant;
use ttmem_report::{History, RecordingSource, Snapshot, Timestamp};

const WORLD: World = World {
    devices: 1,
    processes: 1,
    busy: false,
    names: Names::Usual,
};

/// Answers with the documents of the world, and keeps the targets of all requests.
struct Asked {
    folder: std::path::PathBuf,
    targets: Arc<Mutex<Vec<String>>>,
}

impl Asked {
    fn serve(name: &str, source: Option<RecordingSource>) -> (Self, Fetcher) {
        let folder = std::env::temp_dir().join(format!("ttmem-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let socket = folder.join("ttmem.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let targets = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&targets);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let _closed = answer(stream, source, &kept);
            }
        });
        let fetcher = Fetcher::start(ApiClient::new(&socket), Duration::from_millis(20));
        (Self { folder, targets }, fetcher.expect("threads"))
    }

    fn targets(&self) -> Vec<String> {
        self.targets.lock().expect("not poisoned").clone()
    }

    /// How often each kind of document was asked for, of now and of an instant.
    fn count(&self, part: &str) -> usize {
        let targets = self.targets();
        targets
            .iter()
            .filter(|target| target.contains(part))
            .count()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.folder);
    }
}

fn answer(
    mut stream: UnixStream,
    source: Option<RecordingSource>,
    kept: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
    kept.lock().expect("not poisoned").push(target.clone());
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let (mut totals, mut history): (Option<Snapshot>, Option<History>) = (None, None);
    for update in WORLD.updates() {
        match update {
            Update::Snapshot(snapshot) => totals = Some(*snapshot),
            Update::Recent(recent) => history = Some(recent),
            _other => {}
        }
    }
    let path = target.split('?').next().unwrap_or_default();
    let body = match path {
        "/api/v1/snapshot" => serde_json::to_string(&totals),
        "/api/v1/problems" => serde_json::to_string(&WORLD.problems(NOW)),
        "/api/v1/history" => serde_json::to_string(&history),
        "/api/v1/recording" => match source {
            Some(source) => serde_json::to_string(&WORLD.recording(source)),
            None => Ok(String::new()),
        },
        _other => Ok(String::new()),
    };
    let body = body.map_err(std::io::Error::other)?;
    let status = if body.is_empty() {
        "404 Not Found"
    } else {
        "200 OK"
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// Takes updates until one is as wanted.
fn wait_for(fetcher: &Fetcher, wanted: impl Fn(&Update) -> bool) -> Update {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        match fetcher.next().expect("its threads run") {
            Some(update) if wanted(&update) => return update,
            Some(_other) => {}
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    panic!("it did not come");
}

fn settings(at: Option<Timestamp>) -> Settings {
    Settings {
        at,
        interval: Duration::from_millis(20),
        ..Settings::default()
    }
}

#[test]
fn of_a_file_everything_is_asked_for_once() {
    let (asked, fetcher) = Asked::serve("file", Some(RecordingSource::File));
    wait_for(&fetcher, |update| matches!(update, Update::Problems(_)));
    // Many intervals long.
    std::thread::sleep(Duration::from_millis(400));
    for part in ["recording", "snapshot", "history", "problems"] {
        assert_eq!(asked.count(part), 1, "{:?}", asked.targets());
    }
    for (number, at) in [ago(60), NOW].into_iter().enumerate() {
        fetcher.set(settings(Some(at)));
        let update = wait_for(&fetcher, |update| !matches!(update, Update::Link(_)));
        let Update::Instant(Some(shown), updates) = update else {
            panic!("all of it comes together: {update:?}");
        };
        assert_eq!((shown, updates.len()), (at, 3));
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(asked.count("snapshot?at="), number + 1);
        assert_eq!(asked.count("&at="), number + 1, "{:?}", asked.targets());
    }
    assert_eq!(asked.count("recording"), 1);
    fetcher.set(settings(None));
    wait_for(&fetcher, |update| {
        matches!(update, Update::Instant(None, _))
    });
}

#[test]
fn what_is_live_goes_on_being_asked_for_until_an_instant_is() {
    let (asked, fetcher) = Asked::serve("live", Some(RecordingSource::Live));
    for _ in 0..3 {
        wait_for(&fetcher, |update| matches!(update, Update::Snapshot(_)));
    }
    fetcher.set(settings(Some(ago(60))));
    wait_for(&fetcher, |update| {
        matches!(update, Update::Instant(Some(_), _))
    });
    let before = asked.count("snapshot");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(asked.count("snapshot"), before);
    fetcher.set(settings(None));
    wait_for(&fetcher, |update| {
        matches!(update, Update::Instant(None, _))
    });
    for _ in 0..2 {
        wait_for(&fetcher, |update| matches!(update, Update::Snapshot(_)));
    }
}

#[test]
fn a_server_that_records_nothing_is_no_trouble() {
    let (_asked, fetcher) = Asked::serve("none", None);
    let update = wait_for(&fetcher, |update| !matches!(update, Update::Link(_)));
    assert!(matches!(update, Update::Recording(None)), "{update:?}");
    for _ in 0..3 {
        let next = wait_for(&fetcher, |_any| true);
        assert!(!matches!(next, Update::Trouble(..)), "{next:?}");
    }
}
