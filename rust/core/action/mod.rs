//! What the body of an action may be.

mod call;

pub(crate) use call::{CallScanner, Step};
