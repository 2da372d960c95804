//! The directory of the library, and linker options that make the program of profile `dist` smaller:
//! functions with identical code are merged (generic code is instantiated many times with the same
//! outcome), and relocations are packed into a bitmap (glibc 2.36 or later reads it, and earlier ones
//! say that they do not).

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Only there is the toolchain's own linker, which knows the option, used by default.
    let has_lld = std::env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu");
    // Build scripts are told no other name of a profile than `release`.
    let is_dist = std::env::var("OUT_DIR")
        .is_ok_and(|folder| Path::new(&folder).iter().any(|part| part == "dist"));
    if has_lld && is_dist {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all,-z,pack-relative-relocs");
    }
    // A program that is installed from a checkout creates projects that use it. Packages are built
    // elsewhere, and are the same wherever that is.
    let library =
        std::env::var("CARGO_MANIFEST_DIR").map(|own| Path::new(&own).join("../mcp-flow"));
    if let Ok(Ok(library)) = library.map(|library| library.canonicalize())
        && !is_dist
    {
        println!("cargo::rustc-env=MCP_FLOW_LIBRARY={}", library.display());
    }
}
