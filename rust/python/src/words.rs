//! Words of closed sets, as Python strings. `chatcodec.events` lists each set as a `Literal`; the stubs use
//! those names.

use std::borrow::Cow;
use std::convert::Infallible;

use pyo3::prelude::*;
use pyo3::types::PyString;

/// Declares a string type whose annotation in the stubs is `chatcodec.events.$alias`. Any string is accepted
/// from Python: the place that uses a word checks it.
macro_rules! word {
    ($(#[$meta:meta])* $name:ident, $alias:literal) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub(crate) struct $name(Cow<'static, str>);

        impl std::ops::Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl From<&'static str> for $name {
            fn from(word: &'static str) -> Self {
                Self(Cow::Borrowed(word))
            }
        }

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            #[cfg(feature = "testing")]
            const INPUT_TYPE: pyo3::inspect::PyStaticExpr =
                pyo3::type_hint_identifier!("chatcodec.events", $alias);

            fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                Ok(Self(Cow::Owned(object.extract()?)))
            }
        }

        impl<'py> IntoPyObject<'py> for &$name {
            type Target = PyString;
            type Output = Bound<'py, PyString>;
            type Error = Infallible;

            #[cfg(feature = "testing")]
            const OUTPUT_TYPE: pyo3::inspect::PyStaticExpr =
                pyo3::type_hint_identifier!("chatcodec.events", $alias);

            fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
                Ok(PyString::new(py, &self.0))
            }
        }

        impl<'py> IntoPyObject<'py> for $name {
            type Target = PyString;
            type Output = Bound<'py, PyString>;
            type Error = Infallible;

            #[cfg(feature = "testing")]
            const OUTPUT_TYPE: pyo3::inspect::PyStaticExpr =
                pyo3::type_hint_identifier!("chatcodec.events", $alias);

            fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
                (&self).into_pyobject(py)
            }
        }
    };
}

word! {
    /// Kind of a media part.
    MediaKindWord, "MediaKind"
}
word! {
    /// The role of a turn.
    RoleWord, "Role"
}
word! {
    /// The kind of a call.
    CallKindWord, "CallKind"
}
word! {
    /// Why a turn ended.
    TurnReasonWord, "TurnReason"
}
word! {
    /// The kind of a notice.
    NoticeKindWord, "NoticeKind"
}
word! {
    /// The kind of a note.
    NoteKindWord, "NoteKind"
}
