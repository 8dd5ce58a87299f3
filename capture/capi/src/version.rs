//! The version of the library and of the header.
#![expect(unsafe_code, reason = "exports a C symbol by its name")]

/// The version of this header, first number. It changes when programs must be compiled anew.
pub const TTMEM_VERSION_MAJOR: u32 = 0;
/// The version of this header, second number.
pub const TTMEM_VERSION_MINOR: u32 = 1;
/// The version of this header, third number.
pub const TTMEM_VERSION_PATCH: u32 = 0;

/// The version of this header as one number: two of them can be compared.
pub const TTMEM_VERSION: u32 =
    (TTMEM_VERSION_MAJOR << 16) | (TTMEM_VERSION_MINOR << 8) | TTMEM_VERSION_PATCH;

/// The version of the library that is loaded, in the form of TTMEM_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_version() -> u32 {
    TTMEM_VERSION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_version_of_the_package() {
        let numbers = [
            TTMEM_VERSION_MAJOR,
            TTMEM_VERSION_MINOR,
            TTMEM_VERSION_PATCH,
        ];
        let version = numbers.map(|number| number.to_string()).join(".");
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        assert_eq!(ttmem_version(), 0x0000_0100);
    }
}
