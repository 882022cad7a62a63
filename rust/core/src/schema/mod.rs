//! JSON Schemas of tools: the kinds of values that a schema allows, and the language of its values.
//!
//! `{"type": "object", "properties": {"days": {"type": "integer"}}}` gives the kind *integer* for the argument `days`,
//! by which a reader knows whether `5` is a number or a text, and the language of arguments, as a format spells them:
//! `{"days": 5}`, `days=5`, `<parameter=days>5</parameter>`.

mod in_pairs;
mod in_tags;
mod kinds;
mod numbers;
pub(crate) mod strings;
pub(crate) mod values;

pub(crate) use in_pairs::{KindWords, Pairs, arguments_in_pairs};
pub(crate) use in_tags::Elements;
pub use kinds::ToolTypes;
pub(crate) use kinds::{Kinds, Parameters, Parts, kinds_of};
