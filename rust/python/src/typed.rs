//! Return types that carry their annotation into the stubs.

use std::convert::Infallible;

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyIterator, PyList, PyTuple};
#[cfg(feature = "testing")]
use pyo3::{type_hint_identifier, type_hint_subscript, type_hint_union};

/// Declares a wrapper of a `Bound` whose annotation in the stubs is `$hint`.
macro_rules! typed_return {
    ($(#[$meta:meta])* $name:ident, $target:ty, $hint:expr) => {
        $(#[$meta])*
        pub(crate) struct $name<'py>(pub(crate) Bound<'py, $target>);

        impl<'py> IntoPyObject<'py> for $name<'py> {
            type Target = $target;
            type Output = Bound<'py, $target>;
            type Error = Infallible;

            #[cfg(feature = "testing")]
            const OUTPUT_TYPE: pyo3::inspect::PyStaticExpr = $hint;

            fn into_pyobject(self, _py: Python<'py>) -> Result<Self::Output, Self::Error> {
                Ok(self.0)
            }
        }
    };
}

#[cfg(feature = "testing")]
const ELLIPSIS: pyo3::inspect::PyStaticExpr =
    pyo3::inspect::PyStaticExpr::Constant { value: pyo3::inspect::PyStaticConstant::Ellipsis };

typed_return!(
    /// `list[int]`
    IntList, PyList,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "list"),
        type_hint_identifier!("builtins", "int")
    )
);

typed_return!(
    /// `Iterator[int]`
    IntIter, PyIterator,
    type_hint_subscript!(
        type_hint_identifier!("collections.abc", "Iterator"),
        type_hint_identifier!("builtins", "int")
    )
);

typed_return!(
    /// `tuple[str, ...]`
    Strs, PyTuple,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "tuple"),
        type_hint_identifier!("builtins", "str"),
        ELLIPSIS
    )
);

typed_return!(
    /// `tuple[str | None, ...]`
    Paths, PyTuple,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "tuple"),
        type_hint_union!(
            type_hint_identifier!("builtins", "str"),
            type_hint_identifier!("builtins", "None")
        ),
        ELLIPSIS
    )
);

typed_return!(
    /// `tuple[Dropped, ...]`
    DroppedTuple, PyTuple,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "tuple"),
        <crate::encoding::Dropped as pyo3::PyTypeInfo>::TYPE_HINT,
        ELLIPSIS
    )
);

typed_return!(
    /// `tuple[Placeholder, ...]`
    PlaceholderTuple, PyTuple,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "tuple"),
        <crate::encoding::Placeholder as pyo3::PyTypeInfo>::TYPE_HINT,
        ELLIPSIS
    )
);

typed_return!(
    /// `tuple[tuple[int, int], ...]`
    Ranges, PyTuple,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "tuple"),
        type_hint_subscript!(
            type_hint_identifier!("builtins", "tuple"),
            type_hint_identifier!("builtins", "int"),
            type_hint_identifier!("builtins", "int")
        ),
        ELLIPSIS
    )
);

typed_return!(
    /// `tuple[Any, Any]`: the capsules of an Arrow schema and an Arrow array.
    Capsules, PyTuple,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "tuple"),
        type_hint_identifier!("typing", "Any"),
        type_hint_identifier!("typing", "Any")
    )
);

typed_return!(
    /// `Any`: the capsule of an Arrow stream or schema.
    Capsule, PyCapsule,
    type_hint_identifier!("typing", "Any")
);

typed_return!(
    /// `tuple[Note, ...]`
    NoteTuple, PyTuple,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "tuple"),
        <crate::note::Note as pyo3::PyTypeInfo>::TYPE_HINT,
        ELLIPSIS
    )
);

typed_return!(
    /// `Iterator[Encoding]`
    EncodingIter, PyIterator,
    type_hint_subscript!(
        type_hint_identifier!("collections.abc", "Iterator"),
        <crate::encoding::Encoding as pyo3::PyTypeInfo>::TYPE_HINT
    )
);

typed_return!(
    /// `Iterator[IntArray]`
    ArrayIter, PyIterator,
    type_hint_subscript!(
        type_hint_identifier!("collections.abc", "Iterator"),
        <crate::array::IntArray as pyo3::PyTypeInfo>::TYPE_HINT
    )
);

typed_return!(
    /// `dict[str, int]`
    StrIntDict, PyDict,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "dict"),
        type_hint_identifier!("builtins", "str"),
        type_hint_identifier!("builtins", "int")
    )
);

typed_return!(
    /// `dict[str, str]`
    StrDict, PyDict,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "dict"),
        type_hint_identifier!("builtins", "str"),
        type_hint_identifier!("builtins", "str")
    )
);

typed_return!(
    /// `dict[str, Any]`
    MessageDict, PyDict,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "dict"),
        type_hint_identifier!("builtins", "str"),
        type_hint_identifier!("typing", "Any")
    )
);

typed_return!(
    /// `list[dict[str, Any]]`
    MessageList, PyList,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "list"),
        type_hint_subscript!(
            type_hint_identifier!("builtins", "dict"),
            type_hint_identifier!("builtins", "str"),
            type_hint_identifier!("typing", "Any")
        )
    )
);

typed_return!(
    /// `dict[int, ValueError]`
    ErrorDict, PyDict,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "dict"),
        type_hint_identifier!("builtins", "int"),
        type_hint_identifier!("builtins", "ValueError")
    )
);

typed_return!(
    /// `list[Event]`
    EventList, PyList,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "list"),
        type_hint_identifier!("chatcodec.events", "Event")
    )
);

typed_return!(
    /// `tuple[list[int], list[Event]]`
    SlotEvents, PyTuple,
    type_hint_subscript!(
        type_hint_identifier!("builtins", "tuple"),
        type_hint_subscript!(
            type_hint_identifier!("builtins", "list"),
            type_hint_identifier!("builtins", "int")
        ),
        type_hint_subscript!(
            type_hint_identifier!("builtins", "list"),
            type_hint_identifier!("chatcodec.events", "Event")
        )
    )
);
