//! A fleet as a page.

use super::Page;
use crate::output::Screen;
use ttmem_report::Fleet;

/// What is wrong, then hosts, jobs and devices, at most so many of each.
pub(crate) fn fleet(fleet: &Fleet, rows: usize, screen: Screen) -> String {
    let page = Page::new(fleet, screen);
    page.painted(ttmem_tui::fleet::in_full(fleet, page.width, rows))
}
