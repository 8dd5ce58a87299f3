//! Characters of other people's texts that a reader must not meet raw.
//!
//! Names come from other processes and are read in terminals: whoever writes one there, as text
//! or as JSON, asks here.

/// Characters that would end a line, drive a terminal, or hide or reorder text around them.
#[must_use]
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// The same JSON with deceptive characters as escapes: a program reads what it read before.
///
/// JSON escapes only those below a space, and has no others outside of its strings.
#[must_use]
pub fn escape_json(json: String) -> String {
    if json.bytes().all(|byte| byte < 0x7f) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 64);
    for character in json.chars() {
        if character >= '\u{7f}' && is_deceptive(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Bytes that [`escape_json`] adds to a text.
#[must_use]
pub fn escaped_json_growth(text: &str) -> usize {
    if text.is_ascii() && !text.contains('\u{7f}') {
        return 0;
    }
    let deceptive = text
        .chars()
        .filter(|each| *each >= '\u{7f}' && is_deceptive(*each));
    deceptive
        .map(|each| 6 * each.len_utf16() - each.len_utf8())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_survives_and_none_that_deceives_is_raw() {
        let all: String = (0..=0xe_0100).filter_map(char::from_u32).collect();
        let plain = serde_json::to_string(&all).unwrap();
        let escaped = escape_json(plain.clone());
        assert_eq!(escaped.len(), plain.len() + escaped_json_growth(&all));
        assert_eq!(escaped.chars().find(|each| is_deceptive(*each)), None);
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), all);
    }

    #[test]
    fn what_deceives_nobody_stays_as_it_is() {
        let text = "{\n  \"name\": \"Grüße, 模型\"\n}";
        assert_eq!(escape_json(text.to_owned()), text);
    }
}
