//! `Vocab`.

use std::path::PathBuf;

use chatcodec::{Spelling, Vocab as CoreVocab};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes, PyDict, PyString, PyTuple};

use crate::array::IntArray;
use crate::errors::{VocabError, raise, raise_in};
use crate::input::{self, Ids, read_file};
use crate::typed::StrIntDict;

/// A vocabulary: text to ids and ids to text, never control from text. Frozen, shared between
/// threads, pickled as the content of its file.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct Vocab {
    inner: CoreVocab,
}

impl Vocab {
    pub(crate) fn new(inner: CoreVocab) -> Self {
        Self { inner }
    }

    /// What `Codec` takes: a path or a `Vocab`.
    pub(crate) fn from_argument(vocab: &Bound<'_, PyAny>) -> PyResult<CoreVocab> {
        match vocab.cast::<Self>() {
            Ok(vocab) => Ok(vocab.get().inner.clone()),
            Err(_) => load(vocab.py(), &vocab.extract::<PathBuf>()?),
        }
    }
}

/// Shorter texts are encoded without releasing the interpreter: that costs more than it gives.
const DETACH_BYTES: usize = 4096;

fn spelling(word: &str) -> PyResult<Spelling> {
    match word {
        "spell" => Ok(Spelling::Spell),
        "skip" => Ok(Spelling::Skip),
        _ => {
            Err(PyValueError::new_err(format!("control={word:?}, expected \"spell\" or \"skip\"")))
        }
    }
}

fn load(py: Python<'_>, path: &PathBuf) -> PyResult<CoreVocab> {
    let bytes = read_file(path, CoreVocab::MAX_FILE_BYTES as u64)?;
    let name = path.display().to_string();
    py.detach(|| CoreVocab::load(&bytes)).map_err(|error| raise_in(error, Some(&name)))
}

fn sha256<'py>(bytes: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyAny>> {
    let hashlib = bytes.py().import("hashlib")?;
    hashlib.call_method1("sha256", (bytes,))?.call_method0("hexdigest")
}

#[pymethods]
impl Vocab {
    /// Reads a vocabulary file; its kind is detected from its content. So far: SentencePiece
    /// `.model` files of type BPE with byte fallback.
    ///
    /// Raises `VocabError` for a file that is cut, of another kind, or uses what is not implemented,
    /// and `OSError` where there is none.
    #[staticmethod]
    #[pyo3(signature = (path: "str | PathLike[str]"))]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        load(py, &path).map(Self::new)
    }

    /// The vocabulary that comes with the package: InternLM2's layout of ids, its own merges.
    #[staticmethod]
    fn embedded() -> Self {
        Self::new(CoreVocab::embedded())
    }

    /// The number of ids, unused ones included.
    #[getter]
    fn size(&self) -> usize {
        self.inner.size()
    }

    /// Every spelling of every control token, with its id.
    #[getter]
    fn control<'py>(&self, py: Python<'py>) -> PyResult<StrIntDict<'py>> {
        let dict = PyDict::new(py);
        for (spelling, id) in self.inner.control() {
            dict.set_item(spelling, id)?;
        }
        Ok(StrIntDict(dict))
    }

    /// Whether decoding gives back every text, up to what the vocabulary normalises.
    #[getter]
    fn lossless(&self) -> bool {
        self.inner.lossless()
    }

    /// The kind of file it was read from: `"sentencepiece"`, `"tokenizer.json"`, `"tiktoken"` …
    #[getter]
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    /// Text to ids, never control. Raises `MessageError` for half of a surrogate pair.
    fn encode(&self, py: Python<'_>, text: &Bound<'_, PyString>) -> PyResult<IntArray> {
        let text = input::text(text, "text")?;
        let ids = if text.len() < DETACH_BYTES {
            self.inner.try_encode(text)
        } else {
            py.detach(|| self.inner.try_encode(text))
        };
        ids.map(IntArray::int32).map_err(raise)
    }

    /// Ids to text: control tokens as their spelling (`control="spell"`) or left out (`"skip"`).
    /// Bytes that are not UTF-8 become U+FFFD. Raises `VocabError` for an id outside the vocabulary.
    #[pyo3(signature = (ids, control = "spell"))]
    fn decode(&self, ids: Ids, control: &str) -> PyResult<String> {
        self.inner.decode(ids.plain()?, spelling(control)?).map_err(raise)
    }

    /// Ids to the bytes they stand for, control tokens as their spelling.
    fn decode_bytes<'py>(&self, py: Python<'py>, ids: Ids) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.inner.decode_bytes(ids.plain()?).map_err(raise)?))
    }

    /// The bytes of one token: its text, or a control token's spelling.
    #[pyo3(signature = (id: "SupportsIndex"))]
    fn token_bytes<'py>(&self, py: Python<'py>, id: Ids) -> PyResult<Bound<'py, PyBytes>> {
        let [id] = *id.plain()? else {
            return Err(PyTypeError::new_err("expected one id"));
        };
        Ok(PyBytes::new(py, self.inner.token_bytes(id).map_err(raise)?))
    }

    fn __repr__(&self) -> String {
        format!("Vocab(size={}, control={})", self.inner.size(), self.inner.control().len())
    }

    #[pyo3(signature = () -> "tuple[object, ...]")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let inner = &slf.get().inner;
        let source = inner.source().and_then(|files| files.files.first());
        let source = source.map(|(_, bytes)| PyBytes::new(py, bytes));
        let digest = source.as_ref().map(sha256).transpose()?;
        let arguments = (source, digest, inner.appended(), inner.aliases()).into_pyobject(py)?;
        let restore = py.get_type::<Self>().getattr("_restore")?;
        PyTuple::new(py, [restore, arguments.into_any()])
    }

    /// Makes a pickled vocabulary again.
    #[staticmethod]
    #[pyo3(signature = (
        source: "bytes | None",
        digest: "str | None",
        appended: "list[str]",
        aliases: "list[list[str]]"
    ))]
    fn _restore(
        source: Option<Bound<'_, PyBytes>>,
        digest: Option<String>,
        appended: Vec<String>,
        aliases: Vec<Vec<String>>,
    ) -> PyResult<Self> {
        let vocab = match source {
            None => CoreVocab::embedded(),
            Some(bytes) if Some(sha256(&bytes)?.extract()?) == digest => {
                CoreVocab::load(bytes.as_bytes()).map_err(raise)?
            }
            Some(_) => {
                let message = "vocabulary `file`: the pickled content does not fit its hash";
                return Err(VocabError::new_err((message, None::<String>, None::<usize>, "file")));
            }
        };
        vocab.restore(&appended, &aliases).map(Self::new).map_err(raise)
    }
}
