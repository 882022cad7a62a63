//! `Constraint`: what a model may generate, printed for a backend.

use std::sync::Arc;

use chatcodec::Constraint as CoreConstraint;
use pyo3::prelude::*;

use crate::away::away;
use crate::encoding::no_pickle;
use crate::errors::raise;

/// What a model may generate: the answers that the format reads as the calls and text that were asked for.
///
/// It is made by `Codec.constrain` and printed in the syntax of a backend that masks tokens. Control tokens are
/// named by their ids, so that text that spells one is neither a call nor forbidden. Frozen, shared freely
/// between threads.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct Constraint {
    inner: Arc<CoreConstraint>,
}

impl Constraint {
    pub(crate) fn new(inner: Arc<CoreConstraint>) -> Self {
        Self { inner }
    }

    /// Prints the constraint, with the interpreter released: large schemas take seconds.
    fn printed<T: Send + 'static>(
        &self,
        py: Python<'_>,
        print: impl FnOnce(&CoreConstraint) -> T + Send + 'static,
    ) -> PyResult<T> {
        let inner = Arc::clone(&self.inner);
        away(py, move || print(&inner))
    }
}

#[pymethods]
impl Constraint {
    /// Raises `TypeError`: a constraint cannot be pickled, as it holds its codec's tables.
    #[pyo3(signature = () -> "tuple[object, ...]")]
    #[expect(clippy::unused_self, reason = "the protocol's signature")]
    fn __reduce__(&self) -> PyResult<()> {
        Err(no_pickle("Constraint", "`constraint.lark()`, `constraint.structural_tag()`"))
    }

    /// The grammar for llguidance 1.7 or newer, in its Lark syntax, by itself or as the backend of a
    /// server.
    ///
    /// With `unicode_escapes`, strings of JSON may escape any character by its number, as some chat templates write
    /// them; llguidance before 1.8, which vLLM 0.33 has, refuses such a grammar.
    ///
    /// Raises `MessageError` for what llguidance cannot express.
    #[pyo3(signature = (*, unicode_escapes=false))]
    fn lark(&self, py: Python<'_>, unicode_escapes: bool) -> PyResult<String> {
        self.printed(py, move |inner| inner.lark(unicode_escapes))?.map_err(raise)
    }

    /// The constraint for xgrammar 0.2 as a structural tag, in JSON: `Grammar.from_structural_tag`, the option
    /// `structural_tag` of servers. Control tokens are named by their ids. A stop id may follow where the
    /// constraint is complete. It is exact with `xgrammar_tokens`; with other tokens, text admits control tokens
    /// that the vocabulary spells.
    ///
    /// Raises `MessageError` for what xgrammar cannot express.
    fn structural_tag(&self, py: Python<'_>) -> PyResult<String> {
        self.printed(py, CoreConstraint::structural_tag)?.map_err(raise)
    }

    /// The bytes of each id for `xgrammar.TokenizerInfo(constraint.xgrammar_tokens(), VocabType.RAW, …)`. Those of a
    /// control token begin with 0xFF, which is in no text: no text admits a control token.
    fn xgrammar_tokens(&self, py: Python<'_>) -> Vec<std::borrow::Cow<'_, [u8]>> {
        py.detach(|| self.inner.xgrammar_tokens()).into_iter().map(Into::into).collect()
    }

    /// The constraint in llama.cpp's GBNF, with control tokens by their ids: `<[92542]>`. A stop id may follow where
    /// the constraint is complete. llama.cpp takes text for a control token that it spells; so text spells none,
    /// neither in an answer nor in arguments.
    ///
    /// Raises `MessageError` for what llama.cpp cannot express.
    fn gbnf(&self, py: Python<'_>) -> PyResult<String> {
        self.printed(py, CoreConstraint::gbnf)?.map_err(raise)
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
