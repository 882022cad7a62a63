//! The exceptions of `chatcodec.errors`, raised from Rust.

use chatcodec::{Error, excerpt, place};
use pyo3::prelude::*;

// Imported when first raised: `chatcodec.errors` imports nothing of the package.
pyo3::import_exception!(chatcodec.errors, DataError);
pyo3::import_exception!(chatcodec.errors, FormatError);
pyo3::import_exception!(chatcodec.errors, InternalError);
pyo3::import_exception!(chatcodec.errors, MessageError);
pyo3::import_exception!(chatcodec.errors, TemplateError);
pyo3::import_exception!(chatcodec.errors, VocabError);

/// Maximum length of an unexpected word in an error.
const SHOWN_WORD: usize = 80;

/// A caller's word in quotes: its ends, if it is long.
pub(crate) fn quoted(word: &str) -> String {
    format!("{:?}", excerpt(word, SHOWN_WORD))
}

/// The exception for data that cannot be read.
pub(crate) fn raise_data(problem: String) -> PyErr {
    DataError::new_err(problem)
}

/// The exception for an error of the core.
pub(crate) fn raise(error: impl Into<Error>) -> PyErr {
    raise_in(error, None)
}

/// The same, for a template of a file.
pub(crate) fn raise_of(error: Error, file: &str) -> PyErr {
    let message = format!("`{}`: {error}", place(file));
    match error {
        Error::Template { line, column, .. } => TemplateError::new_err((message, line, column)),
        error => raise(error),
    }
}

/// The same, for a vocabulary read from `file`.
pub(crate) fn raise_in(error: impl Into<Error>, file: Option<&str>) -> PyErr {
    let error = error.into();
    let message = error.to_string();
    let place = |text: &str| place(text).into_owned();
    match error {
        Error::Message { path, .. } => MessageError::new_err((message, place(&path))),
        Error::Format { file, key, .. } => {
            FormatError::new_err((message, place(&file), place(&key)))
        }
        Error::Template { line, column, .. } => TemplateError::new_err((message, line, column)),
        Error::Vocab { offset, component, .. } => {
            let file = file.map(place);
            let message =
                file.as_ref().map_or(message.clone(), |file| format!("`{file}`: {message}"));
            VocabError::new_err((message, file, offset, component))
        }
    }
}
