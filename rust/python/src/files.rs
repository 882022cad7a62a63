//! Reading of files that a caller names: regular files only, up to a limit.
//!
//! A pipe, a device or a socket is refused before it is read: reading it may block forever.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use pyo3::prelude::*;

use crate::errors::{FormatError, TemplateError, VocabError};

/// Why a file cannot be read.
pub(crate) enum Failure {
    /// The system's reason.
    System(io::Error),
    /// The kind of the path, if it is not a regular file.
    Kind(&'static str),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::System(error) => write!(f, "{error}"),
            Self::Kind(kind) => write!(f, "it is {kind}, expected a file"),
        }
    }
}

impl Failure {
    /// The exception for a vocabulary's file.
    pub(crate) fn of_vocab(self, path: &Path) -> PyErr {
        match self {
            Self::System(error) => os_error(error, path),
            Self::Kind(kind) => {
                let name = shown(path);
                let message = format!("`{name}`: vocabulary `file`: is {kind}, expected a file");
                VocabError::new_err((message, name, None::<usize>, "file"))
            }
        }
    }

    /// The exception for a template's file.
    pub(crate) fn of_template(self, path: &Path) -> PyErr {
        match self {
            Self::System(error) => os_error(error, path),
            Self::Kind(kind) => {
                let message = format!("template `{}`: is {kind}, expected a file", shown(path));
                TemplateError::new_err((message, 0, 0))
            }
        }
    }

    /// The exception for a format's file.
    pub(crate) fn of_format(self, path: &Path) -> PyErr {
        match self {
            Self::System(error) => os_error(error, path),
            Self::Kind(kind) => {
                let name = shown(path);
                let message = format!("format `{name}`: is {kind}, expected a file");
                FormatError::new_err((message, name, String::new()))
            }
        }
    }
}

/// Opens a regular file.
pub(crate) fn open(path: &Path) -> Result<File, Failure> {
    check(&std::fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // A path that has become a pipe since does not block.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

fn check(metadata: &Metadata) -> Result<(), Failure> {
    // The system refuses to read folders, and says so.
    if metadata.is_file() || metadata.is_dir() {
        return Ok(());
    }
    Err(Failure::Kind("a pipe, a device or a socket"))
}

/// A file's bytes, at most `limit` of them and one more.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The `OSError` of a path.
pub(crate) fn os_error(error: io::Error, path: &Path) -> PyErr {
    let reason = error.to_string();
    let reason = reason.split(" (os error").next().unwrap_or_default().to_owned();
    let name = path.as_os_str();
    // Longer names are invalid; the error says so.
    let name = if name.len() > LONGEST { shown(path).into() } else { name.to_owned() };
    pyo3::exceptions::PyOSError::new_err((error.raw_os_error(), reason, name))
}

/// Maximum length of a path that is shown in full.
const LONGEST: usize = 1024;

fn shown(path: &Path) -> String {
    chatcodec::place(&path.display().to_string()).into_owned()
}
