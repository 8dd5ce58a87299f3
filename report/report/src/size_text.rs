//! Sizes for people: every viewer and every sentence rounds alike.

/// A size with one decimal in binary units; whole bytes below 1 KiB.
#[must_use]
pub fn size_text(size_bytes: u64) -> String {
    if size_bytes < 1024 {
        return format!("{size_bytes} B");
    }
    // Tenths are rounded in integers: 1048575 is 1.0 MiB, not 1024.0 KiB.
    let size = u128::from(size_bytes);
    let mut unit = 1024;
    let mut names = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].into_iter();
    let mut name = names.next().unwrap_or_default();
    loop {
        let tenths = (size * 10 + unit / 2) / unit;
        match names.next() {
            Some(larger) if tenths >= 10_240 => {
                unit *= 1024;
                name = larger;
            }
            _ => return format!("{}.{} {name}", tenths / 10, tenths % 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_to_one_decimal_and_never_to_1024() {
        for (size_bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (57_344, "56.0 KiB"),
            (917_504, "896.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (1_048_524, "1023.9 KiB"),
            (8_192_000, "7.8 MiB"),
            (12 << 30, "12.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(size_text(size_bytes), text);
        }
    }
}
