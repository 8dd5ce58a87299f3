//! From an instruction to its line, by the tables of code objects.

/// The line of the instruction at a byte offset, by the table of 3.10: pairs of a length in bytes
/// and a difference in lines.
pub(crate) fn by_pairs(table: &[u8], first_line: i32, at: usize) -> Option<i32> {
    const NO_LINE: u8 = 0x80;
    let (mut end, mut line) = (0_usize, first_line);
    for pair in table.chunks_exact(2) {
        end += usize::from(pair[0]);
        let has_line = pair[1] != NO_LINE;
        if has_line {
            line = line.wrapping_add(i32::from(pair[1].cast_signed()));
        }
        if at < end {
            return has_line.then_some(line);
        }
    }
    None
}

/// The line of the instruction at a byte offset, by the table of 3.11 and later: entries of a
/// length in instructions and a location.
pub(crate) fn by_locations(table: &[u8], first_line: i32, at: usize) -> Option<i32> {
    let mut bytes = table.iter().copied();
    let (mut end, mut line) = (0_usize, first_line);
    while let Some(head) = bytes.next() {
        end += (usize::from(head & 7) + 1) * super::layout::INSTRUCTION;
        let form = head >> 3 & 15;
        let change = match form {
            15 => 0,
            13 | 14 => signed(&mut bytes),
            10..=12 => i32::from(form) - 10,
            _ => 0,
        };
        line = line.wrapping_add(change);
        if at < end {
            return (form != 15).then_some(line);
        }
        // Columns, which nobody asks for.
        match form {
            14 => {
                for _column in 0..3 {
                    unsigned(&mut bytes);
                }
            }
            10..=12 => {
                bytes.nth(1);
            }
            0..=9 => {
                bytes.next();
            }
            _ => {}
        }
    }
    None
}

/// Six bits at a time, lowest first; all but the last have bit 6 set.
fn unsigned(bytes: &mut impl Iterator<Item = u8>) -> u32 {
    let (mut number, mut shift) = (0_u32, 0);
    for byte in bytes {
        number |= u32::from(byte & 63).checked_shl(shift).unwrap_or(0);
        shift += 6;
        if byte & 64 == 0 {
            break;
        }
    }
    number
}

/// As [`unsigned`], the sign in the lowest bit.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> i32 {
    let number = unsigned(bytes);
    let magnitude = (number >> 1).cast_signed();
    if number & 1 == 1 {
        -magnitude
    } else {
        magnitude
    }
}
