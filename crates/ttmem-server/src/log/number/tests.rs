//! [`cpp_double`] against what C's `printf("%g")` printed, and its two methods against each other.

use super::{Decimal, cpp_double};

/// Bit patterns and what glibc's `printf("%g")` made of them.
///
/// Literals around rounding carries and the borders of the fixed notation, then byte counts
/// divided by 1048576 and by 1024.
#[rustfmt::skip]
const PRINTED_BY_C: &[(u64, &str)] = &[
    (0x3fd0000000000000, "0.25"),
    (0x4035bfd8adab9f56, "21.7494"),
    (0x3fec000000000000, "0.875"),
    (0x3fb70000d6bf94d6, "0.0898438"),
    (0x4028000000000000, "12"),
    (0x3ee4f8b588e368f1, "1e-05"),
    (0x4130000000000000, "1.04858e+06"),
    (0x4130000400000000, "1.04858e+06"),
    (0x0000000000000000, "0"),
    (0x8000000000000000, "-0"),
    (0x412e847f00000000, "1e+06"),
    (0x412e847effffffff, "999999"),
    (0x412e847e00000000, "999999"),
    (0x40f869ff33333333, "99999.9"),
    (0x3f1a36e2eb1c432d, "0.0001"),
    (0x3f1a36e20f35445e, "0.0001"),
    (0x3f1a36e20acf5dfe, "9.99999e-05"),
    (0x3f202e85aa468b90, "0.000123457"),
    (0x3f1a36e2eb1c432d, "0.0001"),
    (0x3f1a36e20acf5dfe, "9.99999e-05"),
    (0x40f86a0000000000, "100000"),
    (0x412e848000000000, "1e+06"),
    (0x416312d000000000, "1e+07"),
    (0x40fe240000000000, "123456"),
    (0x40fe240800000000, "123456"),
    (0x40fe241800000000, "123458"),
    (0x4132d68700000000, "1.23457e+06"),
    (0x40f86a0000000000, "100000"),
    (0x40f86a1800000000, "100002"),
    (0x3fb999999999999a, "0.1"),
    (0x3fc999999999999a, "0.2"),
    (0x3fd3333333333333, "0.3"),
    (0x3fd5555555555555, "0.333333"),
    (0x3fe5555555555555, "0.666667"),
    (0x4024000000000000, "10"),
    (0x4059000000000000, "100"),
    (0x408f400000000000, "1000"),
    (0x4023ffff583a53b9, "10"),
    (0x4023fffe08aefb2b, "9.99999"),
    (0x4058ffff2e48e8a7, "99.9999"),
    (0x3fe0000000000000, "0.5"),
    (0x3ff8000000000000, "1.5"),
    (0x4004000000000000, "2.5"),
    (0xbfd0000000000000, "-0.25"),
    (0xbff0000000000000, "-1"),
    (0xc12e847f00000000, "-1e+06"),
    (0xbee4f8b588e368f1, "-1e-05"),
    (0xc19d6f3454000000, "-1.23457e+08"),
    (0x54b249ad2594c37d, "1e+100"),
    (0x01b01297d23ab683, "1.5e-300"),
    (0x0000000000000001, "4.94066e-324"),
    (0x7fefffffffffffff, "1.79769e+308"),
    (0x430c6bf526340000, "1e+15"),
    (0x4341c37937e08000, "1e+16"),
    (0x4376345785d8a000, "1e+17"),
    (0x43abc16d674ec800, "1e+18"),
    (0x43e158e460913d00, "1e+19"),
    (0x43f0000000000000, "1.84467e+19"),
    (0x4400000000000000, "3.68935e+19"),
    (0x4480f0cf064dd592, "1e+22"),
    (0x3eb0c6f7a0b5ed8d, "1e-06"),
    (0x3eb0000000000000, "9.53674e-07"),
    (0x3eafe07017c01026, "9.5e-07"),
    (0x3ea0000000000000, "4.76837e-07"),
    (0x3e7ad7f29abcaf48, "1e-07"),
    (0x400921fb54442d11, "3.14159"),
    (0x4005bf0a8b04919b, "2.71828"),
    (0x3feffffde7210be9, "0.999999"),
    (0x3feffffef39085f5, "1"),
    (0x3feffffeee32223c, "0.999999"),
    (0x3feffffef8eee9ad, "1"),
    (0x4021000000000000, "8.5"),
    (0x3ff000053e2d6239, "1.00001"),
    (0x3ff000053e2d6239, "1.00001"),
    (0x3ff000053e2d6238, "1"),
    (0x3eb0000000000000, "9.53674e-07"),
    (0x3ec0000000000000, "1.90735e-06"),
    (0x3ec8000000000000, "2.86102e-06"),
    (0x3fac000000000000, "0.0546875"),
    (0x3fa7000000000000, "0.0449219"),
    (0x3fc9800000000000, "0.199219"),
    (0x3fb7000000000000, "0.0898438"),
    (0x3fec000000000000, "0.875"),
    (0x4040000000000000, "32"),
    (0x4010000000000000, "4"),
    (0x402c240000000000, "14.0703"),
    (0x402c480000000000, "14.1406"),
    (0x3f96000000000000, "0.0214844"),
    (0x3fa2000000000000, "0.0351562"),
    (0x3fd0000000000000, "0.25"),
    (0x4035c00000000000, "21.75"),
    (0x4035844000000000, "21.5166"),
    (0x3ff6e00000000000, "1.42969"),
    (0x40f9000000000000, "102400"),
    (0x40c7fffff4000000, "12288"),
    (0x40afe00000000000, "4080"),
    (0x40dfe00000000000, "32640"),
    (0x42b0000000000000, "1.75922e+13"),
    (0x3fe0000000000000, "0.5"),
    (0x4000000000000000, "2"),
    (0x4020000000000000, "8"),
    (0x4060000000000000, "128"),
    (0x3f98000000000000, "0.0234375"),
    (0x3feffffe00000000, "0.999999"),
    (0x3ff0000100000000, "1"),
    (0x3fb9999000000000, "0.0999994"),
    (0x4090000000000000, "1024"),
    (0x4056000000000000, "88"),
    (0x3f50000000000000, "0.000976562"),
    (0x3fb7000000000000, "0.0898438"),
    (0x3ff0000000000000, "1"),
    (0x3ff8000000000000, "1.5"),
    (0x4000000000000000, "2"),
    (0x404c000000000000, "56"),
    (0x4096e00000000000, "1464"),
    (0x40cc240000000000, "14408"),
    (0x40e0000000000000, "32768"),
    (0x4058fff000000000, "99.999"),
    (0x4059000000000000, "100"),
    (0x408f3ffe00000000, "999.999"),
    (0x408ffffe00000000, "1024"),
    (0x4130000000000000, "1.04858e+06"),
    (0x4167fffff4000000, "1.25829e+07"),
    (0x3fd4d00000000000, "0.325195"),
    (0x3fe8480000000000, "0.758789"),
    (0x7ff0000000000000, "inf"),
    (0xfff0000000000000, "-inf"),
    (0x7ff8000000000000, "nan"),
    (0xfff8000000000000, "-nan"),
];

