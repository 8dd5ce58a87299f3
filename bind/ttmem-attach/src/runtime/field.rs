//! Fields that functions of the runtime do nothing but return.
//!
//! A call into another library costs a hook more than what it asks for: the callee's cache line is
//! cold, and registers have to be saved around it. Most accessors are two loads and a return. Their
//! own code says where the field is; a function that does anything else is called.

#![expect(unsafe_code, reason = "reads the code of the runtime's functions")]

use super::Object;
use std::ffi::c_void;

/// Where the field of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Where in the object the address of the part is that has the field, if it is not the object.
    pub(super) part: Option<usize>,
    pub(super) at: usize,
    bytes: usize,
}

impl Field {
    /// The field of type `T` that a function returns and does nothing else.
    ///
    /// # Safety
    /// There is a function, which takes an object and returns a `T`.
    pub(super) unsafe fn returned_by<T>(function: *const c_void) -> Option<Self> {
        let mut at = function.cast::<u8>();
        let next = || {
            // SAFETY: nothing is read behind an instruction that ends the function.
            let byte = unsafe { at.read() };
            // SAFETY: the instruction goes on, or another follows it.
            at = unsafe { at.add(1) };
            byte
        };
        returned_by(next).filter(|field| field.bytes == size_of::<T>())
    }
}

/// What `read` gives of an object's part: the word or half word at a place.
///
/// # Safety
/// The object is alive, and of the class whose function the place was found in.
#[inline(always)]
pub(super) unsafe fn part_of(object: Object, part: Option<usize>) -> Object {
    match part {
        // SAFETY: the class's own function reads the address of its part there.
        Some(part) => unsafe { object.read(part) },
        None => object,
    }
}

/// A load of a register from memory: from where, relative to another, and of how many bytes.
#[derive(Clone, Copy)]
struct Load {
    at: usize,
    bytes: usize,
}

/// The registers of the platform by their numbers: the one for results, and for a first argument.
const RESULT: u8 = 0;
const ARGUMENT: u8 = 7;

