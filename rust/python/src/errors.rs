//! The exceptions of `chatcodec.errors`, raised from Rust.

use chatcodec::Error;
use pyo3::prelude::*;

// Imported when first raised: `chatcodec.errors` imports nothing of the package.
pyo3::import_exception!(chatcodec.errors, FormatError);
pyo3::import_exception!(chatcodec.errors, MessageError);
pyo3::import_exception!(chatcodec.errors, VocabError);

/// The exception for an error of the core.
pub(crate) fn raise(error: Error) -> PyErr {
    raise_in(error, None)
}

/// The same, for a vocabulary read from `file`.
pub(crate) fn raise_in(error: Error, file: Option<&str>) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Message { path, .. } => MessageError::new_err((message, path)),
        Error::Format { file, key, .. } => FormatError::new_err((message, file, key)),
        Error::Vocab { offset, component, .. } => {
            let message = file.map_or(message.clone(), |file| format!("`{file}`: {message}"));
            VocabError::new_err((message, file.map(str::to_owned), offset, component))
        }
    }
}
