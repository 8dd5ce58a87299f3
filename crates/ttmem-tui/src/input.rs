//! Keys and pointers, as the views know them.

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    Key(Key),
    Pointer(Pointer),
    Resized,
}

impl Input {
    /// What a terminal event means here; none if nothing is bound to it.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        match event {
            // Terminals that report releases report the press as well.
            Event::Key(key) if key.kind != KeyEventKind::Release => Key::of(*key).map(Self::Key),
            Event::Mouse(mouse) => Pointer::of(*mouse).map(Self::Pointer),
            Event::Resize(_, _) => Some(Self::Resized),
            _other => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Control(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

impl Key {
    fn of(event: KeyEvent) -> Option<Self> {
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        Some(match event.code {
            KeyCode::Char(character) if control => Self::Control(character.to_ascii_lowercase()),
            KeyCode::Char(character) => Self::Char(character),
            KeyCode::Enter => Self::Enter,
            KeyCode::Esc => Self::Escape,
            KeyCode::Backspace => Self::Backspace,
            KeyCode::Tab => Self::Tab,
            KeyCode::BackTab => Self::BackTab,
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::Left => Self::Left,
            KeyCode::Right => Self::Right,
            KeyCode::PageUp => Self::PageUp,
            KeyCode::PageDown => Self::PageDown,
            KeyCode::Home => Self::Home,
            KeyCode::End => Self::End,
            _other => return None,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub(crate) column: u16,
    pub(crate) row: u16,
    pub(crate) did: Gesture,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gesture {
    Click,
    WheelUp,
    WheelDown,
}

impl Pointer {
    fn of(event: MouseEvent) -> Option<Self> {
        let did = match event.kind {
            MouseEventKind::Down(MouseButton::Left) => Gesture::Click,
            MouseEventKind::ScrollUp => Gesture::WheelUp,
            MouseEventKind::ScrollDown => Gesture::WheelDown,
            _other => return None,
        };
        Some(Self {
            column: event.column,
            row: event.row,
            did,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_no_second_press() {
        let mut key = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        assert_eq!(
            Input::of(&Event::Key(key)),
            Some(Input::Key(Key::Char('q')))
        );
        key.kind = KeyEventKind::Release;
        assert_eq!(Input::of(&Event::Key(key)), None);
    }

    #[test]
    fn control_is_told_apart_and_has_no_case() {
        let key = KeyEvent::new(KeyCode::Char('C'), KeyModifiers::CONTROL);
        assert_eq!(
            Input::of(&Event::Key(key)),
            Some(Input::Key(Key::Control('c')))
        );
    }
}
