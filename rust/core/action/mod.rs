//! What the body of an action may be.

mod call;
pub(crate) mod pairs;

pub(crate) use call::{CallScanner, Step};
pub(crate) use pairs::PairScanner;
