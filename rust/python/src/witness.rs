//! `Witness`.

use chatcodec::Witness as CoreWitness;
use pyo3::prelude::*;

use crate::node::message_list;
use crate::typed::MessageList;

/// A conversation that a refused format file would read as another one. Frozen.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct Witness {
    inner: CoreWitness,
}

impl Witness {
    pub(crate) fn new(inner: CoreWitness) -> Self {
        Self { inner }
    }
}

#[pymethods]
impl Witness {
    /// The messages of the conversation.
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<MessageList<'py>> {
        message_list(py, &self.inner.messages).map(MessageList)
    }

    /// The declared tools, as text; None without any.
    #[getter]
    fn tools(&self) -> Option<&str> {
        self.inner.tools.as_deref()
    }

    /// The text that the file writes, with control tokens spelled out.
    #[getter]
    fn text(&self) -> &str {
        &self.inner.text
    }

    /// The messages that should come back.
    #[getter]
    fn expected<'py>(&self, py: Python<'py>) -> PyResult<MessageList<'py>> {
        message_list(py, &self.inner.expected).map(MessageList)
    }

    /// The messages that come back instead.
    #[getter]
    fn read<'py>(&self, py: Python<'py>) -> PyResult<MessageList<'py>> {
        message_list(py, &self.inner.read).map(MessageList)
    }

    /// What a stream reports of the text beside the messages: tokens that it does not expect.
    #[getter]
    fn notices(&self) -> Vec<&str> {
        self.inner.notices.iter().map(String::as_str).collect()
    }

    fn __repr__(&self) -> String {
        format!("Witness({:?})", self.inner.text)
    }
}
