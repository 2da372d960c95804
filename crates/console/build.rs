//! Embeds the files of `console/`, plain and compressed, with an entity tag for each.

use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> io::Result<()> {
    let place = |name| std::env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    // Read at run time: checkouts that share a target directory share this program.
    let folder = place("CARGO_MANIFEST_DIR")?.join("files");
    println!("cargo::rerun-if-changed={}", folder.display());
    let out = place("OUT_DIR")?;
    let mut files = Vec::new();
    collect(&folder, &mut files)?;
    files.sort();
    let mut table = String::from("pub(crate) const FILES: &[File] = &[\n");
    for (number, path) in files.iter().enumerate() {
        let body = fs::read(path)?;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&body)?;
        let zipped = out.join(format!("{number}.gz"));
        fs::write(&zipped, encoder.finish()?)?;
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        let name = path.strip_prefix(&folder).map_err(io::Error::other)?;
        let _ = writeln!(
            table,
            "    File {{ path: \"/{}\", tag: \"\\\"{:016x}\\\"\", body: include_bytes!({:?}), \
             zipped: include_bytes!({zipped:?}) }},",
            name.display(),
            hasher.finish(),
            path.canonicalize()?,
        );
    }
    table.push_str("];\n");
    fs::write(out.join("files.rs"), table)
}

/// Collects the files to serve: pages, scripts, styles and icons.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "node_modules" {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if ["html", "js", "css", "svg"]
            .iter()
            .any(|kind| path.extension().is_some_and(|extension| extension == *kind))
        {
            files.push(path);
        }
    }
    Ok(())
}
