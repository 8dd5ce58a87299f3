//! Frames of Python stacks, each as `file:line function`.

/// Parts of the paths of code that is not the user's. The Python package has the same rule.
pub(crate) const OTHERS: [&str; 10] = [
    "/site-packages/",
    "/dist-packages/",
    "/lib/python3",
    "ttnn/ttnn/",
    "/ttmem/pytest_plugin.py",
    "/_pytest/",
    "/pluggy/",
    "/pytest/__main__.py",
    "/xdist/",
    "/execnet/",
];

/// What Python calls a file that was typed in or given as an argument.
pub(crate) const TYPED: [&str; 4] = ["<string>", "<stdin>", "<input>", "<ipython-input"];

/// What Python calls a comprehension, which was a function of its own before 3.12.
const INLINE: [&str; 4] = ["<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"];

/// The frame that a person looks at first: the innermost of the user's own code, or else the
/// innermost of all.
#[must_use]
pub fn user_frame<'f>(frames: impl IntoIterator<Item = &'f str>) -> Option<&'f str> {
    let mut frames = frames.into_iter().peekable();
    let innermost = frames.peek().copied();
    frames.find(|frame| is_users_code(frame)).or(innermost)
}

/// Where the user's code called the line of [`user_frame`] from; none if nothing of the user's did.
#[must_use]
pub fn user_caller<'f>(frames: impl IntoIterator<Item = &'f str>) -> Option<&'f str> {
    users_frames(frames).nth(1)
}

/// The frames of the user's own code.
///
/// A comprehension and the function that it stands in are one. The program by which a library
/// starts a worker (`python -c`), or is started itself (`bin/pytest`), is not the user's.
fn users_frames<'f>(frames: impl IntoIterator<Item = &'f str>) -> impl Iterator<Item = &'f str> {
    // The file of a comprehension whose function is to come.
    let mut inline: Option<&str> = None;
    let (mut is_inner_own, mut has_any) = (true, false);
    frames.into_iter().filter(move |frame| {
        let place = place(frame);
        let file = place.rsplit_once(':').map_or(place, |(file, _line)| file);
        let is_start = file == "<string>" || file.rsplit('/').nth(1) == Some("bin");
        let starts_library = has_any && !is_inner_own && is_start;
        is_inner_own = is_users_code(frame) && !starts_library;
        if !is_inner_own {
            return false;
        }
        has_any = true;
        let is_part = inline == Some(file);
        let function = frame[place.len()..].trim();
        inline = INLINE.contains(&function).then_some(file);
        !is_part
    })
}

/// `, called from model.py:57` behind a line, of those that called it; nothing if none is known.
#[must_use]
pub fn called_from(callers: &[String]) -> String {
    const SHOWN: usize = 2;
    let shown: Vec<&str> = callers
        .iter()
        .take(SHOWN)
        .map(|one| short_line(one))
        .collect();
    let more = if callers.len() > SHOWN { ", …" } else { "" };
    match shown.as_slice() {
        [] => String::new(),
        some => format!(", called from {}{more}", some.join(", ")),
    }
}

/// `model.py:57` of the frame `/home/me/model.py:57 forward`.
#[must_use]
pub fn short_line(frame: &str) -> &str {
    let place = place(frame);
    place.rsplit('/').next().unwrap_or(place)
}

/// `/home/me/model.py:57` of the frame `/home/me/model.py:57 forward`.
fn place(frame: &str) -> &str {
    // A path may have spaces: the place ends with the number of a line.
    let ends = frame.match_indices(' ').map(|(end, _space)| &frame[..end]);
    let place = ends.rev().find(|place| ends_with_line(place));
    place.unwrap_or(frame)
}

