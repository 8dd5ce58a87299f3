//! A panic on a real terminal: what is left of it is what was there before.

use super::*;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

/// Tells a test that it is the process that fails.
const ASKED: &str = "TTMEM_TEST_PANICS";

const ENTERS: &str = "\u{1b}[?1049h";
const LEAVES: &str = "\u{1b}[?1049l";
const SHOWS_CURSOR: &str = "\u{1b}[?25h";

/// Not a test of its own: the process that fails in the midst of its screen.
#[test]
fn fails_if_asked() {
    if std::env::var_os(ASKED).is_some() {
        let mut screen = Screen::enter().expect("it is a terminal");
        screen.draw(|_frame| {}).expect("it can be drawn on");
        panic!("on purpose");
    }
}

#[test]
fn a_panic_is_told_on_a_terminal_that_was_given_back() {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&controller).expect("the terminal is ours");
    unlockpt(&controller).expect("the terminal is ours");
    let name = ptsname(&controller, Vec::new()).expect("a name");
    let open = || {
        let mut options = File::options();
        let path = name.to_str().expect("text");
        options.read(true).write(true).open(path).expect("it opens")
    };
    // Kept, because the settings of a terminal that nobody has open are lost.
    let terminal = open();
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal, size).expect("a size");
    let before = tcgetattr(&terminal).expect("settings").local_modes;
    let body = "terminal::tests::fails_if_asked";
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", body, "--nocapture"])
        .env(ASKED, "1")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::from(open()))
        .stdout(Stdio::from(open()))
        .stderr(Stdio::from(open()))
        .spawn()
        .expect("it starts");
    let mut controller = File::from(controller);
    let reader = std::thread::spawn(move || {
        let mut shown = Vec::new();
        let mut bytes = [0; 4096];
        // Fails when the last user of the terminal is gone.
        while let Ok(count @ 1..) = controller.read(&mut bytes) {
            shown.extend_from_slice(&bytes[..count]);
        }
        String::from_utf8_lossy(&shown).into_owned()
    });
    assert!(!child.wait().expect("it is ours").success());
    let after = tcgetattr(&terminal).expect("settings").local_modes;
    assert_eq!(after, before);
    assert!(after.contains(LocalModes::ECHO | LocalModes::ICANON));
    drop(terminal);
    let shown = reader.join().expect("it reads");
    let place = |text: &str| {
        shown
            .find(text)
            .unwrap_or_else(|| panic!("{text:?}: {shown:?}"))
    };
    assert!(place(ENTERS) < place(LEAVES));
    assert!(place(LEAVES) < place("on purpose"), "{shown:?}");
    assert!(place(SHOWS_CURSOR) < place("on purpose"), "{shown:?}");
}
