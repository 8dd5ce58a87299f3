//! Small curves in one row: the last values of a figure.

use crate::theme::Theme;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_LEVELS: [char; 8] = ['_', '.', '.', '-', '-', '=', '=', '#'];

/// Values as a text of at most so many columns, oldest first; the highest is as high as a row.
pub(crate) fn sparkline(values: &[u64], columns: usize, theme: Theme) -> String {
    let levels = theme.pick(LEVELS, ASCII_LEVELS);
    let highest = values.iter().copied().max().unwrap_or(0).max(1);
    let per_column = values.len().div_ceil(columns.max(1)).max(1);
    let mut columns: Vec<char> = Vec::new();
    for chunk in values.rchunks(per_column) {
        let value = chunk.iter().copied().max().unwrap_or(0);
        let level = u128::from(value) * 8 / u128::from(highest);
        columns.push(levels[usize::try_from(level).unwrap_or(7).min(7)]);
    }
    columns.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::screen::THEME;

    #[test]
    fn a_sparkline_ends_with_the_newest() {
        assert_eq!(sparkline(&[0, 4, 8], 12, THEME), "▁▅█");
        // No peak is lost when columns are few.
        assert_eq!(sparkline(&[8, 0, 0, 1], 2, THEME), "█▂");
        assert_eq!(sparkline(&[], 2, THEME), "");
        assert_eq!(sparkline(&[0, 0], 2, THEME), "▁▁");
    }
}
