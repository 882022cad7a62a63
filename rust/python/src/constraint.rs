//! `Constraint`: what a model may generate, printed for a backend.

use chatcodec::Constraint as CoreConstraint;
use pyo3::prelude::*;

use crate::errors::raise;

/// What a model may generate: the answers that the format reads as the calls and text that were asked for.
///
/// It is made by `Codec.constrain` and printed in the syntax of a backend that masks tokens. Control tokens are
/// named by their ids, so that text that spells one is neither a call nor forbidden. Frozen, shared freely
/// between threads.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct Constraint {
    inner: CoreConstraint,
}

impl Constraint {
    pub(crate) fn new(inner: CoreConstraint) -> Self {
        Self { inner }
    }
}

#[pymethods]
impl Constraint {
    /// The grammar for llguidance 1.x, in its Lark syntax, by itself or as the backend of a
    /// server.
    ///
    /// Raises `MessageError` for what llguidance cannot express.
    fn lark(&self) -> PyResult<String> {
        self.inner.lark().map_err(raise)
    }

    /// The places of the schemas that arguments do not follow, because of `strict=False`:
    /// `tools[0].function.parameters`.
    #[getter]
    fn weakened(&self) -> Vec<String> {
        self.inner.weakened().to_vec()
    }

    fn __repr__(&self) -> String {
        let weakened = self.inner.weakened().len();
        format!("Constraint({weakened} schemas weakened)")
    }
}
