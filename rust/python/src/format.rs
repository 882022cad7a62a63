//! `Format`.

use std::path::{Path, PathBuf};

use chatcodec::{Format as CoreFormat, Witness as CoreWitness, place};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyString, PyTuple};

use crate::away::away;
use crate::errors::{FormatError, raise};
use crate::files;
use crate::vocab::Vocab;
use crate::witness::Witness;

/// A chat format: one TOML file, read and checked. Frozen.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct Format {
    inner: CoreFormat,
}

impl Format {
    pub(crate) fn new(inner: CoreFormat) -> Self {
        Self { inner }
    }

    /// Converts the argument of `Codec`: the name of a built-in format, or a `Format`.
    pub(crate) fn inner(&self) -> &CoreFormat {
        &self.inner
    }

    pub(crate) fn from_argument(format: &Bound<'_, PyAny>) -> PyResult<CoreFormat> {
        if let Ok(format) = format.cast::<Self>() {
            return Ok(format.get().inner.clone());
        }
        let name = format.cast::<PyString>()?;
        CoreFormat::built_in(&name.to_string_lossy()).map_err(raise)
    }
}

#[pymethods]
impl Format {
    /// Reads a format file, or one of its variants. Raises `FormatError` with the invalid key, or
    /// for a path that is not a regular file, such as a pipe; `OSError` for a path that does not
    /// exist.
    #[staticmethod]
    #[pyo3(signature = (path: "str | PathLike[str]", *, variant: "str | None" = None))]
    fn load(py: Python<'_>, path: PathBuf, variant: Option<String>) -> PyResult<Self> {
        let name = path.display().to_string();
        away(py, move || {
            let text = read(&path)?;
            CoreFormat::parse_variant(&name, &text, variant.as_deref()).map_err(raise)
        })?
        .map(Self::new)
    }

    /// Looks for a conversation that a format file, which `load` refuses, would read as another one: what
    /// the refusal is about. `vocab` has the file's control tokens. The search tries some thousand
    /// conversations, always the same ones. None: none was found, or the file loads.
    ///
    /// Raises `FormatError` for a file that is refused for more than what could be read in two ways,
    /// `VocabError` for a vocabulary that lacks its tokens, and what `load` raises for a path.
    #[staticmethod]
    #[pyo3(signature = (path: "str | PathLike[str]", vocab, *, variant: "str | None" = None))]
    fn witness(
        py: Python<'_>,
        path: PathBuf,
        vocab: &Vocab,
        variant: Option<String>,
    ) -> PyResult<Option<Witness>> {
        let (name, vocab) = (path.display().to_string(), vocab.inner().clone());
        away(py, move || {
            let text = read(&path)?;
            if CoreFormat::parse_variant(&name, &text, variant.as_deref()).is_ok() {
                return Ok(None);
            }
            CoreWitness::of(&name, &text, variant.as_deref(), &vocab).map_err(raise)
        })?
        .map(|found| found.map(Witness::new))
    }

    /// A built-in format by name, or a variant of one after a colon: `"deepseek:v3"`. Raises
    /// `FormatError` with the nearest names for an unknown name.
    #[staticmethod]
    fn built_in(name: &str) -> PyResult<Self> {
        CoreFormat::built_in(name).map(Self::new).map_err(raise)
    }

    /// The built-in format that a model was trained on, by the model's name: `"Qwen/Qwen3-8B"`,
    /// `"gpt-oss-120b"`. Raises `FormatError` with the nearest names for an unknown model.
    #[staticmethod]
    fn for_model(name: &str) -> PyResult<Self> {
        CoreFormat::for_model(name).map(Self::new).map_err(raise)
    }

    /// The name of the format.
    #[getter]
    fn name(&self) -> &str {
        self.inner.name()
    }

    /// `"ids"` for turns delimited by ids; `"text"` for turns delimited by markers that are
    /// ordinary text.
    #[getter]
    fn guarantee(&self) -> &'static str {
        self.inner.guarantee().name()
    }

    /// The reference that the format follows.
    #[getter]
    fn source(&self) -> &str {
        self.inner.source()
    }

    /// The kinds of vocabulary that the format is made for, in words.
    #[getter]
    fn vocabulary(&self) -> &str {
        self.inner.vocabulary()
    }

    /// The kinds of media parts for which the format has placeholders, among `image`, `video` and `audio`.
    /// A codec's format has those whose tokens the vocabulary has.
    #[getter]
    fn media(&self) -> Words {
        self.inner.media()
    }

    /// What `encode` takes for this format beside its own options: of `thinking`, `date` and `effort`.
    #[getter]
    fn options(&self) -> Words {
        self.inner.options()
    }

    /// What a conversation loses on a round trip, worked out from the file.
    #[getter]
    fn losses(&self) -> Words {
        self.inner.losses()
    }

    /// The file's text.
    #[getter]
    fn text(&self) -> &str {
        self.inner.text()
    }

    fn __repr__(&self) -> String {
        format!("Format({:?})", self.inner.name())
    }

    #[pyo3(signature = () -> "tuple[object, ...]")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let inner = &slf.get().inner;
        let arguments = (inner.name(), inner.text(), inner.variant()).into_pyobject(py)?;
        PyTuple::new(py, [py.get_type::<Self>().getattr("_restore")?, arguments.into_any()])
    }

    /// Makes a pickled format again.
    #[staticmethod]
    #[pyo3(signature = (name, text, variant = None))]
    fn _restore(name: &str, text: &str, variant: Option<&str>) -> PyResult<Self> {
        CoreFormat::parse_variant(name, text, variant).map(Self::new).map_err(raise)
    }
}

/// The text of a format file.
fn read(path: &Path) -> PyResult<String> {
    let bytes = files::read(path, CoreFormat::MAX_FILE_BYTES as u64)
        .map_err(|failure| failure.of_format(path))?;
    String::from_utf8(bytes).map_err(|_| {
        let name = place(&path.display().to_string()).into_owned();
        let message = format!("format `{name}`: is not UTF-8");
        FormatError::new_err((message, name, String::new()))
    })
}

/// Sentences or names.
type Words = Vec<&'static str>;

/// The names of the built-in formats, and of their variants after a colon.
#[pyfunction]
pub(crate) fn formats() -> Words {
    CoreFormat::names().collect()
}
