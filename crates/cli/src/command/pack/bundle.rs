//! The bundle: a ZIP archive with the manifest, the program and its files.

use std::fs::File;
use std::io::{BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ring::digest::{Context as Digest, SHA256};
use tempfile::NamedTempFile;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{publish, usage};
use crate::platform::{is_executable, set_mode};

/// Files of a bundle with their paths in it, besides the manifest.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    files: Vec<BundleFile>,
}

#[derive(Debug)]
struct BundleFile {
    from: PathBuf,
    name: String,
    is_program: bool,
}

impl Bundle {
    pub(super) fn add_program(&mut self, from: PathBuf, name: String) {
        self.files.push(BundleFile { from, name, is_program: true });
    }

    pub(super) fn add(&mut self, from: PathBuf, name: String) -> anyhow::Result<()> {
        if self.files.iter().any(|file| file.name == name) {
            let message = format!("{} has the name of the program; rename it", from.display());
            return Err(usage(message));
        }
        // Scripts that tools run stay executable.
        let is_program = is_executable(&from);
        self.files.push(BundleFile { from, name, is_program });
        Ok(())
    }

    /// Copies the files to a directory, as a host installs them.
    pub(super) fn copy_to(&self, folder: &Path) -> anyhow::Result<()> {
        for file in &self.files {
            let to = folder.join(&file.name);
            let cannot = || format!("cannot copy {}", file.from.display());
            std::fs::create_dir_all(to.parent().unwrap_or(folder)).with_context(cannot)?;
            std::fs::copy(&file.from, &to).with_context(cannot)?;
            if file.is_program {
                set_mode(&to, 0o755).with_context(cannot)?;
            }
        }
        Ok(())
    }

    /// Writes the bundle to a new file. Returns its SHA-256 digest in hexadecimal digits.
    ///
    /// The same files give the same bytes.
    pub(super) fn write(&self, manifest: &str, path: &Path) -> anyhow::Result<String> {
        let cannot = || format!("cannot create {}", path.display());
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = NamedTempFile::new_in(folder).with_context(cannot)?;
        let mut archive = ZipWriter::new(file.as_file_mut());
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        archive
            .start_file("manifest.json", options.unix_permissions(0o644))
            .with_context(cannot)?;
        archive.write_all(manifest.as_bytes()).with_context(cannot)?;
        for entry in &self.files {
            let mode = if entry.is_program { 0o755 } else { 0o644 };
            archive.start_file(&entry.name, options.unix_permissions(mode)).with_context(cannot)?;
            let mut source = File::open(&entry.from)
                .with_context(|| format!("cannot read {}", entry.from.display()))?;
            let copied = std::io::copy(&mut (&mut source).take(MAX_FILE), &mut archive);
            if copied.with_context(cannot)? == MAX_FILE {
                let message = format!("{} is larger than 2 GiB", entry.from.display());
                return Err(usage(message));
            }
        }
        archive.finish().with_context(cannot)?;
        let digest = digest(file.path()).with_context(cannot)?;
        publish(file, path)?;
        Ok(digest)
    }
}

fn digest(path: &Path) -> std::io::Result<String> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut digest, mut buffer) = (Digest::new(&SHA256), vec![0; 64 * 1024]);
    loop {
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        digest.update(&buffer[..count]);
    }
    Ok(digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Longest file. Larger ones need an extension of the format that not every host reads.
const MAX_FILE: u64 = 2 << 30;
