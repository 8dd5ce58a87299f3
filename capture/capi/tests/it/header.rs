//! The committed header is the one that the sources make.

use std::path::Path;

const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include/ttmem.h");

fn generate() -> String {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(package.join("cbindgen.toml"))
        .expect("the configuration is right");
    let builder = cbindgen::Builder::new().with_config(config);
    let sources = [
        "version",
        "code",
        "ids",
        "constants",
        "client",
        "account",
        "define",
        "record/device",
        "record/buffer",
        "record/program",
        "record/cache",
        "legacy",
    ];
    let builder = sources.iter().fold(builder, |builder, source| {
        builder.with_src(package.join("src").join(source).with_extension("rs"))
    });
    let mut text = Vec::new();
    let bindings = builder.generate().expect("the sources can be read");
    bindings.write(&mut text);
    String::from_utf8(text).expect("the sources are UTF-8")
}

#[test]
fn the_committed_header_is_the_generated_one() {
    let generated = generate();
    if std::env::var_os("TTMEM_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(HEADER, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(HEADER).unwrap();
    assert!(
        committed == generated,
        "include/ttmem.h is not what the sources say; TTMEM_BLESS=1 writes it anew"
    );
}
