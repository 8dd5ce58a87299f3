//! How old documents may be: those that views ask for come by their own questions, each in its time.
//!
//! The status line tells the age of the totals; a view tells that of its own document.

use crate::data::Data;
use crate::format;
use std::time::Instant;

/// How old a document is, in words; none of one that is live, or that the user stopped.
pub(super) fn note(data: &Data, received: Instant) -> Option<String> {
    let age = data.stale(received).filter(|_| !data.paused)?;
    Some(format!("as of {} ago", format::duration(age.as_secs())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Key;
    use crate::testing::screen::{SIZES, drawn};
    use crate::testing::world::{Names, World};
    use crate::views::{Chosen, Outcome, Tab};
    use std::time::Duration;

    const WORLD: World = World {
        devices: 8,
        processes: 3,
        busy: true,
        names: Names::Usual,
    };

    #[test]
    fn a_document_is_old_after_three_intervals_and_at_least_three_seconds() {
        let mut data = WORLD.data();
        let received = data.now;
        data.now += Duration::from_secs(3);
        assert_eq!(note(&data, received), None);
        data.now += Duration::from_secs(1);
        assert_eq!(note(&data, received).as_deref(), Some("as of 4 s ago"));
        data.interval = Duration::from_secs(2);
        assert_eq!(note(&data, received), None);
        data.now += Duration::from_secs(120);
        assert_eq!(
            note(&data, received).as_deref(),
            Some("as of 2 min 4 s ago")
        );
        data.paused = true;
        assert_eq!(note(&data, received), None);
    }

    #[test]
    fn every_view_with_a_document_of_its_own_says_how_old_it_is() {
        let views = [
            (Tab::Device, ""),
            (Tab::L1Map, ""),
            (Tab::L1Map, "d"),
            (Tab::Programs, ""),
            (Tab::Programs, "p"),
            (Tab::Programs, "pp"),
            (Tab::Buffers, ""),
            (Tab::Leaks, ""),
        ];
        for (tab, keys) in views {
            let (mut data, mut chosen) = (WORLD.data(), Chosen::default());
            let mut view = tab.view();
            for key in keys.chars() {
                let outcome = view.handle(Key::Char(key), &data, &mut chosen);
                assert_eq!(outcome, Outcome::Taken);
            }
            for size in SIZES {
                let mut says = |data: &Data| {
                    let screen = drawn(&mut *view, data, &chosen, size);
                    (screen.contains("as of 12 s ago"), screen)
                };
                let (said, screen) = says(&data);
                assert!(!said, "{tab:?} {keys}\n{screen}");
                data.now += Duration::from_secs(12);
                let (said, screen) = says(&data);
                assert!(said, "{tab:?} {keys}\n{screen}");
                data.now -= Duration::from_secs(12);
            }
        }
    }
}
