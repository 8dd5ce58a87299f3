//! What the terminal view costs: `ttmem top` on a terminal of its own, beside a server that is busy.

use super::filler::Filler;
use super::harness::{OwnServer, Programs, median};
use super::screen::OnScreen;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use ttmem_reader::ApiClient;
use ttmem_report::{BufferQuery, SortBy};

const CHIPS: u32 = 32;
/// Live buffers on all chips together.
const BUFFERS: u64 = 100_000;
/// Live buffers of the long list.
const MANY_BUFFERS: u64 = 1_000_000;
/// So often all chips have more or less than before: every frame has something new.
const CHANGE: Duration = Duration::from_millis(90);
/// Frames as fast as they are drawn: the server is asked ten times a second.
const INTERVAL: &str = "0.1";
const VIEWS: [&str; 8] = [
    "overview",
    "processes",
    "device",
    "map",
    "programs",
    "buffers",
    "events",
    "leaks",
];
/// Keys that are pressed in each view.
const KEYS: [&str; 4] = ["?", "?", "j", "k"];
const KEYS_OF_A_VIEW: usize = 40;
/// Rows that the view asks for at once.
const WINDOW: u64 = 150;
/// By how many buffers; 12 KiB each, that is a tenth of a percent.
const CHANGED_BUFFERS: u64 = 1_000;

pub(super) fn measure(programs: &Programs, quick: bool) -> Result<Value> {
    let (seconds, many) = if quick {
        (3, MANY_BUFFERS / 10)
    } else {
        (20, MANY_BUFFERS)
    };
    Ok(json!({
        "steady": steady(programs, Duration::from_secs(seconds))?,
        "many_buffers": many_buffers(programs, many, quick)?,
    }))
}

/// A screen that nobody touches, while every chip changes all the time.
fn steady(programs: &Programs, lasts: Duration) -> Result<Value> {
    let server = OwnServer::start(programs, &["--quiet"])?;
    let mut filler = Filler::connect(&server, CHIPS)?;
    let each = BUFFERS / u64::from(CHIPS);
    for chip in 0..CHIPS {
        filler.allocate(chip, u64::from(chip) << 32, each)?;
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| change_all(&mut filler, &over));
        let found = watch(programs, &server, lasts);
        over.store(true, Ordering::Relaxed);
        changing
            .join()
            .map_err(|_panic| anyhow::anyhow!("the thread of changes failed"))??;
        found
    })
}

/// Allocates and frees buffers on every chip, again and again, so that no two frames are the same.
fn change_all(filler: &mut Filler, over: &AtomicBool) -> Result<()> {
    let room = BUFFERS / u64::from(CHIPS);
    while !over.load(Ordering::Relaxed) {
        for chip in 0..CHIPS {
            let first = (u64::from(chip) << 32) | (1 << 31);
            filler.allocate_behind(room, chip, first, CHANGED_BUFFERS)?;
        }
        std::thread::sleep(CHANGE);
        for chip in 0..CHIPS {
            let first = (u64::from(chip) << 32) | (1 << 31);
            filler.free(chip, first, CHANGED_BUFFERS)?;
        }
        std::thread::sleep(CHANGE);
    }
    Ok(())
}