#[test]
fn prints_as_c_does() {
    for &(bits, expected) in PRINTED_BY_C {
        let value = f64::from_bits(bits);
        assert_eq!(cpp_double(value).to_string(), expected, "{value:e}");
    }
}

#[test]
fn prints_the_figures_of_the_old_logs() {
    let mib = |bytes: u32| cpp_double(f64::from(bytes) / 1_048_576.0).to_string();
    assert_eq!(mib(57_344), "0.0546875");
    assert_eq!(mib(47_104), "0.0449219");
    assert_eq!(mib(208_896), "0.199219");
    assert_eq!(mib(0), "0");
    assert_eq!(mib(262_144), "0.25");
}

#[test]
fn fast_and_general_rounding_agree() {
    // A fixed linear congruential sequence: every binary exponent of the fast range with random
    // fractions, and with the short fractions that make exact ties.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for biased_exponent in 1023 - 20..=1023 + 63_u64 {
        for round in 0..2_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let kept_bits = 1 + round % 52;
            let fraction = (random >> 12) & !((1_u64 << (52 - kept_bits)) - 1);
            let value = f64::from_bits(biased_exponent << 52 | fraction);
            assert_eq!(
                Decimal::by_integers(value),
                Some(Decimal::by_core(value)),
                "{value:e}"
            );
        }
    }
}

#[test]
fn powers_of_ten_and_their_neighbours_agree() {
    for power in -6..=19 {
        let value = 10_f64.powi(power);
        for value in [value.next_down(), value, value.next_up()] {
            assert_eq!(
                Decimal::by_integers(value),
                Some(Decimal::by_core(value)),
                "{value:e}"
            );
        }
    }
}

#[test]
fn leaves_the_rest_to_the_general_method() {
    for value in [f64::MIN_POSITIVE / 2.0, 1e-7, 2_f64.powi(64), f64::MAX] {
        assert_eq!(Decimal::by_integers(value), None, "{value:e}");
    }
}
