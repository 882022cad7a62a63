//! Lists the files of `formats/`, so that a new format file needs no line of code.
//!
//! In: `formats/*.toml` and `formats/declare/*.jinja`. Out: `formats.rs` and `declare.rs`, each a list of names with
//! texts, in the order of the names.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let formats = Path::new(&var("CARGO_MANIFEST_DIR")).join("formats");
    let out = PathBuf::from(var("OUT_DIR"));
    list(&formats, "toml", &out.join("formats.rs"))?;
    list(&formats.join("declare"), "jinja", &out.join("declare.rs"))
}

/// Writes the list of a folder's files with an extension.
fn list(folder: &Path, extension: &str, out: &Path) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort_by_key(|path| path.file_stem().map(ToOwned::to_owned));
    let line = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        format!("    ({name:?}, include_str!({:?})),\n", path.display().to_string())
    };
    let lines: String = files.iter().map(line).collect();
    fs::write(out, format!("&[\n{lines}]\n"))
}

/// A variable that Cargo sets.
fn var(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
