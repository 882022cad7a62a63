//! What the body of an action may be.

mod body;
mod call;
pub(crate) mod pairs;
mod raw;

pub(crate) use body::Body;
pub(crate) use call::{CallScanner, Step};
pub(crate) use pairs::PairScanner;
pub(crate) use raw::RawScanner;
