//! On a real terminal: a panic, a long paste, a terminal that goes away or takes no output, signals.

use super::*;
use crate::testing::pty::Pty;
use crate::{Tab, Theme, TopOptions};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Action, LocalModes, tcflow, tcgetattr};
use std::process::{Child, ExitStatus};
use std::time::Instant;
use ttmem_reader::ApiClient;

/// Says to a test that it is the process on the terminal, and what to do there.
const ASKED: &str = "TTMEM_TEST_ON_TERMINAL";

const ENTERS: &str = "\u{1b}[?1049h";
const LEAVES: &str = "\u{1b}[?1049l";
const SHOWS_CURSOR: &str = "\u{1b}[?25h";

/// Only so that a failure does not hang.
const GENEROUS: Duration = Duration::from_secs(60);

/// Not a test of its own: the process on the terminal.
#[test]
fn does_what_it_is_asked() {
    match std::env::var(ASKED).as_deref() {
        Ok("panic") => {
            let mut screen = Screen::enter().expect("it is a terminal");
            screen.draw(|_frame| {}).expect("it can be drawn on");
            panic!("on purpose");
        }
        Ok("top") => {
            let options = TopOptions {
                at: None,
                client: ApiClient::new("/nonexistent/ttmem.sock"),
                address: "nowhere".to_owned(),
                interval: Duration::from_millis(100),
                tab: Tab::Overview,
                theme: Theme::new(crate::ColourDepth::Sixteen, true),
                asks_background: true,
                companion: None,
                of_fleet: false,
            };
            crate::top(options).expect("it runs until it is left");
        }
        _not_asked => {}
    }
}

fn start(pty: &Pty, what: &str) -> Child {
    pty.run_test("terminal::tests::does_what_it_is_asked", ASKED, what)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < GENEROUS, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ended(child: &mut Child, what: &str) -> ExitStatus {
    let mut status = None;
    let begin = Instant::now();
    while status.is_none() && begin.elapsed() < GENEROUS {
        status = child.try_wait().expect("it is ours");
        std::thread::sleep(Duration::from_millis(5));
    }
    if status.is_none() {
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }
    status.unwrap_or_else(|| panic!("{what}: it does not end"))
}

fn is_raw(pty: &Pty) -> bool {
    let modes = tcgetattr(&pty.terminal).expect("settings").local_modes;
    !modes.contains(LocalModes::ICANON)
}

fn unread(pty: &Pty) -> u64 {
    ioctl_fionread(&pty.terminal).expect("a terminal")
}

fn terminate(child: &Child) {
    let pid = i32::try_from(child.id()).expect("a pid");
    let pid = Pid::from_raw(pid).expect("a pid");
    kill_process(pid, Signal::TERM).expect("it is ours");
}

#[test]
fn a_paste_of_any_length_is_read_to_its_end() {
    for length in [1, 1024, 1025, 3000, 20_000] {
        let mut pty = Pty::open();
        let shown = pty.shown();
        let mut child = start(&pty, "top");
        wait_until("it has the terminal", || is_raw(&pty));
        // In pieces, because a terminal takes no more than 4095 bytes that nobody reads.
        for piece in vec![b'j'; length].chunks(2048) {
            pty.controller.write_all(piece).expect("it is read");
            wait_until("everything is read", || unread(&pty) == 0);
        }
        pty.controller.write_all(b"q").expect("it is read");
        let status = ended(&mut child, "q after a paste");
        assert!(status.success(), "{length}: {status}");
        drop(pty);
        let shown = shown.join().expect("it reads");
        assert!(shown.contains(LEAVES), "{length}: {shown}");
    }
}

#[test]
fn it_ends_with_its_terminal_even_after_a_paste() {
    for length in [0, 1, 1025, 3000] {
        let mut pty = Pty::open();
        let mut child = start(&pty, "top");
        wait_until("it has the terminal", || is_raw(&pty));
        pty.controller
            .write_all(&vec![b'j'; length])
            .expect("it fits");
        drop(pty);
        ended(&mut child, "its terminal is gone");
    }
}

#[test]
fn sigterm_ends_it_even_if_the_terminal_takes_no_output() {
    for takes_output in [true, false] {
        let mut pty = Pty::open();
        let shown = pty.shown();
        let mut child = start(&pty, "top");
        wait_until("it has the terminal", || is_raw(&pty));
        if !takes_output {
            tcflow(&pty.terminal, Action::OOff).expect("as Ctrl-S does");
            // Something to draw.
            pty.controller.write_all(b"?").expect("it is read");
            wait_until("it is read", || unread(&pty) == 0);
        }
        terminate(&child);
        let status = ended(&mut child, "SIGTERM");
        assert_eq!(status.success(), takes_output, "{status}");
        assert!(!is_raw(&pty), "the terminal is as it was");
        tcflow(&pty.terminal, Action::OOn).expect("as Ctrl-Q does");
        drop(pty);
        shown.join().expect("it reads");
    }
}

#[test]
fn a_panic_is_printed_on_a_terminal_that_was_given_back() {
    let pty = Pty::open();
    let before = tcgetattr(&pty.terminal).expect("settings").local_modes;
    let shown = pty.shown();
    let mut child = start(&pty, "panic");
    assert!(!ended(&mut child, "a panic").success());
    let after = tcgetattr(&pty.terminal).expect("settings").local_modes;
    assert_eq!(after, before);
    assert!(after.contains(LocalModes::ECHO | LocalModes::ICANON));
    drop(pty);
    let shown = shown.join().expect("it reads");
    let place = |text: &str| {
        shown
            .find(text)
            .unwrap_or_else(|| panic!("{text:?}: {shown:?}"))
    };
    assert!(place(ENTERS) < place(LEAVES));
    assert!(place(LEAVES) < place("on purpose"), "{shown:?}");
    assert!(place(SHOWS_CURSOR) < place("on purpose"), "{shown:?}");
}
