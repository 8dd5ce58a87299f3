//! Texts without what differs between any two runs of the same program.
//!
//! Times, addresses, process ids and the folder of the run are replaced; what the runtime
//! says of its kernel cache depends on who was there before, and of its executor on how fast
//! its threads were. Backtraces show our hooks as frames of their own, with the name of the
//! function that they stand for.

/// What the runtime writes at the beginning of a line of its log, digit by digit.
const TIME_SHAPE: &[u8] = b"0000-00-00 00:00:00.000";

/// The part of the runtime whose lines tell how warm a cache is.
const KERNEL_CACHE: &str = " BuildKernels |";

/// What the runtime says of a fork, if its executor's threads have not cleaned up behind the last work: a matter of
/// microseconds, with us and without.
const BUSY_EXECUTOR: &str = "WARNING: fork() called while executor has in-flight work";

/// The library of which frames in backtraces are.
const ATTACH: &str = "libttmem_attach.so";

/// How a frame of a backtrace begins.
const FRAME: &str = " --- ";

/// The text in which two runs can be compared, given the folder of this run.
pub(super) fn normal(text: &str, folder: &str) -> String {
    // Texts in JSON have their line ends escaped.
    let text = text.replace("\\n", "\n").replace(folder, "FOLDER");
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = without_colours(line);
        let is_by_chance = line.contains(KERNEL_CACHE) || line.starts_with(BUSY_EXECUTOR);
        if is_by_chance || (line.starts_with(FRAME) && line.contains(ATTACH)) {
            continue;
        }
        let line = without_addresses(without_time(&line));
        let line = without_pid(&line).unwrap_or(line);
        let is_hook = line.starts_with(FRAME) && lines.last() == Some(&line);
        if !is_hook {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// A line without the sequences `ESC [ … m` by which a terminal is told of colours.
fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_of_colour = |byte: char| byte.is_ascii_digit() || byte == ';';
        let rest = part.trim_start_matches(is_of_colour);
        kept.push_str(rest.strip_prefix('m').unwrap_or(rest));
    }
    kept
}

/// A line without the time at its beginning.
fn without_time(line: &str) -> &str {
    let is_alike = |(byte, shape): (&u8, &u8)| match shape {
        b'0' => byte.is_ascii_digit(),
        _ => byte == shape,
    };
    match line.as_bytes().get(..TIME_SHAPE.len()) {
        Some(start) if start.iter().zip(TIME_SHAPE).all(is_alike) => {
            line.get(TIME_SHAPE.len()..).unwrap_or_default()
        }
        _ => line,
    }
}

/// A line with every hexadecimal number gone, but for its `0x`.
fn without_addresses(line: &str) -> String {
    let mut parts = line.split("0x");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str("0x");
        kept.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()));
    }
    kept
}

/// A line of MPI's, which begins with `[HOST:PID]`, without the pid.
fn without_pid(line: &str) -> Option<String> {
    let (inside, rest) = line.strip_prefix('[')?.split_once(']')?;
    let (host, pid) = inside.rsplit_once(':')?;
    let is_pid = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
    is_pid.then(|| format!("[{host}]{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_addresses_pids_and_folders_are_gone() {
        for (text, expected) in [
            ("2026-11-15 17:32:44.313 | info | a", " | info | a"),
            ("2026-11-15 noon", "2026-11-15 noon"),
            (
                "\u{1b}[90m2026-11-15 17:32:44.313\u{1b}[0m | \u{1b}[1;32minfo\u{1b}[m",
                " | info",
            ),
            ("lib.so(+0x2a) [0x7f00ab] x", "lib.so(+0x) [0x] x"),
            ("[vm:123] Signal: 6", "[vm] Signal: 6"),
            ("[vm:x] a", "[vm:x] a"),
            ("wrote /run/1/plain/x", "wrote FOLDER/x"),
            (
                "a\n2026-11-15 17:32:44.313 | info     |    BuildKernels | 5/5\nb",
                "a\nb",
            ),
            (
                "a\nWARNING: fork() called while executor has in-flight work (num_topologies=1).\nb",
                "a\nb",
            ),
        ] {
            assert_eq!(normal(text, "/run/1/plain"), expected);
        }
    }

    #[test]
    fn hooks_in_a_backtrace_are_gone_and_repeated_lines_elsewhere_are_not() {
        let plain = r#"{"x": "why\n --- one\n --- two\nagain\nagain"}"#;
        let tracked = r#"{"x": "why\n --- one\n --- /a/libttmem_attach.so(+0x2)\n --- one\n --- two\nagain\nagain"}"#;
        assert_eq!(normal(tracked, "/nowhere"), normal(plain, "/nowhere"));
        assert!(normal(plain, "/nowhere").contains("again\nagain"));
    }
}