fn watch(programs: &Programs, server: &OwnServer, lasts: Duration) -> Result<Value> {
    let socket = server.socket.display().to_string();
    let mut views = Vec::new();
    for view in VIEWS {
        let mut screen = OnScreen::start(
            programs,
            &[
                "top",
                "--socket",
                &socket,
                "--view",
                view,
                "--interval",
                INTERVAL,
            ],
        )?;
        screen
            .wait_for("live")
            .context("the screen did not come up")?;
        std::thread::sleep(lasts / 10);
        let before = (
            screen.cpu_seconds()?,
            screen.frames(),
            screen.memory_bytes()?,
        );
        let server_before = server.cpu_seconds()?;
        let begun = Instant::now();
        std::thread::sleep(lasts);
        let took = begun.elapsed().as_secs_f64();
        let (frames, bytes) = screen.frames();
        let frames = frames - before.1.0;
        let cpu = screen.cpu_seconds()? - before.0;
        let memory = screen.memory_bytes()?;
        let server_cpu = server.cpu_seconds()? - server_before;
        let mut keys = Vec::new();
        for pressed in KEYS.into_iter().cycle().take(KEYS_OF_A_VIEW) {
            keys.push(screen.press(pressed)?.as_secs_f64() * 1e3);
            std::thread::sleep(Duration::from_millis(30));
        }
        views.push(json!({
            "view": view,
            "key_to_screen_millis_worst": keys.iter().copied().fold(f64::NAN, f64::max),
            "key_to_screen_millis_median": median(keys),
            "seconds": took,
            "frames_per_second": frames as f64 / took,
            "cpu_percent_of_a_core": cpu / took * 100.0,
            "cpu_millis_per_frame": cpu * 1e3 / frames.max(1) as f64,
            "bytes_per_frame": (bytes - before.1.1) / frames.max(1),
            "memory_bytes": memory,
            "memory_grew_bytes": memory.saturating_sub(before.2),
            "cpu_percent_of_the_server": server_cpu / took * 100.0,
        }));
    }
    let mut screen = OnScreen::start(programs, &["top", "--socket", &socket])?;
    screen.wait_for("live")?;
    let mut keys = Vec::new();
    for round in 0..10 {
        for key in ["1", "2", "3", "4", "5", "6", "7", "8", "?", "?"] {
            let took = screen.press(key)?;
            // The first look at a view is not the time of a key.
            if round > 0 {
                keys.push(took.as_secs_f64() * 1e3);
            }
        }
    }
    let worst = keys.iter().copied().fold(f64::NAN, f64::max);
    Ok(json!({
        "devices": CHIPS,
        "live_buffers": BUFFERS,
        "target_cpu_percent_of_a_core": 2,
        "views": views,
        "key_to_screen_millis_median": median(keys),
        "key_to_screen_millis_worst": worst,
        "target_key_to_screen_millis": 100,
    }))
}

/// The list of a million buffers: scrolled, jumped through, sorted anew.
fn many_buffers(programs: &Programs, buffers: u64, quick: bool) -> Result<Value> {
    let server = OwnServer::start(programs, &["--quiet"])?;
    let mut filler = Filler::connect(&server, 1)?;
    filler.allocate(0, 0, buffers)?;
    let socket = server.socket.display().to_string();
    let mut screen = OnScreen::start(programs, &["top", "--socket", &socket, "--view", "buffers"])?;
    screen
        .wait_for("live")
        .context("the screen did not come up")?;
    std::thread::sleep(Duration::from_secs(2));
    let before = (screen.cpu_seconds()?, screen.frames().0);
    let (mut keys, mut ends) = (Vec::new(), Vec::new());
    let rounds = if quick { 2 } else { 10 };
    for _round in 0..rounds {
        for key in ["j", "k", "j", "\x1b[6~", "\x1b[6~", "\x1b[5~", "G", "g"] {
            keys.push(screen.press(key)?.as_secs_f64() * 1e3);
            std::thread::sleep(Duration::from_millis(30));
        }
        ends.push(rows_of_the_other_end(&server, &mut filler, buffers)?);
    }
    let frames = screen.frames().0 - before.1;
    let cpu = screen.cpu_seconds()? - before.0;
    let worst = |figures: &[f64]| figures.iter().copied().fold(f64::NAN, f64::max);
    Ok(json!({
        "live_buffers": buffers,
        "frames": frames,
        "cpu_millis_per_frame": cpu * 1e3 / frames.max(1) as f64,
        "target_millis_per_frame": 10,
        "key_to_screen_millis_worst": worst(&keys),
        "key_to_screen_millis_median": median(keys),
        "target_key_to_screen_millis": 100,
        "rows_of_the_other_end_millis_worst": worst(&ends),
        "rows_of_the_other_end_millis_median": median(ends),
        "memory_bytes": screen.memory_bytes()?,
    }))
}

/// How long the server takes for the rows of the other end, in milliseconds, just after a change.
///
/// Whoever jumps there sees them with the frame after that.
fn rows_of_the_other_end(server: &OwnServer, filler: &mut Filler, buffers: u64) -> Result<f64> {
    filler.free(0, 0, 1)?;
    filler.allocate_behind(buffers, 0, 0, 1)?;
    let query = BufferQuery {
        sort: Some(SortBy::Size),
        descending: true,
        offset: Some(buffers - WINDOW),
        limit: u32::try_from(WINDOW).ok(),
        ..BufferQuery::default()
    };
    let client = ApiClient::new(&server.socket);
    let begun = Instant::now();
    let page = client.buffers_where(&query)?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    let rows = page.rows.len() as u64;
    ensure!(rows == WINDOW, "{rows} rows came instead of {WINDOW}");
    Ok(took)
}
