//! A line that the user types into: what to find in a list.

use crate::input::Key;
use crate::theme::Theme;
use ttmem_report::Search;

const LIMIT: usize = 200;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    text: String,
    before: String,
    typing: bool,
}

impl Prompt {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) const fn is_typing(&self) -> bool {
        self.typing
    }

    pub(crate) fn begin(&mut self) {
        self.before.clone_from(&self.text);
        self.typing = true;
    }

    /// Takes a text as it is, as if it had been typed.
    pub(crate) fn set(&mut self, text: impl Into<String>) {
        self.clear();
        self.text = text.into();
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes a key while typing: Enter keeps the text, Escape takes it back.
    pub(crate) fn handle(&mut self, key: Key) {
        match key {
            Key::Char(character)
                if !character.is_control() && self.text.chars().count() < LIMIT =>
            {
                self.text.push(character);
            }
            Key::Backspace => {
                self.text.pop();
            }
            Key::Control('u') => self.text.clear(),
            Key::Control('w') => {
                let kept = self.text.trim_end();
                let kept = kept.rfind(' ').map_or(0, |space| space + 1);
                self.text.truncate(kept);
            }
            Key::Enter => self.typing = false,
            Key::Escape => {
                self.typing = false;
                self.text = std::mem::take(&mut self.before);
            }
            _other => {}
        }
    }

    /// Whether a name contains what was typed, whatever the case, or a number does in decimal or hex.
    pub(crate) fn finds<'n>(
        &self,
        names: impl IntoIterator<Item = Option<&'n str>>,
        numbers: impl IntoIterator<Item = Option<u64>>,
    ) -> bool {
        let search = Search::of(&self.text);
        search.is_empty()
            || names.into_iter().flatten().any(|name| search.is_in(name))
            || numbers
                .into_iter()
                .flatten()
                .any(|number| search.is_in_number(number))
    }

    /// What is looked for, in words; nothing if all is shown.
    pub(crate) fn said(&self, theme: Theme) -> Option<String> {
        match (self.typing, self.text.is_empty()) {
            (true, _) => Some(format!("find: {}{}", self.text, theme.caret())),
            (false, false) => Some(format!("find \"{}\"", self.text)),
            (false, true) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(prompt: &mut Prompt, text: &str) {
        for character in text.chars() {
            prompt.handle(Key::Char(character));
        }
    }

    #[test]
    fn what_is_typed_stays_and_what_is_undone_does_not() {
        let mut prompt = Prompt::default();
        prompt.begin();
        typed(&mut prompt, "Mat mul");
        prompt.handle(Key::Control('w'));
        assert_eq!(prompt.text(), "Mat ");
        prompt.handle(Key::Backspace);
        prompt.handle(Key::Enter);
        let finds = |prompt: &Prompt, name| prompt.finds([Some(name)], []);
        assert!(!prompt.is_typing() && finds(&prompt, "ttnn::matmul") && !finds(&prompt, "add"));
        prompt.begin();
        typed(&mut prompt, "xyz");
        prompt.handle(Key::Escape);
        assert_eq!(prompt.text(), "Mat");
    }

    #[test]
    fn a_text_has_an_end() {
        let mut prompt = Prompt::default();
        prompt.begin();
        typed(&mut prompt, &"x".repeat(LIMIT * 2));
        assert_eq!(prompt.text().len(), LIMIT);
    }
}
