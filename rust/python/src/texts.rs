//! Texts of events: Python strings, those of single ids made once for each codec.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use chatcodec::{Plain, Vocab};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PyString};

/// A Python string that is text: it holds no half of a surrogate pair.
pub(crate) struct Str(Py<PyString>);

impl Str {
    pub(crate) fn new(py: Python<'_>, text: &str) -> Self {
        Self(PyString::new(py, text).unbind())
    }

    pub(crate) fn to_owned(&self, py: Python<'_>) -> String {
        self.as_str(py).to_owned()
    }

    fn as_str<'a>(&'a self, py: Python<'a>) -> &'a str {
        self.0.bind(py).to_str().unwrap_or_default()
    }
}

impl PartialEq for Str {
    fn eq(&self, other: &Self) -> bool {
        self.0.is(&other.0) || Python::attach(|py| self.as_str(py) == other.as_str(py))
    }
}

impl Eq for Str {}

impl Hash for Str {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Python::attach(|py| self.as_str(py).hash(state));
    }
}

impl<'py> FromPyObject<'_, 'py> for Str {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = obj.py();
        let text = obj.cast::<PyString>()?;
        let content = text.to_str()?;
        if obj.is_exact_instance_of::<PyString>() {
            return Ok(Self(text.to_owned().unbind()));
        }
        Ok(Self::new(py, content))
    }
}

impl<'a, 'py> IntoPyObject<'py> for &'a Str {
    type Target = PyString;
    type Output = Borrowed<'a, 'py, PyString>;
    type Error = std::convert::Infallible;

    #[cfg(feature = "testing")]
    const OUTPUT_TYPE: pyo3::inspect::PyStaticExpr =
        <PyString as pyo3::type_object::PyTypeInfo>::TYPE_HINT;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(self.0.bind_borrowed(py))
    }
}

/// The texts of ids that are nothing but text. Memory: 16 bytes for each id of the vocabulary once one of
/// them is told, and a string for each id that was.
#[derive(Default)]
pub(crate) struct Texts {
    by_id: OnceLock<Box<[PyOnceLock<Py<PyString>>]>>,
}

impl Texts {
    pub(crate) fn get(&self, py: Python<'_>, plain: &Plain, vocab: &Vocab) -> Str {
        let empty = || (0..vocab.size()).map(|_| PyOnceLock::new()).collect();
        let by_id = self.by_id.get_or_init(empty);
        let text = || PyString::new(py, plain.text(vocab)).unbind();
        match usize::try_from(plain.id).ok().and_then(|at| by_id.get(at)) {
            Some(known) => Str(known.get_or_init(py, text).clone_ref(py)),
            None => Str(text()),
        }
    }
}
