//! Expressions in llama.cpp's GBNF, with control tokens by their ids.
//!
//! llama.cpp compares a control token with text by its spelling, so that text holds no spelling of one here.

use super::{Constraint, ebnf};
use crate::error::Result;
use chatcodec_vocab::TokenId;

/// A constraint in GBNF.
pub(super) fn print(constraint: &Constraint) -> Result<String> {
    let keys = constraint.vocab.control().keys();
    let spellings: Vec<String> = keys.filter(|key| !key.is_empty()).cloned().collect();
    let dialect = ebnf::Dialect {
        name: "llama.cpp",
        token,
        stop: None,
        most: 2000,
        spellings: &spellings,
        known: Some(&*constraint.texts),
    };
    ebnf::print(constraint, &dialect)
}

fn token(ids: &[TokenId]) -> String {
    match ids {
        [id] => format!("<[{id}]>"),
        ids => {
            let ids: Vec<String> = ids.iter().map(|id| format!("<[{id}]>")).collect();
            format!("({})", ids.join(" | "))
        }
    }
}
