//! Screens as text, compared with those in `screens/`.
//!
//! `TTMEM_BLESS=1 cargo nextest run -p ttmem-tui` writes them anew; look at what changed.

use crate::data::Data;
use crate::theme::{ColourDepth, Theme};
use crate::views::{Chosen, View};
use crate::widgets::Canvas;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::path::PathBuf;

/// The sizes at which every view is looked at: the smallest, and a large one.
pub(crate) const SIZES: [(u16, u16); 2] = [(80, 24), (200, 50)];

/// Without colours every kind of memory has its own sign, so that text shows all there is.
pub(crate) const THEME: Theme = Theme::new(ColourDepth::None, true);

/// A view alone on a screen of some size.
pub(crate) fn drawn(view: &mut dyn View, data: &Data, chosen: &Chosen, size: (u16, u16)) -> String {
    let mut canvas = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    let area = canvas.area;
    view.draw(&mut Canvas::new(&mut canvas, THEME), area, data, chosen);
    text(&canvas)
}

/// What is on a canvas, line by line, without the blanks at the ends.
pub(crate) fn text(canvas: &Buffer) -> String {
    crate::once::lines(canvas)
}

/// Holds a screen against the one that was looked at.
///
/// # Panics
/// When they differ.
pub(crate) fn assert_screen(name: &str, screen: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("screens/{name}.txt"));
    if std::env::var_os("TTMEM_BLESS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder");
        std::fs::write(&path, screen).expect("the screen can be written");
        return;
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        known == screen,
        "{name} differs from {}; TTMEM_BLESS=1 takes the new one\n--- known\n{known}\n--- now\n{screen}",
        path.display()
    );
}

/// Draws a view in every world at every size, and compares each screen.
pub(crate) fn assert_in_every_world(name: &str, view: impl Fn() -> Box<dyn View>) {
    for (world, data) in super::world::all() {
        for size in SIZES {
            let screen = drawn(&mut *view(), &data, &Chosen::default(), size);
            assert_screen(&format!("{name}/{world}_{}x{}", size.0, size.1), &screen);
        }
    }
}
