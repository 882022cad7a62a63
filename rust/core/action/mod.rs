//! What the body of an action may be.

mod bare;
mod body;
mod call;
mod kinds;
pub(crate) mod opener;
pub(crate) mod pairs;
pub(crate) mod pythonic;
mod raw;
pub(crate) mod tagged;

pub(crate) use body::Body;
pub(crate) use call::{CallScanner, Step};
pub use kinds::ToolTypes;
pub(crate) use opener::{Opener, Opening, Verdict};
pub(crate) use pairs::PairScanner;
pub(crate) use raw::RawScanner;
pub(crate) use tagged::{TaggedScanner, TaggedStyle};
