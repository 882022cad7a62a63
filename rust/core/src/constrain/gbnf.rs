//! Expressions in llama.cpp's GBNF, with control tokens by their ids.
//!
//! llama.cpp compares a control token with text by its spelling, so that text holds no spelling of one here.

use super::{Constraint, ebnf};
use crate::error::Result;
use chatcodec_vocab::TokenId;

/// A constraint in GBNF.
pub(super) fn print(constraint: &Constraint) -> Result<String> {
    let dialect = ebnf::Dialect {
        name: "llama.cpp",
        token,
        most: 2000,
        spellings: constraint
            .vocab
            .control()
            .keys()
            .filter(|key| !key.is_empty())
            .cloned()
            .collect(),
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
