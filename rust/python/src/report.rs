//! `VocabReport`: how a vocabulary is read, and why.

use chatcodec::VocabReport as CoreReport;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::typed::{StrDict, StrIntDict, Strs};

/// How a vocabulary is read, and why, in words: `Vocab.report`. `str` gives the report as lines of
/// text, which `chatcodec vocab` shows too.
#[pyclass(module = "chatcodec._core", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct VocabReport {
    inner: CoreReport,
}

impl VocabReport {
    pub(crate) fn new(inner: CoreReport) -> Self {
        Self { inner }
    }
}

#[pymethods]
impl VocabReport {
    /// The engine that encodes text: `"bytes"` or `"characters"`, our engines, named by their
    /// merged units; or `"tokenizers"`, the library.
    #[getter]
    fn engine(&self) -> &'static str {
        self.inner.engine
    }

    /// The reason for the engine; for `"tokenizers"`, the features that our engines do not have.
    #[getter]
    fn engine_reason(&self) -> &str {
        &self.inner.engine_reason
    }

    /// Reasons why some texts do not survive encoding and decoding; empty for a `lossless`
    /// vocabulary.
    #[getter]
    fn losses<'py>(&self, py: Python<'py>) -> PyResult<Strs<'py>> {
        PyTuple::new(py, &self.inner.losses).map(Strs)
    }

    /// Normalisation of text before it is split: `"nothing"`, `"NFC"` …
    #[getter]
    fn normalizer(&self) -> &str {
        &self.inner.normalizer
    }

    /// How text is split before tokens merge.
    #[getter]
    fn pre_tokenizer(&self) -> &str {
        &self.inner.pre_tokenizer
    }

    /// Source of the split: the file, its fingerprint, a name in it, or the caller.
    #[getter]
    fn known_by(&self) -> &str {
        &self.inner.known_by
    }

    /// Bytes of UTF-8 without a token: text with one of them is refused.
    #[getter]
    fn missing_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.missing_bytes)
    }

    /// The added tokens that are text, each with the rule that makes it text.
    #[getter]
    fn text_rules<'py>(&self, py: Python<'py>) -> PyResult<StrDict<'py>> {
        let dict = PyDict::new(py);
        for (spelling, rule) in &self.inner.text_rules {
            dict.set_item(spelling, rule)?;
        }
        Ok(StrDict(dict))
    }

    /// Control tokens that a format appended after the last id, with their ids.
    #[getter]
    fn appended<'py>(&self, py: Python<'py>) -> PyResult<StrIntDict<'py>> {
        let dict = PyDict::new(py);
        for (spelling, id) in &self.inner.appended {
            dict.set_item(spelling, id)?;
        }
        Ok(StrIntDict(dict))
    }

    /// Hash of the tokens of a file of ranks, 64 bits, by which known files are recognised; `None`
    /// for other files.
    #[getter]
    fn fingerprint(&self) -> Option<&str> {
        self.inner.fingerprint.as_deref()
    }

    fn __str__(&self) -> String {
        self.inner.to_string()
    }

    fn __repr__(&self) -> String {
        let CoreReport { engine, losses, .. } = &self.inner;
        format!("VocabReport(engine={engine:?}, losses={})", losses.len())
    }
}
