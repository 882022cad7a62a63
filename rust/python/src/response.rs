//! `ResponseTemplate`.

use chatcodec::ResponseTemplate as CoreResponse;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyString, PyTuple};

use crate::errors::raise;

/// A response template: how the authors of a model say that its completions are read, version 1 of transformers'
/// `response_template`. Frozen; a `reader` of `Codec`.
///
/// `template` is the dict, or its JSON text. Anchors that spell a control token are its id. The field `content` is
/// text, `reasoning_content`, `reasoning`, `thinking`, `thought` and `analysis` are reasoning, `tool_calls` are calls,
/// and of any other field the text comes in a notice. Raises `FormatError` with the invalid key.
#[pyclass(module = "chatcodec._core", frozen)]
pub(crate) struct ResponseTemplate {
    inner: CoreResponse,
}

impl ResponseTemplate {
    pub(crate) fn new_of(inner: CoreResponse) -> Self {
        Self { inner }
    }

    pub(crate) fn inner(&self) -> &CoreResponse {
        &self.inner
    }
}

#[pymethods]
impl ResponseTemplate {
    #[new]
    #[pyo3(signature = (template: "str | Mapping[str, object]"))]
    fn new(template: &Bound<'_, PyAny>) -> PyResult<Self> {
        let text = if let Ok(text) = template.cast::<PyString>() {
            text.clone()
        } else {
            let options = PyDict::new(template.py());
            options.set_item("ensure_ascii", false)?;
            let json = template.py().import("json")?;
            json.getattr("dumps")?.call((template,), Some(&options))?.cast_into()?
        };
        let source = crate::ids::text(&text, "template")?;
        Ok(Self { inner: CoreResponse::parse(source).map_err(raise)? })
    }

    /// The template, as JSON text.
    #[getter]
    fn source(&self) -> &str {
        self.inner.source()
    }

    /// The names of its fields.
    #[getter]
    fn fields(&self) -> Vec<&str> {
        self.inner.fields().collect()
    }

    fn __repr__(&self) -> String {
        let fields: Vec<&str> = self.inner.fields().collect();
        format!("ResponseTemplate({})", fields.join(", "))
    }

    #[pyo3(signature = () -> "tuple[object, ...]")]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let arguments = PyTuple::new(py, [slf.get().inner.source()])?;
        PyTuple::new(py, [slf.get_type().as_any(), arguments.as_any()])
    }
}