const RETURN: u8 = 0xc3;
const LOAD: u8 = 0x8b;
/// Before an instruction: it is about 64 bits.
const WIDE: u8 = 0x48;
/// The mark of a function that may be jumped to.
const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Reads the code of a function: one load by its argument, and maybe one by what that gave.
#[cfg(target_arch = "x86_64")]
fn returned_by(mut next: impl FnMut() -> u8) -> Option<Field> {
    let mut first = next();
    if first == LANDING[0] {
        let is_landing = LANDING[1..].iter().all(|byte| next() == *byte);
        first = is_landing.then(&mut next)?;
    }
    let outer = load(first, ARGUMENT, &mut next)?;
    let second = next();
    if second == RETURN {
        let Load { at, bytes } = outer;
        return Some(Field {
            part: None,
            at,
            bytes,
        });
    }
    let Load { at, bytes } = load(second, RESULT, &mut next)?;
    let is_address = outer.bytes == size_of::<usize>();
    (is_address && next() == RETURN).then_some(Field {
        part: Some(outer.at),
        at,
        bytes,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn returned_by(_next: impl FnMut() -> u8) -> Option<Field> {
    None
}

/// An instruction that loads the register for results by what is in another one.
fn load(first: u8, base: u8, next: &mut impl FnMut() -> u8) -> Option<Load> {
    let (opcode, bytes) = if first == WIDE {
        (next(), 8)
    } else {
        (first, 4)
    };
    if opcode != LOAD {
        return None;
    }
    let form = next();
    if form & 0b0011_1111 != RESULT << 3 | base {
        return None;
    }
    let at = match form >> 6 {
        0b00 => 0,
        // Fields are not before their object.
        0b01 => usize::try_from(i8::from_le_bytes([next()])).ok()?,
        0b10 => {
            let place = i32::from_le_bytes([next(), next(), next(), next()]);
            usize::try_from(place).ok()?
        }
        _register => return None,
    };
    Some(Load { at, bytes })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn read(code: &[u8]) -> Option<Field> {
        let mut code = code.iter();
        returned_by(|| *code.next().expect("no more is read than the function has"))
    }

    const fn field(part: Option<usize>, at: usize, bytes: usize) -> Field {
        Field { part, at, bytes }
    }

    #[test]
    fn functions_that_return_a_field_are_read() {
        // mov rax, [rdi+0x10]; mov rax, [rax+0x48]; ret
        let through_a_part = [0x48, 0x8b, 0x47, 0x10, 0x48, 0x8b, 0x40, 0x48, 0xc3];
        assert_eq!(read(&through_a_part), Some(field(Some(0x10), 0x48, 8)));
        // mov rax, [rdi+0x10]; mov eax, [rax+0x14]; ret
        let half_a_word = [0x48, 0x8b, 0x47, 0x10, 0x8b, 0x40, 0x14, 0xc3];
        assert_eq!(read(&half_a_word), Some(field(Some(0x10), 0x14, 4)));
        // mov rax, [rdi+0x10]; mov rax, [rax]; ret
        let the_first = [0x48, 0x8b, 0x47, 0x10, 0x48, 0x8b, 0x00, 0xc3];
        assert_eq!(read(&the_first), Some(field(Some(0x10), 0, 8)));
        // endbr64; mov rax, [rdi+0x128]; ret
        let far = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x87, 0x28, 0x01, 0x00, 0x00, 0xc3,
        ];
        assert_eq!(read(&far), Some(field(None, 0x128, 8)));
    }

    #[test]
    fn what_does_anything_else_is_called() {
        for code in [
            // mov rax, [rdi+0x10]; cmp byte [rax+0x38], 1; …
            &[0x48, 0x8b, 0x47, 0x10, 0x80, 0x78][..],
            // mov rax, [rdi+0x10]; mov rax, [rax+8]; add …
            &[0x48, 0x8b, 0x47, 0x10, 0x48, 0x8b, 0x40, 0x08, 0x48],
            // mov rax, [rsi]; …
            &[0x48, 0x8b, 0x06],
            // mov rcx, [rdi]; …
            &[0x48, 0x8b, 0x0f],
            // mov rax, rdi; …
            &[0x48, 0x8b, 0xc7],
            // mov eax, [rdi]; mov rax, [rax]; ret
            &[0x8b, 0x07, 0x48, 0x8b, 0x00, 0xc3],
            // mov rax, [rdi-8]; ret
            &[0x48, 0x8b, 0x47, 0xf8],
            // jmp …, a breakpoint, and another mark
            &[0xe9],
            &[0xcc],
            &[0xf3, 0x0f, 0x1e, 0xfb],
        ] {
            assert_eq!(read(code), None, "{code:x?}");
        }
    }

    #[test]
    fn a_function_of_this_program_is_read() {
        #[repr(C)]
        struct Part {
            _first: u64,
            second: u32,
        }
        #[repr(C)]
        struct Whole {
            _first: u64,
            _part: &'static Part,
        }
        static PART: Part = Part {
            _first: 1,
            second: 7,
        };
        #[unsafe(naked)]
        unsafe extern "C" fn second() {
            std::arch::naked_asm!("mov rax, [rdi + 8]", "mov eax, [rax + 8]", "ret");
        }
        let function = second as *const c_void;
        // SAFETY: it is a function that takes an object.
        assert_eq!(unsafe { Field::returned_by::<u64>(function) }, None);
        // SAFETY: as above.
        let field = unsafe { Field::returned_by::<u32>(function) }.expect("it is two loads");
        let whole = Whole {
            _first: 2,
            _part: &PART,
        };
        let object = Object((&raw const whole).cast());
        // SAFETY: it is of the class that the function is made for.
        let part = unsafe { part_of(object, field.part) };
        // SAFETY: as above.
        assert_eq!(unsafe { part.read::<u32>(field.at) }, PART.second);
    }
}
