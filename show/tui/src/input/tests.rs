//! What terminals send, in whole and in pieces.

use super::*;

fn keys(keys: &[Key]) -> Vec<Input> {
    keys.iter().copied().map(Input::Key).collect()
}

#[test]
fn keys_of_every_kind_of_terminal() {
    for (bytes, key) in [
        ("q", Key::Char('q')),
        ("模", Key::Char('模')),
        ("\r", Key::Enter),
        ("\t", Key::Tab),
        ("\u{7f}", Key::Backspace),
        ("\u{3}", Key::Control('c')),
        ("\u{1b}", Key::Escape),
        ("\u{1b}[A", Key::Up),
        ("\u{1b}OB", Key::Down),
        ("\u{1b}[1;5C", Key::Right),
        ("\u{1b}[Z", Key::BackTab),
        ("\u{1b}[5~", Key::PageUp),
        ("\u{1b}[6;2~", Key::PageDown),
        ("\u{1b}[1~", Key::Home),
        ("\u{1b}[F", Key::End),
    ] {
        let inputs = Parser::default().take(bytes.as_bytes());
        assert_eq!(inputs, keys(&[key]), "{bytes:?}");
    }
}

#[test]
fn nothing_is_made_of_what_means_nothing() {
    for bytes in [
        &b"\x1b[15~"[..],
        b"\x1b[<3;1;1M",
        b"\x1b[<0;1;1m",
        b"\x1b[?1;2c",
        b"\xff",
        b"\0",
    ] {
        assert_eq!(Parser::default().take(bytes), [], "{bytes:?}");
    }
    let mut parser = Parser::default();
    assert_eq!(parser.take(b"\x1b[<0;0;0M"), []);
    assert_eq!(parser.take(b"j"), keys(&[Key::Char('j')]));
}

#[test]
fn pieces_mean_what_the_whole_means() {
    let whole = "a模\u{1b}[A\u{1b}[<0;12;3Mz\u{1b}[200~q模\u{1b}[201~j".as_bytes();
    let expected = Parser::default().take(whole);
    assert_eq!(expected.len(), 8);
    let click = Pointer {
        column: 11,
        row: 2,
        did: Gesture::Click,
    };
    assert!(expected.contains(&Input::Pointer(click)));
    for cut in 1..whole.len() {
        // An escape character that ends a piece is the key.
        if whole[cut - 1] == ESCAPE {
            continue;
        }
        let mut parser = Parser::default();
        let mut inputs = parser.take(&whole[..cut]);
        inputs.extend(parser.take(&whole[cut..]));
        assert_eq!(inputs, expected, "cut at {cut}");
    }
}

#[test]
fn a_paste_has_no_commands_and_may_be_long() {
    let mut parser = Parser::default();
    let text = "q\u{1b}[A\r".repeat(1000);
    let inputs = parser.take(format!("\u{1b}[200~{text}\u{1b}[201~").as_bytes());
    assert_eq!(inputs, vec![Input::Pasted('q'); 1000]);
    assert_eq!(parser.take(b"q"), keys(&[Key::Char('q')]));
    // Without brackets it is typing.
    assert_eq!(parser.take(&[b'j'; 5000]).len(), 5000);
}

#[test]
fn a_terminal_says_what_is_behind_its_text() {
    for (answer, background) in [
        ("\u{1b}]11;rgb:ffff/ffff/ffff\u{1b}\\", Background::Light),
        ("\u{1b}]11;rgb:fd/f6/e3\u{7}", Background::Light),
        ("\u{1b}]11;rgb:1e1e/1e1e/1e1e\u{7}", Background::Dark),
        ("\u{1b}]11;rgb:0000/2b2b/3636\u{1b}\\", Background::Dark),
    ] {
        let mut inputs = Parser::default().take(format!("j{answer}q").as_bytes());
        assert_eq!(
            inputs.remove(1),
            Input::Background(background),
            "{answer:?}"
        );
        assert_eq!(inputs, keys(&[Key::Char('j'), Key::Char('q')]));
    }
    for nothing in [
        "\u{1b}]11;rgb:/\u{7}",
        "\u{1b}]52;c;\u{7}",
        "\u{1b}]11;rgb:x/y/z\u{7}",
    ] {
        assert_eq!(
            Parser::default().take(nothing.as_bytes()),
            [],
            "{nothing:?}"
        );
    }
}

#[test]
fn a_sequence_that_never_ends_is_given_up() {
    let mut parser = Parser::default();
    parser.take(b"\x1b[");
    for _ in 0..10_000 {
        parser.take(b"1;1;1;1;");
        assert!(parser.begun.len() <= 2 * LONGEST);
    }
}
