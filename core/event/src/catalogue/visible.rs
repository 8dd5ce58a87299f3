//! Whether a text is a list of devices, as `TT_VISIBLE_DEVICES` has it.
//!
//! The variable is set by users and may hold anything. A list of devices names hardware; any other text may be
//! private.

/// Devices are numbered below this.
const MAX_DIGITS: usize = 4;

/// Whether a text is a list of device numbers or PCI addresses, such as `0,1` or `0000:0a:00.0`; an empty one is.
#[must_use]
pub fn is_device_list(text: &str) -> bool {
    text.is_empty()
        || text
            .split(',')
            .all(|item| is_device(item.trim_matches(' ')))
}

fn is_device(item: &str) -> bool {
    let is_number = |item: &str| {
        (1..=MAX_DIGITS).contains(&item.len()) && item.bytes().all(|byte| byte.is_ascii_digit())
    };
    is_number(item) || is_pci_address(item)
}

/// Domain, bus, device and function.
fn is_pci_address(item: &str) -> bool {
    let form = "0000:00:00.0";
    item.len() == form.len()
        && item
            .bytes()
            .zip(form.bytes())
            .all(|(byte, form)| match form {
                b'0' => byte.is_ascii_hexdigit(),
                separator => byte == separator,
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_are_a_list_of_devices() {
        for list in [
            "",
            "0",
            "0,1",
            "3, 2",
            "1023",
            "0000:0a:00.0",
            "0,0000:0B:00.1",
        ] {
            assert!(is_device_list(list), "{list:?}");
        }
        for text in [
            "a",
            ",",
            "0,",
            "0;1",
            "12345",
            "4111111111111111",
            "0000:0a:00",
            "0000-0a-00-0",
            "0,secret",
            "\u{0660}",
        ] {
            assert!(!is_device_list(text), "{text:?}");
        }
    }
}