fn ends_with_line(place: &str) -> bool {
    let line = place.rsplit_once(':').map(|(_file, line)| line);
    line.is_some_and(|line| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a frame, or a file, is the user's: not of an installed package, of Python's own library,
/// of ttnn, or made by a program. What was typed in or given as an argument is the user's.
#[must_use]
pub fn is_users_code(frame: &str) -> bool {
    let is_made = frame.starts_with(['<', '…']) && !TYPED.iter().any(|is| frame.starts_with(is));
    !is_made && !OTHERS.iter().any(|part| frame.contains(part))
}

#[cfg(test)]
mod tests {
    use super::{INLINE, OTHERS, TYPED, called_from, short_line, user_caller, user_frame};

    #[test]
    fn the_python_package_has_the_same_rule() {
        let package = include_str!("../../../show/python/ttmem/_frames.py");
        let rules: [(&str, &[&str]); 3] = [
            ("_OTHERS", &OTHERS),
            ("_TYPED", &TYPED),
            ("_INLINE", &INLINE),
        ];
        for (name, parts) in rules {
            let rule = format!("{name} = (\"{}\")", parts.join("\", \""));
            assert!(package.contains(&rule), "{rule}");
        }
    }

    #[test]
    fn a_line_is_short_whatever_its_path_has() {
        for (frame, short) in [
            ("/home/ada/model.py:57 forward", "model.py:57"),
            (
                "/home/My Project 2:3 x/my model.py:57 forward",
                "my model.py:57",
            ),
            ("model.py:57", "model.py:57"),
            ("<string>:1 <module>", "<string>:1"),
            ("/home/ada/model.py:57 a name with spaces", "model.py:57"),
            ("", ""),
        ] {
            assert_eq!(short_line(frame), short, "{frame}");
        }
    }

    #[test]
    fn a_comprehension_and_its_function_are_one_and_what_starts_a_worker_is_nobodys() {
        // show/python/tests/test_shown.py has the same.
        for (frames, caller) in [
            (
                &["/m/a.py:3 <listcomp>", "/m/a.py:3 make", "/m/b.py:9 run"][..],
                Some("/m/b.py:9 run"),
            ),
            (
                &[
                    "/m/a.py:4 <genexpr>",
                    "/m/a.py:3 <listcomp>",
                    "/m/a.py:2 make",
                    "/m/a.py:9 run",
                ],
                Some("/m/a.py:9 run"),
            ),
            (
                &["/m/a.py:3 <listcomp>", "/m/b.py:9 run"],
                Some("/m/b.py:9 run"),
            ),
            (
                &["/m/a.py:3 <lambda>", "/m/a.py:7 make"],
                Some("/m/a.py:7 make"),
            ),
            (
                &[
                    "/m/a.py:3 f",
                    "/v/site-packages/execnet/base.py:1 serve",
                    "<string>:8 <module>",
                ],
                None,
            ),
            (
                &["/m/a.py:3 f", "<string>:1 <module>"],
                Some("<string>:1 <module>"),
            ),
            (
                &[
                    "/m/a.py:3 f",
                    "/v/site-packages/_pytest/main.py:1 main",
                    "/v/bin/pytest:8 <module>",
                ],
                None,
            ),
            (
                &["/m/a.py:3 f", "/m/bin/train:8 <module>"],
                Some("/m/bin/train:8 <module>"),
            ),
        ] {
            assert_eq!(user_caller(frames.iter().copied()), caller, "{frames:?}");
        }
    }

    #[test]
    fn the_users_own_code_comes_before_libraries() {
        let frames = [
            "/venv/lib/python3.10/site-packages/ttnn/decorators.py:501 __call__",
            "<frozen runpy>:88 _run_code",
            "/home/ada/model.py:57 forward",
            "/home/ada/main.py:3 <module>",
        ];
        assert_eq!(user_frame(frames), Some(frames[2]));
        assert_eq!(user_frame(frames[..2].iter().copied()), Some(frames[0]));
        assert_eq!(user_frame([]), None);
        assert_eq!(user_caller([]), None);
        let helped = [
            "/m/help.py:3 make",
            "/lib/python3.10/x.py:1 map",
            "/m/model.py:57 f",
            "/m/run.py:9 <module>",
        ];
        assert_eq!(user_caller(helped), Some(helped[2]));
        let [one, two, three] = ["/m/a.py:1 f", "/m/b.py:2 g", "/m/c.py:3 h"].map(str::to_owned);
        assert_eq!(called_from(&[]), "");
        assert_eq!(
            called_from(std::slice::from_ref(&one)),
            ", called from a.py:1"
        );
        assert_eq!(
            called_from(&[one.clone(), two.clone()]),
            ", called from a.py:1, b.py:2"
        );
        assert_eq!(
            called_from(&[one, two, three]),
            ", called from a.py:1, b.py:2, …"
        );
        let typed = [frames[0], "<string>:1 <module>"];
        assert_eq!(user_frame(typed), Some(typed[1]));
    }
}
