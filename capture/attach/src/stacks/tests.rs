use super::*;

#[test]
fn the_variable_is_a_number_of_bytes_or_nothing() {
    let parse = |value: &str| parse(Some(OsStr::new(value)));
    assert_eq!(super::parse(None), Ok(None));
    assert_eq!(parse(""), Ok(None));
    assert_eq!(parse("0"), Ok(Some(0)));
    assert_eq!(parse("1048576"), Ok(Some(1 << 20)));
    for nonsense in ["-1", "1M", "all", " 5", "0x10", "18446744073709551616"] {
        assert!(parse(nonsense).is_err(), "{nonsense}");
    }
}

#[test]
fn a_value_that_makes_no_sense_leaves_them_off() {
    configure(Some(OsStr::new("many")));
    assert!(!are_on());
}

fn frame(text: &str, is_own: bool, is_allocator: bool) -> Frame {
    Frame {
        text: text.to_owned(),
        is_own,
        is_allocator,
    }
}

#[test]
fn what_is_ours_and_the_allocator_within_are_left_out() {
    let frames = [
        frame("hook", true, false),
        frame("allocate", false, true),
        frame("hook", true, false),
        frame("allocate", false, true),
        frame("create", false, false),
        frame("hook", true, false),
        frame("allocate", false, true),
        frame("main", false, false),
    ];
    assert_eq!(written(frames.iter()), "create;allocate;main");
    assert_eq!(written(std::iter::empty()), "");
    let deep = vec![frame("f", false, false); 2 * MAX_FRAMES];
    assert_eq!(written(deep.iter()).split(';').count(), MAX_FRAMES);
}

#[test]
fn a_place_is_named_by_library_offset_and_symbol() {
    // SAFETY: any name may be asked for.
    let malloc = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) };
    let library = symbols::around(malloc.addr())
        .expect("it is in a library")
        .base;
    let of_library = frame_at(malloc.addr(), None);
    let offset = malloc.addr() - library;
    assert!(
        of_library.text.starts_with("lib")
            && of_library.text.contains(&format!("+{offset:#x} "))
            && of_library.text.ends_with("malloc"),
        "{of_library:?}"
    );
    assert!(!of_library.is_own && !of_library.is_allocator);
    assert!(frame_at(malloc.addr(), Some(library)).is_own);
    assert_eq!(frame_at(16, None).text, "?+0x10");
}

#[test]
fn too_many_stacks_end_them() {
    let mut known = Known::default();
    assert!(known.has_room(MAX_TEXT_BYTES));
    assert!(!known.has_room(MAX_TEXT_BYTES + 1));
    // For good, also for one that would fit.
    assert!(!known.has_room(1));
}

#[test]
fn a_walk_sees_its_callers_and_ends() {
    #[inline(never)]
    fn deep(levels: usize) -> Walked {
        if levels > 0 {
            return std::hint::black_box(deep(std::hint::black_box(levels - 1)));
        }
        let mut walked = Walked {
            calls: [0; MAX_WALKED],
            len: 0,
        };
        // SAFETY: the walk ends before this returns, and `step` takes just such a pointer.
        unsafe { _Unwind_Backtrace(step, (&raw mut walked).cast()) };
        walked
    }
    let shallow = deep(0).len;
    assert!((1..MAX_WALKED).contains(&shallow), "{shallow}");
    assert_eq!(deep(2 * MAX_WALKED).len, MAX_WALKED);
}
